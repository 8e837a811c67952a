package visits_test

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
	"github.com/bloomfrontier/crawler/crawl/internal/visits"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/revisit"
	"github.com/bloomfrontier/crawler/internal/crash"
)

var _ = flag.Uint64("seed", 0, "replay random tests with this seed") // read by bloomtest.Seed

const day = 24 * time.Hour

var limits = revisit.Limits{Least: time.Hour, Most: 90 * day}

var begun = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

func printOf(n int) (p bloomstore.Fingerprint) {
	binary.BigEndian.PutUint64(p[:], uint64(n)*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(p[8:], uint64(n))
	return p
}

// visitOf returns a visit of a page whose text has a number.
func visitOf(page int, round uint32, at time.Time, answer revisit.Answer, text byte) visits.Visit {
	return visits.Visit{
		Fingerprint: printOf(page),
		Item: frontier.Finished{Round: round, Offer: frontier.Offer{
			URL: fmt.Sprintf("http://a.test/%d", page), Host: "a.test", Depth: 3, Class: frontier.Exact, Referrer: [8]byte{1, 2}, Submission: "s",
		}},
		Target: "http://b.test/", Visit: revisit.Visit{At: at, Answer: answer, ETag: `"x"`, Text: revisit.Digest{text}, Body: revisit.Digest{text}},
	}
}

func open(t testing.TB, dir string) *visits.Store {
	t.Helper()
	s, err := visits.Open(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRow: a row has all of its last visit, also after the store was opened again. A record that was read before changes nothing.
func TestRow(t *testing.T) {
	dir, plan := t.TempDir(), revisit.Fixed(7*day, limits)
	s := open(t, dir)
	end := record.Place{File: 2, Offset: 77}
	v := visitOf(1, 4, begun, revisit.Content, 'a')
	v.MaxAge = 9 * day
	must(t, s.Add([]visits.Visit{v, visitOf(2, 0, begun, revisit.NoAnswer, 0)}, end, plan))
	must(t, s.Close())
	s = open(t, dir)
	defer func() { _ = s.Close() }()
	row, found, err := s.Row(printOf(1))
	if err != nil || !found || row.Item != v.Item || row.Target != v.Target || !row.Read.Equal(begun) || row.ETag != `"x"` || !row.Next.Equal(begun.Add(9*day)) {
		t.Errorf("the row is %+v, %v, %v", row, found, err)
	}
	if _, found, err := s.Row(printOf(2)); found || err != nil {
		t.Errorf("a page without an answer has a row: %v, %v", found, err)
	}
	if s.At() != end {
		t.Errorf("the next record begins at %v, want %v", s.At(), end)
	}
	old := visitOf(1, 3, begun.Add(day), revisit.Content, 'b')
	must(t, s.Add([]visits.Visit{old, v}, end, plan))
	if again, _, _ := s.Row(printOf(1)); again.Text != row.Text || again.Item.Round != 4 || len(again.History) != 0 {
		t.Errorf("after earlier records the row is %+v", again)
	}
	if f, err := s.Figures(begun, plan); err != nil || f.Pages != 1 || f.Visits != 1 || f.Due != 0 {
		t.Errorf("figures: %+v, %v", f, err)
	}
	if none, err := visits.Open(t.TempDir(), true); none != nil || err != nil {
		t.Errorf("rows that are not there: %v, %v", none, err)
	}
}

// TestReadAgain: after a change of what is kept, the next visit reads the whole page, and the one after it does not.
func TestReadAgain(t *testing.T) {
	s := open(t, t.TempDir())
	defer func() { _ = s.Close() }()
	plan := revisit.Fixed(day, limits)
	must(t, s.Begin("p", "k", begun))
	again := func() bool {
		row, _, err := s.Row(printOf(1))
		must(t, err)
		return s.ReadAgain(&row, begun.Add(-30*day))
	}
	must(t, s.Add([]visits.Visit{visitOf(1, 0, begun.Add(time.Minute), revisit.Content, 'a')}, record.Place{File: 1, Offset: 1}, plan))
	if again() {
		t.Error("a page that was read after the settings began is read again")
	}
	must(t, s.Begin("p", "k2", begun.Add(time.Hour)))
	must(t, s.Begin("p", "k2", begun.Add(5*time.Hour))) // a restart
	if !again() {
		t.Error("after a change of what is kept, a page is not read again")
	}
	must(t, s.Add([]visits.Visit{visitOf(1, 1, begun.Add(2*time.Hour), revisit.Content, 'a')}, record.Place{File: 1, Offset: 2}, plan))
	if again() {
		t.Error("a page that was read after the change is read again")
	}
	row, _, _ := s.Row(printOf(1))
	if !s.ReadAgain(&row, begun.Add(day)) {
		t.Error("a page that was read long ago is not read again")
	}
}

// errCrash ends a step at a crash point.
var errCrash = errors.New("crash")

// TestModel runs random steps of a crawl against a model, with a fake clock that also jumps a day forward and back. At
// each crash point the step can end, and the store is opened again from what it had written; the step is repeated. The
// queue of the model is idempotent by round, as that of a crawl. No round of a page is visited twice, no page is forgotten,
// and the figures are those of a count.
func TestModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 1))
	steps := 4000
	if testing.Short() {
		steps = 800
	}
	const pages = 60
	dir, now := t.TempDir(), begun
	s := open(t, dir)
	crashes := 0
	crash.Hook(func(string) {
		if rng.IntN(40) == 0 {
			panic(errCrash)
		}
	})
	defer crash.Hook(nil)
	// do runs a step until it is not ended by a crash. Its effects on the model must be repeatable.
	do := func(step func() error) {
		t.Helper()
		for {
			crashed := false
			err := func() (err error) {
				defer func() {
					if fault := recover(); fault != nil {
						if fault != any(errCrash) {
							panic(fault)
						}
						crashed = true
					}
				}()
				return step()
			}()
			must(t, err)
			if !crashed {
				return
			}
			crashes++
			must(t, s.Close())
			s = open(t, dir)
		}
	}
	type page struct {
		last    uint32 // round of the last record
		any     bool   // there is a record
		queued  bool   // for round last+1, or for round 0 if there is none
		known   bool   // a visit had an answer
		missing bool
	}
	var model [pages]page
	var records []visits.Visit // all of the crawl, in order
	seen := make(map[[2]int]bool)
	plan := revisit.Fixed(day, limits)
	most := time.Duration(0)
	for range steps {
		switch rng.IntN(10) {
		case 0, 1, 2, 3: // the crawl fetches a page
			n := rng.IntN(pages)
			p := &model[n]
			if p.any && !p.queued {
				continue
			}
			round := p.last + 1
			if !p.any {
				round = 0
			}
			if seen[[2]int{n, int(round)}] {
				t.Fatalf("page %d has two records of round %d", n, round)
			}
			seen[[2]int{n, int(round)}] = true
			if rng.IntN(50) == 0 {
				p.missing = !p.missing
			}
			answer := []revisit.Answer{revisit.Content, revisit.Content, revisit.NotModified, revisit.NoAnswer}[rng.IntN(4)]
			if p.missing {
				answer = revisit.NotFound
			}
			*p = page{last: round, any: true, known: p.known || answer != revisit.NoAnswer, missing: p.missing}
			records = append(records, visitOf(n, round, now, answer, byte(rng.IntN(2))))
		case 4, 5, 6: // the rows follow the records
			do(func() error {
				at := int(s.At().Offset)
				if n := min(at+1+rng.IntN(20), len(records)); n > at {
					return s.Add(records[at:n], record.Place{File: 1, Offset: int64(n)}, plan)
				}
				return nil
			})
		case 7: // what is due is queued
			do(func() error {
				prints, rows, _, err := s.Due(now, 7)
				if err != nil {
					return err
				}
				for i := range rows {
					n := int(binary.BigEndian.Uint64(prints[i][8:]))
					if rows[i].Next.After(now) {
						t.Fatalf("page %d is offered at %v, and due at %v", n, now, rows[i].Next)
					}
					if p := &model[n]; !p.queued && p.any && p.last == rows[i].Item.Round {
						p.queued = true
					}
				}
				crash.Point("offered")
				return s.Queued(prints, rows, now)
			})
		case 8: // the clock
			jump := time.Duration(rng.Int64N(int64(6 * time.Hour)))
			switch rng.IntN(8) {
			case 0:
				jump += day
			case 1:
				jump -= day
			}
			now = now.Add(jump)
			most = max(most, now.Sub(begun))
		case 9: // the settings
			if rng.IntN(4) == 0 {
				every := time.Duration(1+rng.IntN(72)) * time.Hour
				plan = revisit.Fixed(every, limits)
				do(func() error { return s.Begin(every.String(), "k", now) })
			}
			do(func() error { _, err := s.Sweep(plan, 5); return err })
		}
	}
	do(func() error {
		at := int(s.At().Offset)
		return s.Add(records[at:], record.Place{File: 1, Offset: int64(len(records))}, plan)
	})
	f, err := s.Figures(begun.Add(most+400*day), plan)
	must(t, err)
	known, queued, gone := int64(0), int64(0), int64(0)
	for n := range model {
		row, found, err := s.Row(printOf(n))
		must(t, err)
		if found != model[n].known || found && row.Item.Round != model[n].last {
			t.Errorf("page %d: the row has round %d, %v, want %+v", n, row.Item.Round, found, model[n])
		}
		if !found {
			continue
		}
		known++
		if row.Queued {
			queued++
		}
		if row.IsGone() {
			gone++
		}
		if row.Queued && !model[n].queued {
			t.Errorf("page %d counts as queued, but is not", n)
		}
	}
	if f.Pages != known || f.Queued != queued || f.Gone != gone || f.Due != known {
		t.Errorf("figures %+v, want %d pages, all due, %d queued, %d gone", f, known, queued, gone)
	}
	if census := s.Census().Pages(); census != float64(known-gone) {
		t.Errorf("the census has %v pages, want %d", census, known-gone)
	}
	all, _, _, err := s.Due(begun.Add(most+400*day), pages+1)
	must(t, err)
	do(func() error { return s.Purge(all) })
	if f, err := s.Figures(now, plan); err != nil || f.Pages+f.Due+f.Queued+f.Gone != 0 || f.Purged != known || s.Census().Pages() != 0 {
		t.Errorf("after a purge of all: %+v, %v", f, err)
	}
	must(t, s.Close())
	t.Logf("%d records, %d crashes", len(records), crashes)
}

