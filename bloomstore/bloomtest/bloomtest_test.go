package bloomtest

import (
	"context"
	"errors"
	"flag"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
)

var (
	_ = flag.Uint64("seed", 0, "replay random cases with this seed")
	_ = flag.Bool("proof", false, "run the cases at full size")
)

func TestExactPasses(t *testing.T) {
	Run(t, func(*testing.T) bloomstore.Filter { return Exact() })
}

func BenchmarkExact(b *testing.B) {
	Bench(b, func(*testing.B) bloomstore.Filter { return Exact() })
}

// broken is Exact with one fault.
type broken struct {
	bloomstore.Filter
	add      func(ctx context.Context, under bloomstore.Filter, prints []bloomstore.Fingerprint) ([]bool, error)
	contains func(ctx context.Context, under bloomstore.Filter, prints []bloomstore.Fingerprint) ([]bool, error)
}

func (b *broken) AddIfAbsent(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	if b.add == nil {
		return b.Filter.AddIfAbsent(ctx, prints)
	}
	return b.add(ctx, b.Filter, prints)
}

func (b *broken) Contains(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	if b.contains == nil {
		return b.Filter.Contains(ctx, prints)
	}
	return b.contains(ctx, b.Filter, prints)
}

// TestFindsFaults runs cases of the suite on filters with one fault each. The named
// cases must fail.
func TestFindsFaults(t *testing.T) {
	for _, c := range []struct {
		fault  string
		filter func() *broken
		caught string // cases that must fail, separated by blanks
	}{
		{"check, then mark", checkThenMark, "RacersGetAtMostOneTrue"},
		{"all tests before all marks", testAllFirst, "DuplicatesInOneBatch Model ModelWithFaults"},
		{"forgets a key in 256", forgetful, "LargeBatch Model ModelWithFaults RacersGetAtMostOneTrue"},
		{"claims a key in 256 that it never saw", claimsTooMuch, "AnswersIndexForIndex LargeBatch Model ModelWithFaults RacersGetAtMostOneTrue"},
		{"64-bit identity", halfIdentity, "TellsSimilarKeysApart"},
		{"records late, from the caller's batch", keepsBatch, "KeepsNoReference"},
		{"reuses its answers", reusesAnswers, "KeepsNoReference"},
		{"answers distinct keys only", collapses, "DuplicatesInOneBatch Model ModelWithFaults"},
		{"sorts the caller's batch", sortsBatch, "AnswersIndexForIndex LargeBatch KeepsNoReference"},
		{"answers in another order", reverses, "AnswersIndexForIndex"},
		{"blind to cancellation", blindToContext, "CancelledContext"},
		{"breaks on an empty batch", breaksOnEmpty, "EmptyBatch"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			trial, caught, ran := newTrial(t), strings.Fields(c.caught), 0
			trial.proof = false
			for _, of := range cases {
				if !slices.Contains(caught, of.name) {
					continue
				}
				ran++
				trial.open = func() bloomstore.Filter { return c.filter() }
				if err := of.check(t.Context(), trial); err == nil {
					t.Errorf("%s does not find it", of.name)
				}
			}
			if ran != len(caught) {
				t.Errorf("the suite has %d of the cases %q", ran, caught)
			}
		})
	}
}

func checkThenMark() *broken {
	var first meeting
	return &broken{Filter: Exact(), add: func(ctx context.Context, under bloomstore.Filter, prints []bloomstore.Fingerprint) ([]bool, error) {
		added := make([]bool, len(prints))
		for i := range prints {
			known, err := under.Contains(ctx, prints[i:i+1])
			if err != nil {
				return nil, err
			}
			if added[i] = !known[0]; added[i] {
				first.wait(prints[i])
				if _, err := under.AddIfAbsent(ctx, prints[i:i+1]); err != nil {
					return nil, err
				}
			}
		}
		return added, nil
	}}
}

// meeting blocks the caller that adds the first key until another caller adds the same
// key, so that they certainly race.
type meeting struct {
	mu      sync.Mutex
	key     bloomstore.Fingerprint
	both    chan struct{} // closed when the second caller has come; nil before the first
	callers int
}

func (m *meeting) wait(key bloomstore.Fingerprint) {
	m.mu.Lock()
	if m.both == nil {
		m.key, m.both = key, make(chan struct{})
	}
	if key != m.key {
		m.mu.Unlock()
		return
	}
	if m.callers++; m.callers == 2 {
		close(m.both)
	}
	m.mu.Unlock()
	select {
	case <-m.both:
	case <-time.After(10 * time.Second): // no other caller comes, because the case does not race
	}
}

func testAllFirst() *broken {
	var mu sync.Mutex
	return &broken{Filter: Exact(), add: func(ctx context.Context, under bloomstore.Filter, prints []bloomstore.Fingerprint) ([]bool, error) {
		mu.Lock()
		defer mu.Unlock()
		added, err := under.Contains(ctx, prints)
		for i := range added {
			added[i] = !added[i]
		}
		if err == nil {
			_, err = under.AddIfAbsent(ctx, prints)
		}
		return added, err
	}}
}

func forgetful() *broken {
	return &broken{Filter: Exact(), contains: func(ctx context.Context, under bloomstore.Filter, prints []bloomstore.Fingerprint) ([]bool, error) {
		known, err := under.Contains(ctx, prints)
		for i := range known {
			known[i] = known[i] && prints[i][3] != 7
		}
		return known, err
	}}
}

func claimsTooMuch() *broken {
	return &broken{Filter: Exact(), add: func(ctx context.Context, under bloomstore.Filter, prints []bloomstore.Fingerprint) ([]bool, error) {
		added, err := under.AddIfAbsent(ctx, prints)
		for i := range added {
			added[i] = added[i] && prints[i][3] != 7
		}
		return added, err
	}}
}

