package crawl_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/events"
)

// memorySink counts events by id. While away is set, it accepts no events.
type memorySink struct {
	mu   sync.Mutex
	away bool
	got  map[string]int
}

func newMemorySink() *memorySink { return &memorySink{got: make(map[string]int)} }

// Send implements events.Sink.
func (s *memorySink) Send(_ context.Context, all []events.Event) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := make([]error, len(all))
	for i, e := range all {
		if s.away {
			errs[i] = errors.New("connection refused")
		} else {
			s.got[e.ID]++
		}
	}
	return errs
}

// Close implements events.Sink.
func (s *memorySink) Close() error { return nil }

// ids returns the ids of the events that arrived, each once.
func (s *memorySink) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.got))
}

// idsOf returns the ids of the events of the crawl's records.
func idsOf(t *testing.T, h *crawl.Handle) (all []string) {
	t.Helper()
	for line, err := range h.Records(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		e, err := events.FromRecord("", line)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.ID)
	}
	slices.Sort(all)
	return all
}

// attach returns a Handle on the crawl that c describes.
func attach(t *testing.T, c crawl.Config) *crawl.Handle {
	t.Helper()
	h, err := crawl.Attach(t.Context(), c.Location())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// completed runs a crawl until it ends, and returns the result.
func completed(t *testing.T, c crawl.Config) *crawl.Result {
	t.Helper()
	opened, err := crawl.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	result, err := opened.Run(t.Context())
	if err = errors.Join(err, opened.Close()); err != nil {
		t.Fatal(err)
	}
	return result
}

// TestRunDeliversItsEvents: a run delivers the events of its pages before it ends, and
// its report says that all are delivered.
func TestRunDeliversItsEvents(t *testing.T) {
	t.Parallel()
	sink := newMemorySink()
	c := config(t, site(t))
	c.Events = &events.Config{Sink: sink}
	result := completed(t, c)
	if got, want := sink.ids(), idsOf(t, attach(t, c)); !slices.Equal(got, want) || len(got) == 0 {
		t.Errorf("delivered %q, want %q", got, want)
	}
	if r := result.Report.Relays; len(r) != 1 || r[0].Name != "default" || r[0].Words() != "all delivered" {
		t.Errorf("the report has the relays %+v, want only default, with all events delivered", r)
	}
}

// TestRunEndsWhileSinkIsAway: a crawl ends although its sink is unavailable. A separate
// relay delivers the remaining events, from where the crawl's relay stopped.
func TestRunEndsWhileSinkIsAway(t *testing.T) {
	t.Parallel()
	sink := newMemorySink()
	sink.away = true
	c := config(t, site(t))
	c.Events, c.Settings.Grace = &events.Config{Sink: sink, Name: "index"}, 2*time.Second
	result := completed(t, c)
	want := idsOf(t, attach(t, c))
	if r := result.Report.Relays; len(r) != 1 || r[0].Events != uint64(len(want)) || r[0].Bytes == 0 || !strings.Contains(r[0].Away, "connection refused") {
		t.Errorf("the report has the relays %+v, want only index, with %d undelivered events and the error of its sink", r, len(want))
	}
	sink.away = false
	boxes := outboxes(t, c)
	if err := boxes.Relay(t.Context(), events.Config{Sink: sink, Name: "index"}, true); err != nil {
		t.Fatal(err)
	}
	if got := sink.ids(); !slices.Equal(got, want) {
		t.Errorf("delivered %q, want %q", got, want)
	}
	if relays, err := boxes.Relays(t.Context()); err != nil || len(relays) != 1 || relays[0].Words() != "all delivered" {
		t.Errorf("Relays = %+v, %v; want only index, with all events delivered", relays, err)
	}
	st, err := attach(t, c).Status(t.Context())
	if err != nil || len(st.Relays) != 1 || st.Relays[0].Name != "index" {
		t.Errorf("Status has the relays %+v, %v; want only index", st.Relays, err)
	}
}

// TestRunReportsFailedRelay: if the relay of a run fails, the report has its error.
func TestRunReportsFailedRelay(t *testing.T) {
	t.Parallel()
	c := config(t, site(t))
	c.Events = &events.Config{Sink: newMemorySink(), Name: "index", From: events.From{Cursor: "tomorrow"}}
	c.Settings.Grace = 100 * time.Millisecond
	result := completed(t, c)
	if r := result.Report.Relays; len(r) != 1 || r[0].Title() != "index" || !strings.Contains(r[0].Words(), `begin relay "index" at "tomorrow"`) {
		t.Errorf("the report has the relays %+v, want only index, with the error of its cursor", r)
	}
}

// outboxes returns the outboxes of a crawl that is not running. They are closed at the
// end of the test.
func outboxes(t *testing.T, c crawl.Config) *crawl.Outboxes {
	t.Helper()
	boxes, err := attach(t, c).Outboxes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = boxes.Close() })
	return boxes
}

