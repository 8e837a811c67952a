package eventstest

import (
	"slices"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/fetcher/record"
)

// OutboxUnderTest is an outbox that RunOutbox can fill.
type OutboxUnderTest struct {
	Outbox events.Outbox
	// Commit commits records as the crawl does. The records must be in the outbox when
	// Commit returns. It is not called concurrently.
	Commit func(records ...*record.Record) error
	// Reopen returns the outbox as another process opens it.
	Reopen func() events.Outbox
}

// RunOutbox tests the contract of events.Outbox. Each call of the function open must return
// a new, empty outbox.
func RunOutbox(t *testing.T, open func(t *testing.T) OutboxUnderTest) {
	t.Run("Empty", func(t *testing.T) { emptyOutbox(t, open(t)) })
	t.Run("Order", func(t *testing.T) { outboxOrder(t, open(t)) })
	t.Run("AnyCursor", func(t *testing.T) { anyCursor(t, open(t)) })
	t.Run("Tail", func(t *testing.T) { outboxTail(t, open(t)) })
	t.Run("Find", func(t *testing.T) { outboxFind(t, open(t)) })
	t.Run("Lag", func(t *testing.T) { outboxLag(t, open(t)) })
	t.Run("ForeignCursor", func(t *testing.T) {
		if _, _, err := open(t).Outbox.Read(t.Context(), "no cursor of anyone", 1); err == nil {
			t.Error("Read after a cursor that no outbox made: no error")
		}
	})
}

const hosts = 5

func records(from, to int) (all []*record.Record) {
	for n := from; n < to; n++ {
		all = append(all, Record(n, hosts))
	}
	return all
}

func commit(t *testing.T, o OutboxUnderTest, from, to int) {
	t.Helper()
	if err := o.Commit(records(from, to)...); err != nil {
		t.Fatalf("commit records %d to %d: %v", from, to, err)
	}
}

// readAll reads all events after a cursor, at most limit of them at a time.
func readAll(t testing.TB, o events.Outbox, after events.Cursor, limit int) (all []events.Event, end events.Cursor) {
	t.Helper()
	for {
		got, next, err := o.Read(t.Context(), after, limit)
		if err != nil {
			t.Fatalf("Read after %q: %v", after, err)
		}
		if len(got) > limit {
			t.Fatalf("Read returned %d events, want at most %d", len(got), limit)
		}
		if len(got) == 0 && next == after {
			return all, next
		}
		all, after = append(all, got...), next
	}
}

func emptyOutbox(t *testing.T, o OutboxUnderTest) {
	if got, _ := readAll(t, o.Outbox, "", 10); len(got) > 0 {
		t.Errorf("an empty outbox has the events %v, want none", IDs(got))
	}
	lag, err := o.Outbox.Lag(t.Context(), "")
	if err != nil || lag != (events.Lag{}) {
		t.Errorf("Lag of an empty outbox = %+v, %v; want 0", lag, err)
	}
}

// outboxOrder checks that the outbox returns the event of each record, and the events of
// a host in order.
func outboxOrder(t *testing.T, o OutboxUnderTest) {
	commit(t, o, 0, 100)
	got, _ := readAll(t, o.Outbox, "", 7)
	CheckOnce(t, got, 0, 100, hosts)
	want := make(map[string]events.Event)
	for n := range 100 {
		e := Event(n, hosts)
		want[e.ID] = e
	}
	for _, e := range got {
		w := want[e.ID]
		if e.Type != w.Type || e.Subject != w.Subject || !e.Time.Equal(w.Time) || e.Host != w.Host || len(e.Source) == 0 {
			t.Errorf("Read returned the event %+v, want %+v", e, w)
		}
		if back, err := events.FromRecord(e.Source, e.Data); err != nil || back.ID != e.ID || back.Subject != e.Subject {
			t.Errorf("Data of %s is not its record: %v\n%s", e.ID, err, e.Data)
		}
	}
}

