package jsonl_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/eventstest"
	"github.com/bloomfrontier/crawler/events/jsonl"
)

func TestContract(t *testing.T) {
	eventstest.RunSink(t, func(t *testing.T) eventstest.SinkUnderTest {
		var out bytes.Buffer
		return eventstest.SinkUnderTest{
			Sink:     jsonl.New(&out),
			Received: func() []events.Event { return parse(t, out.String()) },
		}
	})
}

func parse(t *testing.T, text string) []events.Event {
	t.Helper()
	var all []events.Event
	for line := range strings.Lines(text) {
		var e events.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}

// TestLinesSayWhereToGoOn: lines are in the outbox's order. A relay with another name that
// begins at the cursor of a line continues with the next line.
func TestLinesSayWhereToGoOn(t *testing.T) {
	outbox := new(eventstest.Outbox)
	for n := range 20 {
		outbox.Append(eventstest.Event(n, 3))
	}
	relay := func(name string, from events.Cursor) []string {
		var out bytes.Buffer
		err := events.Run(t.Context(), events.Config{
			Name: name, Outbox: outbox, Progress: new(eventstest.Progress), Sink: jsonl.New(&out), From: events.From{Cursor: from},
		}, true)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	}
	all := relay("first", "")
	var seventh struct{ Cursor events.Cursor }
	if err := json.Unmarshal([]byte(all[6]), &seventh); err != nil {
		t.Fatal(err)
	}
	rest := relay("second", seventh.Cursor)
	if got, want := strings.Join(rest, "\n"), strings.Join(all[7:], "\n"); len(all) != 20 || got != want {
		t.Errorf("after the cursor %q come\n%s\nwant\n%s", seventh.Cursor, got, want)
	}
}

// full is a disk that is full after some bytes, and then has room again.
type full struct {
	bytes.Buffer
	room int
}

func (f *full) Write(b []byte) (int, error) {
	n := min(len(b), f.room)
	f.room -= n
	f.Buffer.Write(b[:n])
	if n < len(b) {
		return n, errors.New("no space left on device")
	}
	return n, nil
}

// TestBrokenLine: if an error cuts off the line of an event, the event is written again on
// a new line.
func TestBrokenLine(t *testing.T) {
	out := &full{room: 700}
	sink := jsonl.New(out)
	batch := []events.Event{eventstest.Event(0, 2), eventstest.Event(1, 2)}
	errs := sink.Send(t.Context(), batch)
	if len(errs) != 2 || errs[0] == nil || errs[1] == nil {
		t.Fatalf("Send of two events to a full disk: errors %v, want two", errs)
	}
	out.room = 1 << 20
	if errs := sink.Send(t.Context(), batch); errs[0] != nil || errs[1] != nil {
		t.Fatal(errs)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(out.String(), "\n"), "\n")
	if got := parse(t, strings.Join(lines[len(lines)-2:], "")); got[0].ID != batch[0].ID || got[1].ID != batch[1].ID {
		t.Errorf("the last two lines are events %s and %s, want %s and %s", got[0].ID, got[1].ID, batch[0].ID, batch[1].ID)
	}
}
