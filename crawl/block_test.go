package crawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/fetcher/record"
)

// refusing is a sink that accepts no event, for good.
type refusing struct{}

func (refusing) Send(_ context.Context, all []events.Event) []error {
	errs := make([]error, len(all))
	for i := range errs {
		errs[i] = &events.RefusedError{Reason: "no"}
	}
	return errs
}

func (refusing) Close() error { return nil }

// TestBlockRemovesLetters: no dead letter has a page that is blocked, so it cannot be sent again. The others stay.
func TestBlockRemovesLetters(t *testing.T) {
	t.Parallel()
	c := config(t, site(t))
	c.Events = &events.Config{Sink: refusing{}}
	completed(t, c)
	h := attach(t, c)
	boxes, err := h.Outboxes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer boxes.Close()
	list, err := boxes.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	urls := func() (all []string) {
		letters, err := list[0].Dead(t.Context(), "default")
		if err != nil {
			t.Fatal(err)
		}
		for i := range letters {
			all = append(all, letters[i].Event.Subject)
		}
		return all
	}
	before := urls()
	if len(before) < 2 {
		t.Fatalf("dead letters of %q, want two or more", before)
	}
	b := crawl.Block{URLs: before[1:2], Who: "a@test", Dry: true}
	for _, dry := range []bool{true, false} {
		b.Dry = dry
		if r, err := h.Block(t.Context(), b); err != nil || r.Letters != 1 {
			t.Errorf("dry %t: %d letters, %v, want 1", dry, r.Letters, err)
		}
	}
	saved, _, err := list[0].Load(t.Context(), "default")
	if err != nil || saved.Dead != uint64(len(before)-1) {
		t.Errorf("%d dead letters, %v, want %d", saved.Dead, err, len(before)-1)
	}
	if after, want := urls(), slices.Delete(slices.Clone(before), 1, 2); !slices.Equal(after, want) {
		t.Errorf("dead letters of %q, want %q", after, want)
	}
}

// TestReadmitBlocked: a URL that is blocked is not let in again, because links to it are refused.
func TestReadmitBlocked(t *testing.T) {
	t.Parallel()
	c := config(t, site(t))
	completed(t, c)
	h := attach(t, c)
	var url string
	known := 0
	for line, err := range h.Records(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		e, _ := events.FromRecord("", line)
		url = e.Subject
		known++
	}
	if _, err := h.Block(t.Context(), crawl.Block{URLs: []string{url}, Who: "a@test"}); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		_, err := h.Readmit(t.Context(), crawl.Readmit{URLs: []string{url}, Dry: dry})
		if !errors.Is(err, crawl.ErrRefused) || !strings.Contains(err.Error(), "--undo") {
			t.Errorf("dry %t: %v, want that the URL is blocked", dry, err)
		}
	}
	all, err := h.Readmit(t.Context(), crawl.Readmit{Rule: "match=."})
	if err != nil || all.Readmitted != uint64(known-1) {
		t.Errorf("by a rule: %+v, %v, want all but the blocked one", all, err)
	}
	if _, err := h.Block(t.Context(), crawl.Block{URLs: []string{url}, Who: "a@test", Undo: true}); err != nil {
		t.Fatal(err)
	}
	if one, err := h.Readmit(t.Context(), crawl.Readmit{URLs: []string{url}}); err != nil || one.Readmitted != 1 {
		t.Errorf("after the block: %+v, %v, want one readmitted", one, err)
	}
}

// TestBlockedIsNotVisitedAgain: a page that is blocked is neither requested nor queued for its next visit, which would make a record of a
// dropped URL each time. Others are visited on.
func TestBlockedIsNotVisitedAgain(t *testing.T) {
	t.Parallel()
	c := config(t, site(t))
	c.Settings.Recrawl, c.Settings.RecrawlEvery, c.Settings.MaxTime = "1s", "1s..1h", 3*time.Second
	completed(t, c)
	h := attach(t, c)
	last := func() (rounds map[string]int) {
		rounds = make(map[string]int)
		lines := record.Reader{Dir: c.Dir, Series: record.Pages}.Lines()
		for line, err := range lines {
			if err != nil {
				t.Fatal(err)
			}
			var r record.Record
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatal(err)
			}
			rounds[r.URL] = r.Round
		}
		return rounds
	}
	before := last()
	var url string
	for url = range before {
		break
	}
	if _, err := h.Block(t.Context(), crawl.Block{URLs: []string{url}, Who: "a@test"}); err != nil {
		t.Fatal(err)
	}
	c.Settings.MaxTime = 5 * time.Second
	completed(t, c)
	most := 0
	for other, round := range last() {
		if grown := round - before[other]; other == url && grown > 1 { // it may have been in the queue
			t.Errorf("%s has %d further rounds", url, grown)
		} else if most = max(most, grown); other != url && grown == 0 {
			t.Errorf("%s has no further round", other)
		}
	}
	if most < 2 {
		t.Errorf("pages have at most %d further rounds, want two or more", most)
	}
}
