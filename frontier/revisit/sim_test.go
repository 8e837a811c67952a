package revisit

import (
	"container/heap"
	"flag"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

var seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of random tests")

// A site changes its pages in one way. next returns the time of the first change of a page after a moment, in days.
type site struct {
	name string
	next func(rng *rand.Rand, rate, after float64) float64
}

var sites = []site{
	{"Poisson", func(rng *rand.Rand, rate, after float64) float64 { return after + rng.ExpFloat64()/rate }},
	{"periodic", func(_ *rand.Rand, rate, after float64) float64 { return (math.Floor(after*rate+1e-9) + 1) / rate }},
	{"bursty", func(rng *rand.Rand, rate, after float64) float64 { // four changes within hours, then nothing
		if rng.IntN(4) > 0 {
			return after + rng.ExpFloat64()/24
		}
		return after + 4*rng.ExpFloat64()/rate
	}},
}

// world is pages with their rates and weights.
type world struct {
	rates, weights []float64
	changes        [][]float64 // times of the changes of each page
}

const lastDay = 240 // of a simulation, of which the second half is measured

func pages() int {
	if testing.Short() {
		return 300
	}
	return 1500
}

func shares() []float64 {
	if testing.Short() {
		return []float64{0.8}
	}
	return []float64{0.6, 0.8}
}

func newWorld(rng *rand.Rand, s site) *world {
	w := &world{}
	for range pages() {
		rate := math.Exp(rng.NormFloat64()*1.8 - 2) // a median of one change a week, from one a day to one a quarter in most cases
		var changes []float64
		for at := s.next(rng, rate, 0); at < lastDay; at = s.next(rng, rate, at) {
			changes = append(changes, at)
		}
		w.rates, w.changes = append(w.rates, rate), append(w.changes, changes)
		w.weights = append(w.weights, float64(1+rng.IntN(3)))
	}
	return w
}

// due is a heap of visits.
type due []struct {
	at   float64
	page int
}

func (d due) Len() int           { return len(d) }
func (d due) Less(i, j int) bool { return d[i].at < d[j].at }
func (d due) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *due) Push(x any) {
	*d = append(*d, x.(struct {
		at   float64
		page int
	}))
}
func (d *due) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

// A policy returns the time until the next visit of a page, in days, after a visit that found a change or not. It is called with 0 days
// for the first visit.
type policy func(page int, sinceLast float64, changed bool) float64

// run visits the pages of a world. It returns the weighted share of pages that were up to date in the second half, and the
// requests a day in it.
func (w *world) run(p policy) (fresh, requests float64) {
	type state struct {
		last   float64 // of the visit
		change int     // index of the first change after it
	}
	states := make([]state, len(w.rates))
	visits := due{}
	for page := range states {
		visits = append(visits, struct {
			at   float64
			page int
		}{float64(page) / float64(len(states)), page})
	}
	heap.Init(&visits)
	const half = lastDay / 2
	sum, all := 0.0, 0.0
	account := func(page int, until float64) { // the time since the last visit
		s := &states[page]
		stale := until
		if s.change < len(w.changes[page]) {
			stale = min(stale, w.changes[page][s.change])
		}
		sum += w.weights[page] * max(0, stale-max(s.last, half))
	}
	for visits[0].at < lastDay {
		now, page := visits[0].at, visits[0].page
		s := &states[page]
		if now >= half {
			requests++
			account(page, now)
		}
		first, since := s.last == 0 && s.change == 0, now-s.last
		before := s.change
		for s.change < len(w.changes[page]) && w.changes[page][s.change] <= now {
			s.change++
		}
		s.last = now
		if first {
			since = 0
		}
		visits[0].at = now + p(page, since, s.change > before)
		heap.Fix(&visits, 0)
	}
	for page := range states {
		account(page, lastDay)
		all += w.weights[page] * half
	}
	return sum / all, requests / half
}

