package changes

import (
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloomfrontier/crawler/crawl/table"
	"github.com/bloomfrontier/crawler/fetcher/record"
)

// page1 returns the record of a page in a round. The time of the fetch is in minutes.
func page1(url string, round, minute, status int, title string) record.Record {
	return record.Record{URL: url, Outcome: "ok", Round: round, Status: status, Title: title, FetchedAt: time.Unix(int64(minute)*60, 0).UTC()}
}

func linesOf(t *testing.T, records ...record.Record) table.Lines {
	t.Helper()
	return func(yield func([]byte, error) bool) {
		for _, r := range records {
			line, err := r.AppendLine(nil)
			if !yield(line, err) || err != nil {
				return
			}
		}
	}
}

// short collects changes in a short form.
func short(got *[]string) func(iter.Seq2[Change, error]) error {
	return func(rows iter.Seq2[Change, error]) error {
		for c, err := range rows {
			if err != nil {
				return err
			}
			*got = append(*got, fmt.Sprint(c.URL, " ", c.Change, " ", c.StatusBefore, ">", c.Status, " ", c.TitleBefore, ">", c.Title))
		}
		return nil
	}
}

// TestBetween: each kind of change is named, and of each URL its highest round counts.
func TestBetween(t *testing.T) {
	moved, canonical := page1("moved", 0, 1, 301, ""), page1("canonical", 0, 1, 200, "")
	checked := page1("same", 2, 2, 404, "") // a check is no page
	checked.Outcome, checked.Check = "check_broken", "broken"
	before := linesOf(t, checked, page1("same", 0, 1, 200, "x"), page1("gone", 0, 1, 200, "g"), page1("title", 1, 3, 200, "old"),
		page1("title", 0, 1, 500, "older"), page1("status", 0, 1, 200, ""), moved, canonical)
	moved.RedirectTo, canonical.Canonical = "there", "other"
	after := linesOf(t, moved, canonical, page1("new", 0, 5, 404, "n"), page1("title", 0, 5, 200, "now"), page1("same", 0, 5, 200, "x"),
		page1("status", 0, 5, 500, ""), page1("status", 1, 6, 404, ""))
	var got []string
	if err := Between(before, after, t.TempDir(), short(&got)); err != nil {
		t.Fatal(err)
	}
	want := []string{"canonical canonical 200>200 >", "gone gone 200>0 g>", "moved redirect 301>301 >", "new new 0>404 >n",
		"status status 200>404 >", "title title 200>200 old>now"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestRounds: the ends of two rounds of one crawl are compared. A page that was found in a later round is
// new, although its own round is 0, and a promoted page is one of its round.
func TestRounds(t *testing.T) {
	all := linesOf(t, page1("healed", 0, 1, 500, ""), page1("healed", 1, 10, 200, ""), page1("healed", 2, 20, 200, "t"),
		page1("still", 0, 2, 200, ""), page1("found", 0, 11, 200, ""), page1("late", 0, 21, 200, ""), page1("promoted", 2, 22, 200, ""))
	for _, tt := range []struct {
		rounds Rounds
		want   string
	}{
		{Rounds{0, 1}, "found new 0>200 >;healed status 500>200 >"},
		{Rounds{1, 2}, "healed title 200>200 >t;late new 0>200 >;promoted new 0>200 >"},
		{Rounds{0, 2}, "found new 0>200 >;healed status,title 500>200 >t;late new 0>200 >;promoted new 0>200 >"},
	} {
		var got []string
		if err := tt.rounds.Read(all, t.TempDir(), short(&got)); err != nil || strings.Join(got, ";") != tt.want {
			t.Errorf("rounds %v: %s (%v), want %s", tt.rounds, strings.Join(got, ";"), err, tt.want)
		}
	}
	if last, err := LastRounds(all); err != nil || last != (Rounds{1, 2}) {
		t.Errorf("the last rounds are %v (%v), want 1 and 2", last, err)
	}
	missing := new(MissingRoundError)
	if _, err := LastRounds(linesOf(t, page1("a", 0, 1, 200, ""))); !errors.As(err, &missing) {
		t.Errorf("the last rounds of a crawl with one round: error %v", err)
	}
	if err := (Rounds{0, 3}).Read(all, "", short(new([]string))); !errors.As(err, &missing) || missing.Last != 2 {
		t.Errorf("a round that is not there: error %v", err)
	}
}

// TestErrors: an error of a source ends the comparison.
func TestErrors(t *testing.T) {
	broken := errors.New("broken")
	fails := func(yield func([]byte, error) bool) { yield(nil, broken) }
	if err := Between(linesOf(t), fails, t.TempDir(), short(new([]string))); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	if err := (Rounds{0, 1}).Read(fails, t.TempDir(), short(new([]string))); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

// TestMemory: two crawls of many pages are compared in a bounded memory.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it compares a million records")
	}
	const urls = 500_000
	peak := uint64(0)
	lines := func(title string) table.Lines {
		return func(yield func([]byte, error) bool) {
			for n := range urls {
				if n%50_000 == 0 {
					var stats runtime.MemStats
					runtime.ReadMemStats(&stats)
					peak = max(peak, stats.HeapInuse)
				}
				if !yield(fmt.Appendf(nil, `{"url":"https://www.example.org/articles/%d","status":200,"title":"%s %d"}`, n, title, n), nil) {
					return
				}
			}
		}
	}
	n := 0
	err := Between(lines("old"), lines("new"), t.TempDir(), func(rows iter.Seq2[Change, error]) error {
		for c, err := range rows {
			if n++; err != nil || c.Change != "title" {
				t.Fatalf("%+v, error %v", c, err)
			}
		}
		return nil
	})
	t.Logf("at most %d MB", peak>>20)
	if err != nil || n != urls || peak > 256<<20 {
		t.Errorf("%d changes (%v), want %d; %d MB of memory, want at most 256", n, err, urls, peak>>20)
	}
}
