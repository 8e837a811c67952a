package visits_test

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
	"github.com/bloomfrontier/crawler/crawl/internal/visits"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/revisit"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/pgstore"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
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

// onBoth runs a test on a database in a directory, and on one in Postgres. The function open opens the same rows each time; in Postgres
// each has a connection of its own.
func onBoth(t *testing.T, test func(t *testing.T, open func() *visits.Store)) {
	t.Run("directory", func(t *testing.T) {
		dir := t.TempDir()
		test(t, func() *visits.Store { return open(t, dir) })
	})
	t.Run("postgres", func(t *testing.T) {
		pg := postgres(t)
		test(t, func() *visits.Store {
			s, err := visits.Shared(t.Context(), pg, "w")
			must(t, err)
			return s
		})
	})
}

// postgres returns a new crawl in a Postgres.
func postgres(t testing.TB) *pgstore.Store {
	t.Helper()
	server := servers.Postgres(t, servers.PostgresOptions{})
	pg, err := pgstore.Open(t.Context(), pgstore.Config{DSN: server.DSN(), Crawl: "c", Identity: "i"})
	must(t, err)
	t.Cleanup(pg.Close)
	return pg
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRow: a row has all of its last visit, also after the store was opened again. A record that was read before changes nothing.
func TestRow(t *testing.T) {
	onBoth(t, func(t *testing.T, open func() *visits.Store) {
		plan := revisit.Fixed(7*day, limits)
		s := open()
		end := record.Place{File: 2, Offset: 77}
		v := visitOf(1, 4, begun, revisit.Content, 'a')
		v.MaxAge = 9 * day
		must(t, s.Add([]visits.Visit{v, visitOf(2, 0, begun, revisit.NoAnswer, 0)}, end, visits.Everywhere(plan)))
		must(t, s.Close())
		s = open()
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
		must(t, s.Add([]visits.Visit{old, v}, end, visits.Everywhere(plan)))
		if again, _, _ := s.Row(printOf(1)); again.Text != row.Text || again.Item.Round != 4 || len(again.History) != 0 {
			t.Errorf("after earlier records the row is %+v", again)
		}
		if f, err := s.Figures(begun, plan); err != nil || f.Pages != 1 || f.Visits != 1 || f.Due != 0 {
			t.Errorf("figures: %+v, %v", f, err)
		}
		if none, err := visits.Open(t.TempDir(), true); none != nil || err != nil {
			t.Errorf("rows that are not there: %v, %v", none, err)
		}
	})
}

// TestReadAgain: after a change of what is kept, the next visit reads the whole page, and the one after it does not.
func TestReadAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, open func() *visits.Store) {
		s := open()
		defer func() { _ = s.Close() }()
		plan := revisit.Fixed(day, limits)
		must(t, s.Begin("p", "k", begun))
		again := func() bool {
			row, _, err := s.Row(printOf(1))
			must(t, err)
			return s.ReadAgain(&row, begun.Add(-30*day))
		}
		must(t, s.Add([]visits.Visit{visitOf(1, 0, begun.Add(time.Minute), revisit.Content, 'a')}, record.Place{File: 1, Offset: 1}, visits.Everywhere(plan)))
		if again() {
			t.Error("a page that was read after the settings began is read again")
		}
		must(t, s.Begin("p", "k2", begun.Add(time.Hour)))
		must(t, s.Begin("p", "k2", begun.Add(5*time.Hour))) // a restart
		if !again() {
			t.Error("after a change of what is kept, a page is not read again")
		}
		must(t, s.Add([]visits.Visit{visitOf(1, 1, begun.Add(2*time.Hour), revisit.Content, 'a')}, record.Place{File: 1, Offset: 2}, visits.Everywhere(plan)))
		if again() {
			t.Error("a page that was read after the change is read again")
		}
		row, _, _ := s.Row(printOf(1))
		if !s.ReadAgain(&row, begun.Add(day)) {
			t.Error("a page that was read long ago is not read again")
		}
	})
}

// errCrash ends a step at a crash point.
var errCrash = errors.New("crash")