// anyCursor checks that reading can continue after each event, also in another process.
func anyCursor(t *testing.T, o OutboxUnderTest) {
	commit(t, o, 0, 40)
	all, end := readAll(t, o.Outbox, "", 1000)
	for i, e := range all {
		again := o.Outbox
		if i%3 == 0 {
			again = o.Reopen()
		}
		if rest, _ := readAll(t, again, e.Cursor, 1+i%9); !slices.Equal(IDs(rest), IDs(all[i+1:])) {
			t.Fatalf("Read after event %d (%q) returned the events\n%v, want\n%v", i, e.Cursor, IDs(rest), IDs(all[i+1:]))
		}
	}
	if rest, _ := readAll(t, o.Reopen(), end, 10); len(rest) > 0 {
		t.Errorf("Read after the last event returned the events %v, want none", IDs(rest))
	}
}

// outboxTail checks that records committed later are returned later, and that no record
// is returned twice.
func outboxTail(t *testing.T, o OutboxUnderTest) {
	var all []events.Event
	at := events.Cursor("")
	for n := 0; n < 60; n += 6 {
		commit(t, o, n, n+6)
		got, next := readAll(t, o.Outbox, at, 4)
		all, at = append(all, got...), next
		CheckOnce(t, all, 0, n+6, hosts)
	}
}

func outboxFind(t *testing.T, o OutboxUnderTest) {
	commit(t, o, 0, 20)
	end, err := o.Outbox.Find(t.Context(), time.Time{})
	must(t, err)
	begin, err := o.Outbox.Find(t.Context(), time.Unix(1, 0))
	must(t, err)
	commit(t, o, 20, 30)
	got, _ := readAll(t, o.Outbox, end, 100)
	CheckOnce(t, got, 20, 30, hosts)
	got, _ = readAll(t, o.Outbox, begin, 100)
	CheckOnce(t, got, 0, 30, hosts)
}

func outboxLag(t *testing.T, o OutboxUnderTest) {
	commit(t, o, 0, 50)
	all, _ := readAll(t, o.Outbox, "", 1000)
	last := events.Lag{Events: 51, Bytes: 1 << 60}
	for i := -1; i < len(all); i += 10 {
		at, rest := events.Cursor(""), all
		if i >= 0 {
			at, rest = all[i].Cursor, all[i+1:]
		}
		lag, err := o.Outbox.Lag(t.Context(), at)
		if err != nil || lag.Events != uint64(len(rest)) || lag.Bytes >= last.Bytes || (lag.Bytes == 0) != (len(rest) == 0) {
			t.Errorf("Lag after event %d = %+v, %v; want %d events and fewer than %d bytes", i, lag, err, len(rest), last.Bytes)
		}
		if len(rest) > 0 && !lag.Oldest.Equal(rest[0].Time) {
			t.Errorf("Lag after event %d: oldest %v, want %v", i, lag.Oldest, rest[0].Time)
		}
		last = lag
	}
	if lag, err := o.Outbox.Lag(t.Context(), all[len(all)-1].Cursor); err != nil || lag != (events.Lag{}) {
		t.Errorf("Lag after the last event = %+v, %v; want 0", lag, err)
	}
}

// BenchOutbox measures how many events and bytes per second are read from an outbox of n
// records.
func BenchOutbox(b *testing.B, o OutboxUnderTest, n int) {
	for from := 0; from < n; from += 1000 {
		if err := o.Commit(records(from, min(n, from+1000))...); err != nil {
			b.Fatal(err)
		}
	}
	total, bytes := 0, 0
	for b.Loop() {
		all, _ := readAll(b, o.Reopen(), "", 256)
		total += len(all)
		for i := range all {
			bytes += len(all[i].Data)
		}
	}
	if want := n * b.N; total != want {
		b.Fatalf("read %d events, want %d", total, want)
	}
	b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "events/s")
	b.SetBytes(int64(bytes / b.N))
}
