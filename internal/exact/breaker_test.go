package exact_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// gate is a Set that counts calls and returns the error err from each call.
type gate struct {
	exact.Set
	mu    sync.Mutex
	calls int
	err   error
}

func (g *gate) call() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	return g.err
}

func (g *gate) set(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

func (g *gate) Decide(context.Context, []exact.Key) ([]exact.Answer, error) {
	return nil, g.call()
}

func (g *gate) Finish(context.Context, []exact.Finished, []exact.Row) error {
	return g.call()
}

func TestBreakerMakesNoCallsWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{}
		b := exact.NewBreaker(g, time.Second)
		decide := func(wantCalls int, wantAway bool) {
			t.Helper()
			_, err := b.Decide(t.Context(), nil)
			if g.calls != wantCalls || b.Away() != wantAway || errors.Is(err, frontier.ErrUnavailable) != wantAway {
				t.Errorf("the set got %d calls, Away() = %t, error %v; want %d calls, %t", g.calls, b.Away(), err, wantCalls, wantAway)
			}
		}
		decide(1, false)
		g.err = errors.New("a bad statement") // does not mean that the set is away
		decide(2, false)
		g.err = frontier.ErrUnavailable
		decide(3, true)
		decide(3, true)
		time.Sleep(time.Second)
		decide(3, true)
		time.Sleep(time.Nanosecond)
		decide(4, true) // one call reaches the set
		decide(4, true)
		g.err = nil
		decide(4, true)
		time.Sleep(time.Second + 1)
		decide(5, false)
		decide(6, false)
	})
}

// TestOneCallProbesTheSet: only one of many calls after the pause reaches the set.
func TestOneCallProbesTheSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowGate{err: frontier.ErrUnavailable}
		b := exact.NewBreaker(slow, time.Second)
		_, _ = b.Decide(t.Context(), nil)
		time.Sleep(2 * time.Second)
		for range 10 {
			go func() { _, _ = b.Decide(t.Context(), nil) }()
		}
		synctest.Wait()
		if calls := slow.calls.Load(); calls != 2 {
			t.Errorf("%d calls reached the set, want 2: the first and one after the pause", calls)
		}
		time.Sleep(time.Minute)
	})
}

// slowGate answers after half a second.
type slowGate struct {
	exact.Set
	calls atomic.Int64
	err   error
}

func (g *slowGate) Decide(context.Context, []exact.Key) ([]exact.Answer, error) {
	g.calls.Add(1)
	time.Sleep(500 * time.Millisecond)
	return nil, g.err
}

// TestSyncWaitsWhileAway: if Hold is set, Sync waits until the set is available again or
// Hold is closed.
func TestSyncWaitsWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{err: frontier.ErrUnavailable}
		stop := make(chan struct{})
		out := exact.NewOutput(exact.OutputConfig{Set: exact.NewBreaker(g, time.Second), Rows: true, Hold: stop})
		out.Append(exact.Row{URL: "a"})
		time.AfterFunc(time.Hour, func() { g.set(nil) })
		begin := time.Now()
		if _, err := out.Sync(); err != nil || time.Since(begin) < time.Hour || g.calls > 3700 {
			t.Errorf("Sync returned %v after %v and %d calls; want no error after an hour and at most 3700 calls", err, time.Since(begin), g.calls)
		}
		if calls := g.calls; calls > 0 {
			if _, err := out.Sync(); err != nil || g.calls != calls {
				t.Errorf("a second Sync made %d calls, error %v; want none", g.calls-calls, err)
			}
		}
		g.set(frontier.ErrUnavailable)
		out.Append(exact.Row{URL: "b"})
		time.AfterFunc(time.Minute, func() { close(stop) })
		if _, err := out.Sync(); !errors.Is(err, frontier.ErrUnavailable) {
			t.Errorf("Sync after Hold was closed: %v, want ErrUnavailable", err)
		}
	})
}

// TestForwarderRuns: the forwarder queues keys that wait in the set. Even if no other calls are made,
// the forwarder notices that the set is back. The forwarder stops when its context ends.
func TestForwarderRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, exact.Windows{}, 0)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- d.forwarder.Run(ctx) }()
		d.weak.set(func(string, int) (before, after bool) { return true, false })
		time.Sleep(time.Minute)
		d.weak.set(nil)
		time.Sleep(2 * time.Second)
		d.offer(frontier.Added, d.page(3))
		page := d.page(2)
		key := exact.Key{Fingerprint: d.queue.Hasher().Fingerprint(page.URL), URL: page.URL, Class: page.Class}
		if _, err := d.weak.Decide(t.Context(), []exact.Key{key}); err != nil { // its caller dies
			t.Fatal(err)
		}
		d.clock.Advance(61 * time.Second)
		time.Sleep(11 * time.Second)
		d.state(page, exact.Queued, 0)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run returned %v after its context ended, want no error", err)
		}
	})
}

// The method named set replaces the function that decides which calls of w fail.
func (w *weak) set(fails func(op string, call int) (before, after bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fails = fails
}