// TestModel runs random steps of a crawl against a model, with a fake clock that also jumps a day forward and back. At
// each crash point the step can end, and the store is opened again from what it had written; the step is repeated. The
// queue of the model is idempotent by round, as that of a crawl. No round of a page is visited twice, no page is forgotten,
// and the figures are those of a count.
func TestModel(t *testing.T) {
	onBoth(t, func(t *testing.T, open func() *visits.Store) {
		rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 1))
		steps := 4000
		if testing.Short() {
			steps = 800
		}
		const pages = 60
		now := begun
		s := open()
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
				s = open()
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
		plan, of := revisit.Fixed(day, limits), visits.HostPlan{Weight: 1}
		plans := func(string) visits.HostPlan { return visits.HostPlan{Plan: plan, Weight: of.Weight, Own: of.Own} }
		most := time.Duration(0)
		for range steps {
			switch rng.IntN(12) {
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
						return s.Add(records[at:n], record.Place{File: 1, Offset: int64(n)}, plans)
					}
					return nil
				})
			case 7: // what is due is queued
				do(func() error {
					prints, rows, _, err := s.Due(now, 7)
					if err != nil {
						return err
					}
					if rng.IntN(4) == 0 { // or some at random, early
						if prints, rows, err = s.Sample(3, now); err != nil {
							return err
						}
					}
					for i := range rows {
						n := int(binary.BigEndian.Uint64(prints[i][8:]))
						if rows[i].Sampled {
							rows[i].Next = now
						}
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
					plan, of = revisit.Fixed(every, limits), visits.HostPlan{Weight: float64(1 + rng.IntN(3)), Own: rng.IntN(3) == 0}
					do(func() error { return s.Begin(fmt.Sprint(every, of), "k", now) })
				}
				do(func() error { _, err := s.Sweep(plans, 5); return err })
			case 10: // a host has enough in the queue
				do(func() error {
					prints, rows, _, err := s.Due(now, 3)
					if err != nil {
						return err
					}
					return s.Postpone(prints, rows, now)
				})
			case 11: // a sitemap is read
				var all []visits.Lastmod
				for range 5 {
					first := now.Add(-time.Duration(rng.Int64N(int64(3 * day))))
					all = append(all, visits.Lastmod{Item: printOf(rng.IntN(pages + 5)), First: first, Until: first.Add(time.Duration(rng.Int64N(int64(day))))})
				}
				do(func() error { return s.Claim(all, now) })
			}
		}
		do(func() error {
			at := int(s.At().Offset)
			return s.Add(records[at:], record.Place{File: 1, Offset: int64(len(records))}, plans)
		})
		f, err := s.Figures(begun.Add(most+400*day), plan)
		must(t, err)
		do(func() error { return s.Begin("last", "k", now) })
		for more := true; more; {
			do(func() (err error) { more, err = s.Sweep(plans, 20); return err })
		}
		do(func() error {
			prints, rows, _, err := s.Due(now, 3)
			if err != nil {
				return err
			}
			return s.Postpone(prints, rows, now)
		})
		if f, err = s.Figures(begun.Add(most+400*day), plan); err != nil {
			t.Fatal(err)
		}
		known, queued, later, gone, perDay := int64(0), int64(0), int64(0), int64(0), 0.0
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
			due := row.Next
			if row.Queued || row.Later {
				due = row.Due
			}
			if row.Later {
				later++
			}
			if weight := of.Weight; row.Weight != weight && !of.Own || of.Own && row.Weight != 0 {
				t.Errorf("page %d has weight %v, want %+v", n, row.Weight, of)
			}
			if row.IsGone() {
				gone++
			} else if wait := due.Sub(row.Visited); row.Missing == 0 && wait > 0 {
				perDay += float64(day) / float64(wait)
			}
			if row.Queued && !model[n].queued {
				t.Errorf("page %d counts as queued, but is not", n)
			}
		}
		if f.Pages != known || f.Queued != queued || f.Later != later || f.Gone != gone || f.Due != known {
			t.Errorf("figures %+v, want %d pages, all due, %d queued, %d later, %d gone", f, known, queued, later, gone)
		}
		if sum, err := s.Host("a.test"); err != nil || sum.Pages != known || sum.Queued != queued || math.Abs(sum.PerDay-perDay) > 1e-3 {
			t.Errorf("the sums of the host are %+v, %v, want %d pages, %d queued, %v visits a day", sum, err, known, queued, perDay)
		}
		want := float64(known - gone)
		if of.Own {
			want = 0
		}
		if census := s.Census().Pages(); census != want {
			t.Errorf("the census has %v pages, want %v", census, want)
		}
		all, _, _, err := s.Due(begun.Add(most+400*day), pages+1)
		must(t, err)
		do(func() error { return s.Purge(all) })
		if f, err := s.Figures(now, plan); err != nil || f.Pages+f.Due+f.Queued+f.Later+f.Gone != 0 || f.Purged != known || s.Census().Pages() != 0 {
			t.Errorf("after a purge of all: %+v, %v", f, err)
		}
		if hosts, err := s.Busiest(3); err != nil || len(hosts) != 0 {
			t.Errorf("after a purge of all, there are the hosts %+v, %v", hosts, err)
		}
		must(t, s.Close())
		t.Logf("%d records, %d crashes", len(records), crashes)
	})
}

