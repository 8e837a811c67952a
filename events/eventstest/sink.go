package eventstest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/events"
)

// SinkUnderTest is a sink with a receiver whose events RunSink can read.
type SinkUnderTest struct {
	Sink events.Sink
	// Received returns the events that the receiver has so far, in the order in which they
	// arrived. It must return all acknowledged events. It can wait for them.
	Received func() []events.Event
}

// RunSink tests the contract of events.Sink with a receiver that accepts everything. Each
// event must arrive unchanged, and the events of a host in order. RunSink does not test
// refusals and unavailable receivers: the packages of the sinks have tests of their own.
func RunSink(t *testing.T, open func(t *testing.T) SinkUnderTest) {
	t.Run("Whole", func(t *testing.T) {
		s := open(t)
		var sent []events.Event
		for n := 0; n < 3*hosts; n += hosts {
			batch := madeUp(n, n+hosts)
			errs := s.Sink.Send(t.Context(), batch)
			if len(errs) != len(batch) || slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
				t.Fatalf("Send of %d events returned the errors %v, want none for each event", len(batch), errs)
			}
			sent = append(sent, batch...)
		}
		got := make(map[string]events.Event)
		for _, e := range s.Received() {
			got[e.ID] = e
		}
		for _, want := range sent {
			e := got[want.ID]
			if e.Source != want.Source || e.Type != want.Type || e.Subject != want.Subject || !e.Time.Equal(want.Time) ||
				e.Host != want.Host || string(e.Data) != string(want.Data) {
				t.Errorf("received %+v\nwant %+v", e, want)
			}
		}
		if len(got) != len(sent) {
			t.Errorf("received %d events, want %d", len(got), len(sent))
		}
		must(t, s.Sink.Close())
	})
	t.Run("Run", func(t *testing.T) {
		s := open(t)
		outbox := new(Outbox)
		outbox.Append(madeUp(0, 500)...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := events.Run(ctx, events.Config{Name: "r", Outbox: outbox, Sink: s.Sink, Progress: new(Progress)}, true); err != nil || ctx.Err() != nil {
			t.Fatal(err, ctx.Err())
		}
		CheckOnce(t, firsts(s.Received()), 0, 500, hosts)
		must(t, s.Sink.Close())
	})
	t.Run("Ended", func(t *testing.T) {
		s := open(t)
		must(t, s.Sink.Send(t.Context(), []events.Event{Event(0, hosts)})[0])
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for i, err := range s.Sink.Send(ctx, []events.Event{Event(1, hosts), Event(2, hosts)}) {
			if err == nil { // acknowledged before the sink noticed the end of ctx
				continue
			}
			if _, away := errors.AsType[*events.AwayError](err); !away {
				t.Errorf("event %d after the end of the context: %v, want an AwayError", i+1, err)
			}
		}
		must(t, s.Sink.Close())
	})
}

// madeUp returns the events with the numbers first to end-1.
func madeUp(first, end int) (all []events.Event) {
	for n := first; n < end; n++ {
		all = append(all, Event(n, hosts))
	}
	return all
}

// firsts returns the events without repeats.
func firsts(all []events.Event) []events.Event {
	seen := make(map[string]bool)
	return slices.DeleteFunc(slices.Clone(all), func(e events.Event) bool {
		was := seen[e.ID]
		seen[e.ID] = true
		return was
	})
}

// Missing returns the wanted ids that got does not contain, sorted.
func Missing(got, want []string) []string {
	left := slices.DeleteFunc(slices.Clone(want), func(id string) bool { return slices.Contains(got, id) })
	slices.Sort(left)
	return slices.Compact(left)
}
