package events_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/eventstest"
	"github.com/bloomfrontier/crawler/fetcher/record"
)

// commitTo returns a function that commits records to an outbox in memory.
func commitTo(o *eventstest.Outbox) func(...*record.Record) error {
	return func(records ...*record.Record) error {
		for _, r := range records {
			line, err := r.AppendLine(nil)
			if err != nil {
				return err
			}
			e, err := events.FromRecord("urn:crawler:test", line)
			if err != nil {
				return err
			}
			o.Append(e)
		}
		return nil
	}
}

const done = `{"url":"http://a.example/?x=1\u0026y","host":"a.example","outcome":"ok","status":200,"depth":1,"id":"0001020304050607",` +
	`"attempts":1,"round":3,"fetched_at":"2026-11-23T10:00:00.123Z","duration_ms":1,"bytes":3,"links_found":0,"links_added":0,` +
	`"fields":{"fingerprint":"x","round":9,"host":[1]},"fingerprint":"000102030405060708090a0b0c0d0eff"}`

// TestFromRecord: the attributes of an event come from its record, and not from fields of
// the page with the same names.
func TestFromRecord(t *testing.T) {
	e, err := events.FromRecord(events.Source("c1"), []byte(done+"\n"))
	want := events.Event{
		ID: "000102030405060708090a0b0c0d0eff-3", Source: "urn:crawler:c1", Type: events.PageDone, Subject: "http://a.example/?x=1&y",
		Time: time.Date(2026, 11, 23, 10, 0, 0, 123e6, time.UTC), Host: "a.example", Data: json.RawMessage(done),
	}
	if err != nil || !reflect.DeepEqual(e, want) {
		t.Errorf("FromRecord = %+v, %v\nwant %+v", e, err, want)
	}
	failed, err := events.FromRecord("x", []byte(strings.Replace(done, `"ok"`, `"network"`, 1)))
	if err != nil || failed.Type != events.PageFailed {
		t.Errorf("the event of a failed record has type %q, %v; want %q", failed.Type, err, events.PageFailed)
	}
	for text, want := range map[string]string{
		strings.Replace(done, `,"fingerprint":"0`, `,"f":"0`, 1):             "no fingerprint",
		strings.Replace(done, `"000102030405060708`, `"0001020304050608`, 1): "32 hex digits",
		strings.Replace(done, `0d0eff"}`, `0d0eff00"}`, 1):                   "32 hex digits",
		strings.Replace(done, `0d0eff"}`, `0d0efg"}`, 1):                     "32 hex digits",
		strings.Replace(done, `"ok"`, `"great"`, 1):                          `"great"`,
		done[:50]:                       "not a record",
		`{"void":true,"round":0}`:       "outcome",
		strings.Repeat("\x00", 40):      "not a record",
		`{"source":"http://a.example/"`: "not a record",
	} {
		if _, err := events.FromRecord("x", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("FromRecord(%s): %v, want an error that says %q", text, err, want)
		}
	}
	_, err = events.FromRecord("x", []byte(strings.Replace(done, `,"fingerprint":"0`, `,"f":"0`, 1)))
	if !errors.Is(err, events.ErrNoFingerprint) {
		t.Errorf("FromRecord of a record without a fingerprint: %v, want ErrNoFingerprint", err)
	}
}

// TestJSON: an event is the same after it was written as JSON and read back, and its data
// are the same bytes.
func TestJSON(t *testing.T) {
	for n := range 20 {
		e := eventstest.Event(n, 3)
		text, err := e.AppendJSON([]byte("prefix"))
		if err != nil {
			t.Fatal(err)
		}
		var back events.Event
		if err := json.Unmarshal(text[len("prefix"):], &back); err != nil || !reflect.DeepEqual(back, e) {
			t.Errorf("%s\nwas read as %+v, %v\nwant %+v", text, back, err, e)
		}
		again, err := json.Marshal(e)
		if err != nil || string(again) != string(text[len("prefix"):]) {
			t.Errorf("Marshal: %s, %v\nwant %s", again, err, text[len("prefix"):])
		}
	}
	if _, err := (&events.Event{ID: "x"}).AppendJSON(nil); err == nil {
		t.Error("AppendJSON of an event without data: no error")
	}
	var e events.Event
	if err := json.Unmarshal([]byte(`{"specversion":"0.3","id":"x"}`), &e); err == nil || !strings.Contains(err.Error(), "0.3") {
		t.Errorf("Unmarshal of another version of CloudEvents: error %v, want one that names 0.3", err)
	}
}

// schema returns the JSON schema from the documentation.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	const name = "../docs/reference/events.schema.json"
	text, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	doc, err := jsonschema.UnmarshalJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("events.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("events.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// TestSchema validates events against the schema from the documentation, and checks that the
// schema refuses faulty events.
func TestSchema(t *testing.T) {
	s := schema(t)
	valid := func(text string) error {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return s.Validate(value)
	}
	text := func(e events.Event) string {
		b, err := e.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for n := range 20 {
		if err := valid(text(eventstest.Event(n, 3))); err != nil {
			t.Error(err)
		}
	}
	e, err := events.FromRecord("urn:crawler:00", []byte(done))
	if err != nil {
		t.Fatal(err)
	}
	good := text(e)
	if err := valid(good); err != nil {
		t.Error(err)
	}
	for _, broken := range []struct{ old, new string }{
		{`"specversion":"1.0"`, `"specversion":"0.3"`},
		{`"partitionkey":"a.example",`, ``},
		{`"id":"0`, `"id":"x`},
		{`"outcome":"ok"`, `"outcome":"great"`},
		{`"type":"page.done"`, `"type":"page"`},
		{`"fetched_at":"2026-11-23T10:00:00.123Z"`, `"fetched_at":"yesterday"`},
		{`"round":3`, `"round":-1`},
		{`,"fingerprint":"0`, `,"f":"0`},
	} {
		text := strings.Replace(good, broken.old, broken.new, 1)
		if text == good {
			t.Fatalf("the text to replace, %s, is not in %s", broken.old, good)
		}
		if valid(text) == nil {
			t.Errorf("the schema accepts %s", text)
		}
	}
}

// TestSetHeaders: attributes are headers, percent-encoded as the HTTP binding of CloudEvents says.
func TestSetHeaders(t *testing.T) {
	h := make(http.Header)
	(&events.Event{
		ID: "1-0", Source: "urn:crawler:1", Type: events.PageDone, Subject: "http://a.test/100%?q=\"ü\" x", Time: time.UnixMilli(1).UTC(),
	}).SetHeaders(h)
	want := http.Header{
		"Ce-Specversion": {"1.0"}, "Ce-Id": {"1-0"}, "Ce-Source": {"urn:crawler:1"}, "Ce-Type": {"page.done"},
		"Ce-Subject": {"http://a.test/100%25?q=%22%C3%BC%22%20x"}, "Ce-Time": {"1970-01-01T00:00:00.001Z"},
	}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("headers %v, want %v", h, want)
	}
}
