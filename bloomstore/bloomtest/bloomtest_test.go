package bloomtest

import (
	"context"
	"errors"
	"flag"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/suite"
)

var (
	_ = flag.Uint64("seed", 0, "replay random cases with this seed")
	_ = flag.Bool("proof", false, "run the cases at full size")
)

func TestExactPasses(t *testing.T) {
	RunDeleter(t, func(*testing.T) Deleter { return Exact() })
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
		{"all tests before all marks", testAllFirst, "Model"},
		{"forgets a key in 256", forgetful, "LargeBatch Model RacersGetAtMostOneTrue"},
		{"claims a key in 256 that it never saw", claimsTooMuch, "AnswersIndexForIndex LargeBatch Model RacersGetAtMostOneTrue"},
		{"64-bit identity", halfIdentity, "TellsSimilarKeysApart"},
		{"reads the caller's batch after the call", keepsBatch, "KeepsNoReference"},
		{"reuses its answers", reusesAnswers, "KeepsNoReference"},
		{"answers distinct keys only", collapses, "Model"},
		{"sorts the caller's batch", sortsBatch, "AnswersIndexForIndex LargeBatch KeepsNoReference"},
		{"answers in another order", reverses, "AnswersIndexForIndex"},
		{"ignores cancellation", blindToContext, "CancelledContext"},
		{"breaks on an empty batch", breaksOnEmpty, "EmptyBatch"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			for _, name := range strings.Fields(c.caught) {
				suite.WantCaught(t, cases, name, func(t *testing.T, _ options) *trial {
					trial := newTrial(t, c.filter())
					trial.proof = false
					return trial
				})
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
