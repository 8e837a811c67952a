package exacttest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// broken is a Memory with some of its methods replaced. If a function is nil, the method
// of Memory is used.
type broken struct {
	*Memory
	decide   func(context.Context, []exact.Key) ([]exact.Answer, error)
	queued   func(context.Context, []exact.Ref) error
	withdraw func(context.Context, []exact.Ref) error
	finish   func(context.Context, []exact.Finished, []exact.Row) error
	stale    func(context.Context, time.Duration, int) ([]exact.Entry, error)
	waiting  func(context.Context, bloomstore.Fingerprint, int) ([]exact.Entry, error)
	sweep    func(context.Context, int) (int, time.Duration, error)
}

func (b *broken) Decide(ctx context.Context, keys []exact.Key) ([]exact.Answer, error) {
	if b.decide == nil {
		return b.Memory.Decide(ctx, keys)
	}
	return b.decide(ctx, keys)
}

func (b *broken) Queued(ctx context.Context, keys []exact.Ref) error {
	if b.queued == nil {
		return b.Memory.Queued(ctx, keys)
	}
	return b.queued(ctx, keys)
}

func (b *broken) Withdraw(ctx context.Context, keys []exact.Ref) error {
	if b.withdraw == nil {
		return b.Memory.Withdraw(ctx, keys)
	}
	return b.withdraw(ctx, keys)
}

func (b *broken) Finish(ctx context.Context, finished []exact.Finished, records []exact.Row) error {
	if b.finish == nil {
		return b.Memory.Finish(ctx, finished, records)
	}
	return b.finish(ctx, finished, records)
}

func (b *broken) Stale(ctx context.Context, age time.Duration, n int) ([]exact.Entry, error) {
	if b.stale == nil {
		return b.Memory.Stale(ctx, age, n)
	}
	return b.stale(ctx, age, n)
}

func (b *broken) Waiting(ctx context.Context, after bloomstore.Fingerprint, n int) ([]exact.Entry, error) {
	if b.waiting == nil {
		return b.Memory.Waiting(ctx, after, n)
	}
	return b.waiting(ctx, after, n)
}

func (b *broken) Sweep(ctx context.Context, n int) (int, time.Duration, error) {
	if b.sweep == nil {
		return b.Memory.Sweep(ctx, n)
	}
	return b.sweep(ctx, n)
}