// atRequests scales a policy until it makes the wanted requests, and returns its freshness.
func (w *world) atRequests(wanted float64, scaled func(scale float64) policy) float64 {
	best := 0.0
	low, high := 1e-2, 1e2
	for range 10 {
		scale := math.Sqrt(low * high)
		fresh, requests := w.run(scaled(scale))
		best = fresh
		if requests > wanted {
			low = scale
		} else {
			high = scale
		}
	}
	return best
}

var wide = Limits{time.Hour, DefaultMost}

// ours returns the policy of this package for a share. The rates are estimated from what the visits find, or the true ones.
func (w *world) ours(share float64, known bool) policy {
	rows := make([]Row, len(w.rates))
	rates := make([]float64, len(w.rates))
	census := &Census{}
	for page := range rates {
		if rates[page] = Rate(nil); known {
			rates[page] = w.rates[page]
		}
		census.Add(rates[page], w.weights[page], 1)
	}
	plan, planned, visits := Wanted(share, census, wide), 0, 0
	return func(page int, since float64, changed bool) float64 {
		if visits++; visits-planned >= len(rates)/4 {
			plan, planned = Wanted(share, census, wide), visits
		}
		row := &rows[page]
		v := Visit{At: row.Visited.Add(fromDays(since)), Answer: Content, Text: row.Text}
		if since == 0 {
			v.At = time.Unix(0, 0)
		}
		if changed {
			v.Text[0]++
		}
		if known {
			return days(plan.Interval(w.rates[page], w.weights[page]))
		}
		*row, _ = row.After(v, plan, w.weights[page])
		census.Add(rates[page], w.weights[page], -1)
		rates[page] = Rate(row.History)
		census.Add(rates[page], w.weights[page], 1)
		return days(row.Next.Sub(row.Visited))
	}
}

// heuristic multiplies the time until the next visit after each visit.
func (w *world) heuristic(scale, afterChange, otherwise float64) policy {
	wait := make([]float64, len(w.rates))
	return func(page int, _ float64, changed bool) float64 {
		if wait[page] == 0 {
			wait[page] = 7
		} else if changed {
			wait[page] *= afterChange
		} else {
			wait[page] *= otherwise
		}
		wait[page] = max(1.0/24, min(wait[page], 90))
		return wait[page] * scale
	}
}

// TestFreshness compares the plan with other policies at equal requests. With the estimated rates it must reach 0.95 of
// what the true rates give on pages that change at random moments, and be no worse than to ask all pages equally often.
func TestFreshness(t *testing.T) {
	t.Logf("seed %d", *seed)
	for n, s := range sites {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for _, share := range shares() {
				rng := rand.New(rand.NewPCG(*seed, uint64(n)))
				w := newWorld(rng, s)
				ours, requests := w.run(w.ours(share, false))
				uniform := w.atRequests(requests, func(scale float64) policy {
					return func(int, float64, bool) float64 { return scale }
				})
				nutch := w.atRequests(requests, func(scale float64) policy { return w.heuristic(scale, 0.8, 1.2) })
				storm := w.atRequests(requests, func(scale float64) policy { return w.heuristic(scale, 0.5, 1.5) })
				best := 0.0 // the share that the true rates give with these requests
				low, high := 0.01, 0.9999
				for range 10 {
					try := (low + high) / 2
					fresh, made := w.run(w.ours(try, true))
					if made > requests {
						high = try
					} else {
						low, best = try, fresh
					}
				}
				t.Logf("share %v with %.0f requests a day: ours %.3f, true rates %.3f, all equally often %.3f, × 0.8 and 1.2 %.3f, × 0.5 and 1.5 %.3f",
					share, requests, ours, best, uniform, nutch, storm)
				if s.name == "Poisson" && ours < 0.95*best {
					t.Errorf("with estimated rates %.3f of the pages are up to date, want 0.95 of %.3f", ours, best)
				}
				if ours < uniform-0.01 {
					t.Errorf("%.3f of the pages are up to date, want at least %.3f as with equal intervals", ours, uniform-0.01)
				}
				if s.name == "Poisson" && math.Abs(ours-share) > 0.04 {
					t.Errorf("%.3f of the pages are up to date, want about %v", ours, share)
				}
			}
		})
	}
}