// TestSweep: new settings give all rows another time, in steps that go on after a restart.
func TestSweep(t *testing.T) {
	onBoth(t, func(t *testing.T, open func() *visits.Store) {
		s := open()
		slow, fast := revisit.Fixed(30*day, limits), revisit.Fixed(day, limits)
		var all []visits.Visit
		for n := range 25 {
			all = append(all, visitOf(n, 0, begun, revisit.Content, 'a'))
		}
		must(t, s.Begin("30d", "k", begun))
		must(t, s.Add(all, record.Place{File: 1, Offset: 1}, visits.Everywhere(slow)))
		for more := true; more; {
			var err error
			more, err = s.Sweep(visits.Everywhere(slow), 10)
			must(t, err)
		}
		must(t, s.Begin("1d", "k", begun))
		more, err := s.Sweep(visits.Everywhere(fast), 10)
		if !more || err != nil {
			t.Fatalf("the first step of three: %v, %v", more, err)
		}
		must(t, s.Close())
		s = open()
		defer func() { _ = s.Close() }()
		must(t, s.Begin("1d", "k", begun))
		steps := 0
		for more := true; more; steps++ {
			more, err = s.Sweep(visits.Everywhere(fast), 10)
			must(t, err)
		}
		due, _, next, err := s.Due(begun.Add(2*day), 100)
		if err != nil || len(due) != 25 || !next.IsZero() || steps > 3 {
			t.Errorf("%d of 25 rows are due after %d more steps, then at %v: %v", len(due), steps, next, err)
		}
		if due, _, next, err = s.Due(begun.Add(day/2), 100); err != nil || len(due) != 0 || !next.Equal(begun.Add(day)) {
			t.Errorf("%d rows are due before their time, the next at %v: %v", len(due), next, err)
		}
	})
}

// TestMeasured visits pages that change at random once a day, each 25 hours after its last visit and half an hour too late, on
// a fake clock. Sampled visits measure the share that is up to date, and the others how late they are. With 500 samples or
// more, the measure is off by 0.1 about once in 200,000 runs.
func TestMeasured(t *testing.T) {
	rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 2))
	s := open(t, t.TempDir())
	defer func() { _ = s.Close() }()
	plan, now, offset := revisit.Fixed(day+30*time.Minute, limits), begun, int64(0)
	const pages = 300
	var texts [pages]byte
	visit := func(n int, round uint32) visits.Visit { return visitOf(n, round, now, revisit.Content, texts[n]) }
	add := func(all []visits.Visit) {
		offset++
		must(t, s.Add(all, record.Place{File: 1, Offset: offset}, visits.Everywhere(plan)))
	}
	for n := range pages {
		now = begun.Add(time.Duration(rng.Int64N(int64(day))))
		add([]visits.Visit{visit(n, 0)})
	}
	for now = begun.Add(day); now.Before(begun.Add(30 * day)); now = now.Add(time.Hour) {
		for n := range texts {
			if rng.Float64() < 1-math.Exp(-1./24) {
				texts[n]++
			}
		}
		prints, rows, _, err := s.Due(now, pages)
		must(t, err)
		early, sampled, err := s.Sample(2, now)
		must(t, err)
		prints, rows = append(prints, early...), append(rows, sampled...)
		must(t, s.Queued(prints, rows, now))
		var all []visits.Visit
		for i := range rows {
			all = append(all, visit(int(binary.BigEndian.Uint64(prints[i][8:])), rows[i].Item.Round+1))
		}
		add(all)
	}
	f, err := s.Figures(now, plan)
	want := revisit.Fresh(1, 25*time.Hour)
	if err != nil || f.Sampled < 500 || math.Abs(f.Measured-want) > 0.1 {
		t.Errorf("%d samples measured %.3f, %v, want about %.3f", f.Sampled, f.Measured, err, want)
	}
	if late := f.MeanLate / 60; math.Abs(late-30) > 5 {
		t.Errorf("visits are %.1f min late, want about 30", late)
	}
}