// TestSweep: new settings give all rows another time, in steps that go on after a restart.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	slow, fast := revisit.Fixed(30*day, limits), revisit.Fixed(day, limits)
	var all []visits.Visit
	for n := range 25 {
		all = append(all, visitOf(n, 0, begun, revisit.Content, 'a'))
	}
	must(t, s.Begin("30d", "k", begun))
	must(t, s.Add(all, record.Place{File: 1, Offset: 1}, slow))
	for more := true; more; {
		var err error
		more, err = s.Sweep(slow, 10)
		must(t, err)
	}
	must(t, s.Begin("1d", "k", begun))
	more, err := s.Sweep(fast, 10)
	if !more || err != nil {
		t.Fatalf("the first step of three: %v, %v", more, err)
	}
	must(t, s.Close())
	s = open(t, dir)
	defer func() { _ = s.Close() }()
	must(t, s.Begin("1d", "k", begun))
	steps := 0
	for more := true; more; steps++ {
		more, err = s.Sweep(fast, 10)
		must(t, err)
	}
	due, _, next, err := s.Due(begun.Add(2*day), 100)
	if err != nil || len(due) != 25 || !next.IsZero() || steps > 3 {
		t.Errorf("%d of 25 rows are due after %d more steps, then at %v: %v", len(due), steps, next, err)
	}
	if due, _, next, err = s.Due(begun.Add(day/2), 100); err != nil || len(due) != 0 || !next.Equal(begun.Add(day)) {
		t.Errorf("%d rows are due before their time, the next at %v: %v", len(due), next, err)
	}
}

// BenchmarkRows adds rows of new pages, and reports their size on disk.
func BenchmarkRows(b *testing.B) {
	dir := b.TempDir()
	s := open(b, dir)
	defer func() { _ = s.Close() }()
	plan := revisit.Fixed(7*day, limits)
	for n := 0; n < b.N; n += 1000 {
		var all []visits.Visit
		for i := n; i < n+1000; i++ {
			all = append(all, visitOf(i, 0, begun.Add(time.Duration(i)*time.Second), revisit.Content, byte(i)))
		}
		must(b, s.Add(all, record.Place{File: 1, Offset: int64(n + 1000)}, plan))
	}
	b.ReportMetric(float64(s.DiskBytes())/float64((b.N+999)/1000*1000), "disk_B/row")
}
