package fetcher

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
)

// TestGateKeepsOrder: a gate admits as many callers as its limit allows, in the
// order of their calls, also after it was resized. It removes callers that gave up.
func TestGateKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(2)
		stop, cancel := context.WithCancel(t.Context())
		if !g.enter(stop) || !g.tryEnter() || g.tryEnter() {
			t.Fatal("a gate with the limit 2 did not admit exactly two callers")
		}
		entered := make(chan int, 8)
		for i := range 4 {
			go func() {
				if g.enter(t.Context()) {
					entered <- i
				}
			}()
			synctest.Wait()
		}
		gaveUp := make(chan bool)
		go func() { gaveUp <- !g.enter(stop) }()
		synctest.Wait()
		want := func(inside, limit, waiting, passed int) {
			t.Helper()
			synctest.Wait()
			if i, l, w := g.counts(); i != inside || l != limit || w != waiting || len(entered) != passed {
				t.Errorf("inside %d, limit %d, waiting %d, passed %d; want %d, %d, %d, %d",
					i, l, w, len(entered), inside, limit, waiting, passed)
			}
		}
		want(2, 2, 5, 0)
		g.leave()
		want(2, 2, 4, 1)
		cancel()
		if !<-gaveUp {
			t.Error("a caller whose context ended was admitted")
		}
		want(2, 2, 3, 1)
		g.resize(4)
		want(4, 4, 1, 3)
		g.resize(1)
		g.leave()
		g.leave()
		want(2, 1, 1, 3)
		g.leave()
		want(1, 1, 1, 3)
		g.leave()
		want(1, 1, 0, 4)
		for i, want := range [][]int{{0}, {1, 2}, {1, 2}, {3}} { // two were admitted at one moment
			if got := <-entered; !slices.Contains(want, got) {
				t.Errorf("caller %d was admitted at position %d, want one of the callers %v", got, i, want)
			}
		}
	})
}