// TestRowsOfEarlierVersion: rows without the sums of their hosts are forgotten, and the records are read again.
func TestRowsOfEarlierVersion(t *testing.T) {
	dir, plan := t.TempDir(), revisit.Fixed(day, limits)
	s := open(t, dir)
	must(t, s.Add([]visits.Visit{visitOf(1, 0, begun, revisit.Content, 'a')}, record.Place{File: 1, Offset: 1}, visits.Everywhere(plan)))
	must(t, s.Close())
	db, err := pebble.Open(filepath.Join(dir, "visits"), &pebble.Options{FormatMajorVersion: pebble.FormatNewest})
	must(t, err)
	must(t, db.Set([]byte("s"), []byte(`{"at":{"file":1,"offset":1},"figures":{"pages":1}}`), nil))
	must(t, db.Close())
	s = open(t, dir)
	defer func() { _ = s.Close() }()
	_, found, err := s.Row(printOf(1))
	if f, _ := s.Figures(begun, plan); err != nil || found || s.At().Offset != 0 || f.Pages != 0 {
		t.Errorf("the rows begin at %+v with %+v, a row is there: %v, %v", s.At(), f, found, err)
	}
}

// BenchmarkRows adds rows of new pages of a million hosts at most, visits each once more, and reports their size on disk. What
// cannot be compressed is random: digests, ETags, and the end of the URLs, which have the mean length of those that
// crawler size assumes, or twice that. With -benchtime 1000000x, it measures sizing.RevisitBytes.
func BenchmarkRows(b *testing.B) {
	for _, length := range []int{80, 160} {
		b.Run(fmt.Sprintf("url=%d", length), func(b *testing.B) {
			s := open(b, b.TempDir())
			defer func() { _ = s.Close() }()
			plan := revisit.Fixed(7*day, limits)
			for round := range 2 {
				for n := 0; n < b.N; n += 1000 {
					var all []visits.Visit
					for i := n; i < min(n+1000, b.N); i++ {
						rng := rand.New(rand.NewPCG(uint64(i), 1))
						v := visitOf(i, uint32(round), begun.Add(time.Duration(i)*time.Second+time.Duration(round)*8*day), revisit.Content, 0)
						binary.BigEndian.PutUint64(v.Fingerprint[:], rng.Uint64())
						host := fmt.Sprintf("www.shop%d.example", i/100)
						v.Item.URL, v.Item.Host, v.Target, v.Item.Submission = "https://"+host+"/products/catalog/", host, "", ""
						for len(v.Item.URL) < length {
							v.Item.URL += fmt.Sprintf("%x", rng.Uint32())
						}
						v.Item.URL = v.Item.URL[:length]
						v.ETag = fmt.Sprintf("\"%x\"", rng.Uint64())
						for at := 0; at < 32; at += 8 {
							binary.BigEndian.PutUint64(v.Body[at:], rng.Uint64())
							binary.BigEndian.PutUint64(v.Text[at:], rng.Uint64())
						}
						all = append(all, v)
					}
					must(b, s.Add(all, record.Place{File: 1, Offset: int64(round*b.N + n + 1000)}, visits.Everywhere(plan)))
				}
			}
			b.ReportMetric(float64(s.DiskBytes())/float64(b.N), "disk_B/row")
		})
	}
}
