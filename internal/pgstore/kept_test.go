package pgstore_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/pgstore"
)

// TestKeptNumbersOutliveQueue: the numbers of URLs that wait in a queue can be read without
// the queue, and Keep does not write them again within the given time.
func TestKeptNumbersOutliveQueue(t *testing.T) {
	t.Parallel()
	cfg := anyCrawl(database(t))
	if _, err := pgstore.Read(t.Context(), cfg); !errors.Is(err, pgstore.ErrNoCrawl) {
		t.Errorf("Read in a database without a schema = %v, want %v", err, pgstore.ErrNoCrawl)
	}
	cfg.Card = []byte("\x00card\xff")
	set := open(t, cfg)
	want := func(waited pgstore.Waited, noted bool) pgstore.Kept {
		t.Helper()
		kept, err := pgstore.Read(t.Context(), cfg)
		must(t, err)
		if kept.Identity != cfg.Identity || !bytes.Equal(kept.Card, cfg.Card) || kept.Waited != waited || kept.At.IsZero() == noted {
			t.Errorf("Read = %+v, want the numbers %+v of the crawl %q with card %q", kept, waited, cfg.Identity, cfg.Card)
		}
		return kept
	}
	want(pgstore.Waited{}, false)
	must(t, set.Keep(t.Context(), pgstore.Waited{All: 30, Exact: 10}, time.Hour))
	first := want(pgstore.Waited{All: 30, Exact: 10}, true)
	must(t, set.Keep(t.Context(), pgstore.Waited{All: 99}, time.Hour))
	if again := want(pgstore.Waited{All: 30, Exact: 10}, true); !again.At.Equal(first.At) {
		t.Errorf("a second Keep within the hour changed the time from %v to %v, want it unchanged", first.At, again.At)
	}
	must(t, set.Keep(t.Context(), pgstore.Waited{All: 5, Exact: 5}, 0))
	want(pgstore.Waited{All: 5, Exact: 5}, true)

	joined := cfg
	joined.Card = []byte("another") // a worker that did not create the crawl; its card is not stored
	open(t, joined)
	want(pgstore.Waited{All: 5, Exact: 5}, true)

	other := anyCrawl(cfg.DSN)
	if _, err := pgstore.Read(t.Context(), other); !errors.Is(err, pgstore.ErrNoCrawl) {
		t.Errorf("Read of a crawl that does not exist = %v, want %v", err, pgstore.ErrNoCrawl)
	}
	open(t, other)
	if kept, err := pgstore.Read(t.Context(), other); err != nil || kept.Card != nil {
		t.Errorf("Read of a crawl without a card returned the card %q (%v), want none", kept.Card, err)
	}
}