// mutants are sets that break their contract, each in one way. wantCase names a
// case that must fail. If it is "", each random run must fail.
var mutants = []struct {
	name, wantCase string
	breakIt        func(b *broken, opt *Options)
}{
	{"looks before it inserts, in two steps", "RacersGetOneNew", func(b *broken, _ *Options) {
		b.decide = func(ctx context.Context, keys []exact.Key) ([]exact.Answer, error) {
			known := make([]exact.Status, len(keys))
			for i, key := range keys {
				known[i], _ = b.Lookup(ctx, key.Fingerprint)
			}
			time.Sleep(time.Millisecond) // meanwhile other callers look up the same keys
			answers, err := b.Memory.Decide(ctx, keys)
			for i := range answers {
				if known[i].State == exact.Unknown {
					answers[i].New = true
				}
			}
			return answers, err
		}
	}},
	{"answers equal keys of a batch alike", "EqualKeysInOneBatch", func(b *broken, _ *Options) {
		b.decide = func(ctx context.Context, keys []exact.Key) ([]exact.Answer, error) {
			answers, err := b.Memory.Decide(ctx, keys)
			first := map[bloomstore.Fingerprint]exact.Answer{}
			for i, key := range keys {
				if a, ok := first[key.Fingerprint]; ok {
					answers[i] = a
				} else {
					first[key.Fingerprint] = answers[i]
				}
			}
			return answers, err
		}
	}},
	{"answers in the order of fingerprints", "AnswersAreIndexForIndex", func(b *broken, _ *Options) {
		b.decide = func(ctx context.Context, keys []exact.Key) ([]exact.Answer, error) {
			sorted := slices.Clone(keys)
			slices.SortFunc(sorted, func(a, b exact.Key) int { return slices.Compare(a.Fingerprint[:], b.Fingerprint[:]) })
			return b.Memory.Decide(ctx, sorted)
		}
	}},
	{"loses keys of calls that are cancelled", "InterruptedDecide", func(b *broken, _ *Options) {
		b.decide = func(ctx context.Context, keys []exact.Key) ([]exact.Answer, error) {
			answers, err := b.Memory.Decide(ctx, keys)
			if err != nil || len(keys) != 20 || ctx.Done() == nil {
				return answers, err
			}
			time.Sleep(100 * time.Microsecond)
			if ctx.Err() != nil { // the keys are known now, but no caller owns them
				for _, key := range keys {
					_ = b.Memory.Queued(context.Background(), refs(0, key))
				}
				return nil, ctx.Err()
			}
			return answers, nil
		}
	}},
	{"does not keep the depth", "KeysAreKept", func(b *broken, _ *Options) {
		b.decide = func(ctx context.Context, keys []exact.Key) ([]exact.Answer, error) {
			keys = slices.Clone(keys)
			for i := range keys {
				keys[i].Depth = 0
			}
			return b.Memory.Decide(ctx, keys)
		}
	}},
	{"queues keys of any round", "", func(b *broken, _ *Options) {
		b.queued = func(ctx context.Context, keys []exact.Ref) error {
			keys = slices.Clone(keys)
			for i := range keys {
				status, _ := b.Lookup(ctx, keys[i].Fingerprint)
				keys[i].Round = status.Round
			}
			return b.Memory.Queued(ctx, keys)
		}
	}},
	{"withdraws keys of any round", "WithdrawOfARenewedKey", func(b *broken, _ *Options) {
		b.withdraw = func(ctx context.Context, keys []exact.Ref) error {
			keys = slices.Clone(keys)
			for i := range keys {
				status, _ := b.Lookup(ctx, keys[i].Fingerprint)
				keys[i].Round = status.Round
			}
			return b.Memory.Withdraw(ctx, keys)
		}
	}},
	{"withdraws nothing", "Withdraw", func(b *broken, _ *Options) {
		b.withdraw = func(context.Context, []exact.Ref) error { return nil }
	}},
	{"finishes keys in the next round", "FirstToFinishDecides", func(b *broken, _ *Options) {
		b.finish = func(ctx context.Context, finished []exact.Finished, records []exact.Row) error {
			finished = slices.Clone(finished)
			for i := range finished {
				if s, _ := b.Lookup(ctx, finished[i].Fingerprint); s.State == exact.Done || s.State == exact.Failed {
					finished[i].Round++ // overwrites the earlier end
				}
			}
			return b.Memory.Finish(ctx, finished, records)
		}
	}},
	{"stores keys and then records", "RecordsOnce", func(b *broken, _ *Options) {
		b.finish = func(ctx context.Context, finished []exact.Finished, records []exact.Row) error {
			records = slices.Clone(records)
			for i := range records {
				records[i].Round += uint32(len(finished)) // a wrong round
			}
			return b.Memory.Finish(ctx, finished, records)
		}
	}},
	{"takes the last of equal ends", "EqualKeysInOneFinish", func(b *broken, _ *Options) {
		b.finish = func(ctx context.Context, finished []exact.Finished, records []exact.Row) error {
			finished = slices.Clone(finished)
			slices.Reverse(finished)
			return b.Memory.Finish(ctx, finished, records)
		}
	}},
	{"finishes unknown keys", "", func(b *broken, _ *Options) {
		b.finish = func(ctx context.Context, finished []exact.Finished, records []exact.Row) error {
			for _, f := range finished {
				if s, _ := b.Lookup(ctx, f.Fingerprint); s.State == exact.Unknown {
					_, _ = b.Memory.Decide(ctx, []exact.Key{{Fingerprint: f.Fingerprint, Class: f.Class}})
				}
			}
			return b.Memory.Finish(ctx, finished, records)
		}
	}},
	{"finishes only queued keys", "", func(b *broken, _ *Options) {
		b.finish = func(ctx context.Context, finished []exact.Finished, records []exact.Row) error {
			finished = slices.DeleteFunc(slices.Clone(finished), func(f exact.Finished) bool {
				s, _ := b.Lookup(ctx, f.Fingerprint)
				return s.State == exact.Pending
			})
			return b.Memory.Finish(ctx, finished, records)
		}
	}},
	{"marks finished keys as queued", "", func(b *broken, _ *Options) {
		b.queued = func(ctx context.Context, keys []exact.Ref) error {
			err := b.Memory.Queued(ctx, keys)
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, key := range keys {
				if r := b.rows[key.Fingerprint]; r != nil && r.Round == key.Round {
					r.State = exact.Queued
				}
			}
			return err
		}
	}},
	{"withdraws finished keys", "", func(b *broken, _ *Options) {
		b.withdraw = func(ctx context.Context, keys []exact.Ref) error {
			err := b.Memory.Withdraw(ctx, keys)
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, key := range keys {
				if r := b.rows[key.Fingerprint]; r != nil && r.Round == key.Round && r.isFinished() {
					delete(b.rows, key.Fingerprint)
				}
			}
			return err
		}
	}},
	{"finishes a renewed key in an earlier round", "", func(b *broken, _ *Options) {
		b.finish = func(ctx context.Context, finished []exact.Finished, records []exact.Row) error {
			finished = slices.Clone(finished)
			for i := range finished {
				s, _ := b.Lookup(ctx, finished[i].Fingerprint)
				finished[i].Round = max(finished[i].Round, s.Round)
			}
			return b.Memory.Finish(ctx, finished, records)
		}
	}},
	{"knows no windows", "BackAfterTheWindow", func(b *broken, opt *Options) {
		b.Memory = NewMemory(Options{Now: opt.Now})
	}},
	{"has one window for all", "", func(b *broken, opt *Options) {
		var windows exact.Windows
		for class := range windows {
			windows[class] = opt.Windows[1]
		}
		b.Memory = NewMemory(Options{Now: opt.Now, Windows: windows})
	}},
	{"hands stale keys to every forwarder", "StaleTaken", func(b *broken, _ *Options) {
		b.stale = func(ctx context.Context, age time.Duration, n int) ([]exact.Entry, error) {
			entries, err := b.Memory.Waiting(ctx, bloomstore.Fingerprint{}, n)
			return entries, err
		}
	}},
	{"returns stale keys too early", "", func(b *broken, _ *Options) {
		b.stale = func(ctx context.Context, age time.Duration, n int) ([]exact.Entry, error) {
			return b.Memory.Stale(ctx, age/2, n)
		}
	}},
	{"keeps the depth of the first round", "", func(b *broken, _ *Options) {
		b.decide = func(ctx context.Context, keys []exact.Key) ([]exact.Answer, error) {
			answers, err := b.Memory.Decide(ctx, keys)
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, key := range keys {
				if r := b.rows[key.Fingerprint]; r != nil && r.finished != nil {
					r.Depth = r.finished.Depth
				}
			}
			return answers, err
		}
	}},
	{"begins the window again when Finish is repeated", "", func(b *broken, opt *Options) {
		b.finish = func(ctx context.Context, finished []exact.Finished, records []exact.Row) error {
			err := b.Memory.Finish(ctx, finished, records)
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, f := range finished {
				if r := b.rows[f.Fingerprint]; r != nil && r.Round == f.Round && !r.over.IsZero() {
					r.over = opt.Now().Add(opt.Windows[f.Class])
				}
			}
			return err
		}
	}},
	{"keeps the window of the first round", "RetryStartsTheWindowAnew", func(b *broken, _ *Options) {
		b.finish = func(ctx context.Context, finished []exact.Finished, records []exact.Row) error {
			before := map[bloomstore.Fingerprint]time.Time{}
			for _, f := range finished {
				if r := b.rows[f.Fingerprint]; r != nil {
					before[f.Fingerprint] = r.over
				}
			}
			err := b.Memory.Finish(ctx, finished, records)
			for print, over := range before {
				if !over.IsZero() {
					b.rows[print].over = over
				}
			}
			return err
		}
	}},
	{"lists one page only", "WaitingIsCompleteUnderChange", func(b *broken, _ *Options) {
		b.waiting = func(ctx context.Context, after bloomstore.Fingerprint, n int) ([]exact.Entry, error) {
			if after != (bloomstore.Fingerprint{}) {
				return nil, nil
			}
			return b.Memory.Waiting(ctx, after, n)
		}
	}},
	{"skips a key at the end of each page", "WaitingIsCompleteUnderChange", func(b *broken, _ *Options) {
		b.waiting = func(ctx context.Context, after bloomstore.Fingerprint, n int) ([]exact.Entry, error) {
			entries, err := b.Memory.Waiting(ctx, after, n)
			if len(entries) == n && n > 1 {
				entries = slices.Delete(entries, n-2, n-1)
			}
			return entries, err
		}
	}},
	{"says that all are queued", "", func(b *broken, _ *Options) {
		b.waiting = func(ctx context.Context, after bloomstore.Fingerprint, n int) ([]exact.Entry, error) {
			entries, err := b.Memory.Waiting(ctx, after, n)
			for i := range entries {
				entries[i].State = exact.Queued
			}
			return entries, err
		}
	}},
	{"sweeps more keys than it is asked to", "SweepInBatches", func(b *broken, _ *Options) {
		b.sweep = func(ctx context.Context, _ int) (int, time.Duration, error) { return b.Memory.Sweep(ctx, 1<<20) }
	}},
	{"forgets the rounds of swept keys", "SweptRoundsDoNotRepeat", func(b *broken, _ *Options) {
		b.decide = func(ctx context.Context, keys []exact.Key) ([]exact.Answer, error) {
			answers, err := b.Memory.Decide(ctx, keys)
			for i := range answers {
				if answers[i].New {
					answers[i].Round, answers[i].First = 0, true
				}
			}
			return answers, err
		}
	}},
	{"begins unknown keys in the round after the swept keys", "SweptRoundsDoNotRepeat", func(b *broken, _ *Options) {
		b.decide = func(ctx context.Context, keys []exact.Key) ([]exact.Answer, error) {
			answers, err := b.Memory.Decide(ctx, keys)
			for i := range answers {
				if answers[i].New && answers[i].Round > 3 {
					answers[i].Round--
				}
			}
			return answers, err
		}
	}},
	{"accepts calls whose context has ended", "CancelledCallsDoNothing", func(b *broken, _ *Options) {
		b.finish = func(ctx context.Context, finished []exact.Finished, records []exact.Row) error {
			return errors.Join(b.Memory.Finish(context.WithoutCancel(ctx), finished, records), ctx.Err())
		}
	}},
}