func halfIdentity() *broken {
	half := func(prints []bloomstore.Fingerprint) []bloomstore.Fingerprint {
		prints = slices.Clone(prints)
		for i := range prints {
			clear(prints[i][8:])
		}
		return prints
	}
	return &broken{
		Filter: Exact(),
		add: func(ctx context.Context, under bloomstore.Filter, prints []bloomstore.Fingerprint) ([]bool, error) {
			return under.AddIfAbsent(ctx, half(prints))
		},
		contains: func(ctx context.Context, under bloomstore.Filter, prints []bloomstore.Fingerprint) ([]bool, error) {
			return under.Contains(ctx, half(prints))
		},
	}
}

func keepsBatch() *broken {
	var kept []bloomstore.Fingerprint
	var mu sync.Mutex
	return &broken{
		Filter: Exact(),
		add: func(ctx context.Context, under bloomstore.Filter, prints []bloomstore.Fingerprint) ([]bool, error) {
			mu.Lock()
			defer mu.Unlock()
			if _, err := under.AddIfAbsent(ctx, kept); err != nil {
				return nil, err
			}
			kept = prints
			known, err := under.Contains(ctx, prints)
			for i := range known {
				known[i] = !known[i]
			}
			return known, err
		},
	}
}

func reusesAnswers() *broken {
	var answers []bool
	var mu sync.Mutex
	return &broken{Filter: Exact(), add: func(ctx context.Context, under bloomstore.Filter, prints []bloomstore.Fingerprint) ([]bool, error) {
		mu.Lock()
		defer mu.Unlock()
		added, err := under.AddIfAbsent(ctx, prints)
		answers = append(answers[:0], added...)
		return answers, err
	}}
}

func collapses() *broken {
	return &broken{Filter: Exact(), add: func(ctx context.Context, under bloomstore.Filter, prints []bloomstore.Fingerprint) ([]bool, error) {
		distinct := slices.Clone(prints)
		slices.SortFunc(distinct, func(a, b bloomstore.Fingerprint) int { return slices.Compare(a[:], b[:]) })
		return under.AddIfAbsent(ctx, slices.Compact(distinct))
	}}
}

func sortsBatch() *broken {
	return &broken{Filter: Exact(), add: func(ctx context.Context, under bloomstore.Filter, prints []bloomstore.Fingerprint) ([]bool, error) {
		slices.SortFunc(prints, func(a, b bloomstore.Fingerprint) int { return slices.Compare(a[:], b[:]) })
		return under.AddIfAbsent(ctx, prints)
	}}
}

func reverses() *broken {
	return &broken{Filter: Exact(), contains: func(ctx context.Context, under bloomstore.Filter, prints []bloomstore.Fingerprint) ([]bool, error) {
		known, err := under.Contains(ctx, prints)
		slices.Reverse(known)
		return known, err
	}}
}

func blindToContext() *broken {
	return &broken{
		Filter: Exact(),
		add: func(ctx context.Context, under bloomstore.Filter, prints []bloomstore.Fingerprint) ([]bool, error) {
			return under.AddIfAbsent(context.WithoutCancel(ctx), prints)
		},
		contains: func(ctx context.Context, under bloomstore.Filter, prints []bloomstore.Fingerprint) ([]bool, error) {
			return under.Contains(context.WithoutCancel(ctx), prints)
		},
	}
}

func breaksOnEmpty() *broken {
	return &broken{Filter: Exact(), add: func(ctx context.Context, under bloomstore.Filter, prints []bloomstore.Fingerprint) ([]bool, error) {
		if len(prints) == 0 {
			return nil, errors.New("nothing to add")
		}
		return under.AddIfAbsent(ctx, prints)
	}}
}

func TestFaultyFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fake clock: the delay takes no time
		ctx, trouble, prints := t.Context(), errors.New("trouble"), newTrial(t).prints(10)
		plan := []Fault{{Err: trouble, Recorded: 3}, {Delay: time.Hour}, {Err: trouble}, {Err: trouble, Recorded: 99}, {Delay: time.Hour}}
		var seen atomic.Int32
		filter := Faulty(Exact(), func(call int) Fault { seen.Add(1); return plan[call] })

		if _, err := filter.AddIfAbsent(ctx, prints); !errors.Is(err, trouble) {
			t.Errorf("call 0: error %v, want %v", err, trouble)
		}
		start := time.Now()
		known, err := filter.Contains(ctx, prints)
		if want := []bool{true, true, true, false, false, false, false, false, false, false}; err != nil || !slices.Equal(known, want) {
			t.Errorf("after a call that failed with 3 recorded: %v, %v; want %v", known, err, want)
		}
		if took := time.Since(start); took != time.Hour {
			t.Errorf("call 1 took %v, want 1h", took)
		}
		if _, err := filter.Contains(ctx, prints); !errors.Is(err, trouble) {
			t.Errorf("call 2: error %v, want %v", err, trouble)
		}
		if _, err := filter.AddIfAbsent(ctx, prints); !errors.Is(err, trouble) {
			t.Errorf("call 3: error %v, want %v", err, trouble)
		}
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if _, err := filter.Contains(short, prints); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("call 4, delayed past its deadline: error %v, want %v", err, context.DeadlineExceeded)
		}
		if known, err := filter.(*faulty).Filter.Contains(ctx, prints); err != nil || slices.Contains(known, false) {
			t.Errorf("after a call of which only the answer was lost: %v, %v; want all known", known, err)
		}
		if seen.Load() != 5 {
			t.Errorf("the plan was asked %d times, want 5", seen.Load())
		}
	})
}
