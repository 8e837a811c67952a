package crawl_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/crawl"
)

// TestReadersOfStartingAndEndingCrawl reads the records, the links and the state of a crawl while
// another process (here: another session with a lock of its own) opens and closes it some hundred
// times. No reader and no run may fail.
func TestReadersOfStartingAndEndingCrawl(t *testing.T) {
	t.Parallel()
	c := config(t, site(t))
	c.Settings.Links = true
	c.Settings.MaxPages = 1
	if err := crawl.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	read := func(what string, question func(h *crawl.Handle) error) {
		readers.Go(func() {
			n := 0
			for ; ctx.Err() == nil; n++ {
				h, err := crawl.Attach(t.Context(), c.Location())
				if err == nil {
					err = question(h)
				}
				if err != nil {
					t.Errorf("%s, reading %d: %v", what, n, err)
					return
				}
				time.Sleep(rand.N(20 * time.Millisecond)) // another process would need time to start, too
			}
			t.Logf("%s: %d readings", what, n)
		})
	}
	read("records", func(h *crawl.Handle) (failed error) {
		for _, err := range h.Records(t.Context()) {
			failed = err
		}
		return failed
	})
	read("links", func(h *crawl.Handle) (failed error) {
		for _, err := range h.Links(t.Context()).Links() {
			failed = err
		}
		return failed
	})
	read("status", func(h *crawl.Handle) error {
		_, err := h.Status(t.Context())
		return err
	})
	runs := 200
	if testing.Short() {
		runs = 40
	}
	for i := range runs {
		if err := crawl.Run(t.Context(), c); err != nil {
			t.Errorf("run %d: %v", i, err)
			break
		}
	}
	end()
	readers.Wait()
}
