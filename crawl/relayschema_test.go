package crawl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/jsonl"
)

// answerOfEachKind is a site with a page for each outcome that an answer can have.
func answerOfEachKind(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	switch r.URL.Path {
	case "/":
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Last-Modified", "Mon, 23 Nov 2026 10:00:00 GMT")
		fmt.Fprint(w, `<html lang="en"><head><title>Home</title><link rel="canonical" href="/">`+
			`<meta name="author" content="A. Author"><meta property="article:published_time" content="2026-11-23"></head><body><article>`+
			strings.Repeat("<p>This paragraph has enough words to be taken for a part of the main text of this page.</p>", 9)+
			`</article>`)
		for _, path := range []string{"redirect", "private", "gone", "ill", "busy", "broken", "handled", "image"} {
			fmt.Fprintf(w, `<a href="/%s">%[1]s</a> `, path)
		}
		fmt.Fprint(w, `<a href="http://127.0.0.2:8080/">an address that is not allowed</a>`)
	case "/robots.txt":
		fmt.Fprint(w, "User-agent: *\nDisallow: /private\n")
	case "/redirect":
		http.Redirect(w, r, "/target", http.StatusMovedPermanently)
	case "/gone":
		http.NotFound(w, r)
	case "/ill":
		w.WriteHeader(http.StatusInternalServerError)
	case "/busy":
		w.WriteHeader(http.StatusTooManyRequests)
	case "/broken":
		panic(http.ErrAbortHandler)
	case "/image":
		w.Header().Set("Content-Type", "image/png")
	}
}

// TestEventsHaveSchema: the events of real records with each outcome match the schema in
// docs/reference, and the schema has every member of these events.
func TestEventsHaveSchema(t *testing.T) {
	t.Parallel()
	schema, err := jsonschema.NewCompiler().Compile("../docs/reference/events.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.HandlerFunc(answerOfEachKind))
	t.Cleanup(web.Close)
	c := config(t, web.URL+"/")
	c.Settings.Scope, c.Settings.Retries, c.Settings.Text, c.Settings.Save = "any", 0, true, "all"
	c.Settings.AllowNet, c.Settings.AllowPrivate, c.Settings.Backoff = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, false, time.Millisecond
	c.Settings.Fields = []crawl.FieldGroup{{Fields: []string{"heading=title", "price=.price | required"}}}
	c.OnPage = func(_ context.Context, page *crawl.Page) error {
		if strings.HasSuffix(page.URL.String(), "/handled") {
			return errors.New("not today")
		}
		return nil
	}
	if failed, is := errors.AsType[*crawl.HandlerError](crawl.Run(t.Context(), c)); !is || failed.Count != 1 {
		t.Fatalf("Run = %v, want the error of the page that was handled", failed)
	}
	boxes := outboxes(t, c)
	var lines bytes.Buffer
	if err := boxes.Relay(t.Context(), events.Config{Name: "a", Sink: jsonl.New(&lines)}, true); err != nil {
		t.Fatal(err)
	}
	record := schema.Properties["data"].AnyOf[0].Ref
	outcomes, members := make(map[string]string), make(map[string]bool)
	for line := range strings.Lines(lines.String()) {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("%s%v", line, err)
		}
		var event struct {
			Type string
			Data map[string]json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		var sent events.Event
		if err := json.Unmarshal([]byte(line), &sent); err != nil {
			t.Fatal(err)
		}
		withdrawn, err := json.Marshal(sent.Withdrawn())
		if err != nil {
			t.Fatal(err)
		}
		if value, err = jsonschema.UnmarshalJSON(bytes.NewReader(withdrawn)); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("%s: %v", withdrawn, err)
		}
		for name := range event.Data {
			if members[name] = true; record.Properties[name] == nil {
				t.Errorf("the schema does not have the member %q of\n%s", name, line)
			}
		}
		outcomes[strings.Trim(string(event.Data["outcome"]), `"`)] = event.Type
	}
	want := map[string]string{
		"ok": "page.done", "redirect": "page.done", "client_error": "page.done", "robots": "page.done", "address": "page.done", "type": "page.done",
		"server_error": "page.failed", "throttled": "page.failed", "network": "page.failed", "handler": "page.failed",
	}
	if !maps.Equal(outcomes, want) {
		t.Errorf("the types of events by outcome are %v, want %v", outcomes, want)
	}
	for _, name := range []string{"class", "redirect_to", "error", "fields", "text", "author", "published", "etag", "warc", "canonical", "incomplete"} {
		if !members[name] {
			t.Errorf("no event has the member %q; the events have %q", name, slices.Sorted(maps.Keys(members)))
		}
	}
}