// TestRelayDeliversLaterRuns: a relay that started between two runs delivers the events of
// both. A second relay of the same name is refused.
func TestRelayDeliversLaterRuns(t *testing.T) {
	t.Parallel()
	web := site(t)
	c := config(t, web)
	c.Settings.MaxPages = 1
	if err := crawl.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	boxes := outboxes(t, c)
	sink := newMemorySink()
	relay := events.Config{Sink: sink, Name: "a", Poll: 10 * time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error)
	go func() { ended <- boxes.Relay(ctx, relay, false) }()
	await := func(want int) {
		t.Helper()
		for until := time.Now().Add(20 * time.Second); len(sink.ids()) < want; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("%d events after 20 s, want %d", len(sink.ids()), want)
			}
		}
	}
	await(1)
	if err := boxes.Relay(t.Context(), relay, false); !errors.Is(err, events.ErrLocked) {
		t.Errorf("a second relay with the same name: %v, want ErrLocked", err)
	}
	c.Settings.MaxPages = 0
	if err := crawl.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	want := idsOf(t, attach(t, c))
	await(len(want))
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := sink.ids(); !slices.Equal(got, want) || len(want) < 2 {
		t.Errorf("delivered %q, want %q", got, want)
	}
}

// saying is a log writer that closes a channel when a line with a given text is written.
type saying struct {
	word string
	once sync.Once
	said chan struct{}
}

// Write implements io.Writer.
func (s *saying) Write(p []byte) (int, error) {
	if strings.Contains(string(p), s.word) {
		s.once.Do(func() { close(s.said) })
	}
	return len(p), nil
}

// TestRunStandsByForOtherRelay: a crawl with Events stands by while another process
// runs a relay of the same name. After that relay has ended, the crawl delivers the
// remaining events.
func TestRunStandsByForOtherRelay(t *testing.T) {
	t.Parallel()
	c := config(t, site(t))
	c.Settings.MaxPages = 1
	if err := crawl.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	boxes := outboxes(t, c)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	other, own, log := newMemorySink(), newMemorySink(), &saying{word: "the relay stands by: another process runs it", said: make(chan struct{})}
	locked, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		var once sync.Once
		ended <- boxes.Relay(ctx, events.Config{Sink: other, Name: "a", OnState: func(s events.State) {
			if s.Delivered > 0 {
				once.Do(func() { close(locked) })
			}
		}}, false)
	}()
	<-locked
	c.Settings.MaxPages, c.Events, c.Logger = 0, &events.Config{Sink: own, Name: "a"}, slog.New(slog.NewTextHandler(log, nil))
	var pages atomic.Int32
	c.OnPage = func(context.Context, *crawl.Page) error {
		if pages.Add(1) == 2 { // the last page
			select {
			case <-log.said:
			case <-time.After(20 * time.Second):
				t.Error("after 20 s the crawl has not logged that it stands by")
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		return nil
	}
	if err := crawl.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	want, both := idsOf(t, attach(t, c)), slices.Concat(other.ids(), own.ids())
	slices.Sort(both)
	if !slices.Equal(slices.Compact(both), want) || len(want) != 3 || len(own.ids()) == 0 {
		t.Errorf("the other relay delivered %q and the crawl %q; want %q together, and the last one by the crawl", other.ids(), own.ids(), want)
	}
}

// TestRunWaitsForLockOfReader: a run waits while a process that only reads the crawl
// holds the lock of the crawl.
func TestRunWaitsForLockOfReader(t *testing.T) {
	t.Parallel()
	c := config(t, site(t))
	if err := crawl.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	lock, err := vfs.Default.Lock(filepath.Join(c.Dir, "LOCK"))
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, func() { _ = lock.Close() })
	if err := crawl.Run(t.Context(), c); err != nil {
		t.Errorf("Run while a reader held the lock for 100 ms: %v, want no error", err)
	}
}