// TestSuiteSeesBrokenSets runs the suite on sets that are broken on purpose.
func TestSuiteSeesBrokenSets(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			open := driving(func(_ *testing.T, opt Options) Set {
				b := &broken{Memory: NewMemory(opt)}
				m.breakIt(b, &opt)
				return b
			})
			if m.wantCase != "" {
				suite.WantCaught(t, allCases(), m.wantCase, open)
				return
			}
			for seed := range uint64(5) {
				if suite.Try(t, modelRun(seed, 400), open) == nil {
					t.Errorf("the random run with seed %d found no fault in a broken set", seed)
				}
			}
		})
	}
}

// TestModelSeesBrokenSets: the random calls of ModelSet find the faults of at least half of
// the mutants.
func TestModelSeesBrokenSets(t *testing.T) {
	seen := 0
	for _, m := range mutants {
		open := driving(func(_ *testing.T, opt Options) Set {
			b := &broken{Memory: NewMemory(opt)}
			m.breakIt(b, &opt)
			return b
		})
		if suite.Try(t, modelRun(7, 1500), open) != nil {
			seen++
		}
	}
	if want := len(mutants) / 2; seen < want {
		t.Errorf("random calls found the faults of %d of %d broken sets, want at least %d", seen, len(mutants), want)
	}
}
