// Package fpr measures the false-positive rates of sets of fingerprints, both when they
// are full and while they are filled. It compares the rates with the formulas of
// package sizing, and reports a broken promise if they differ by more than chance.
//
// It owns the cases, and the theory for the structure of each set. Package bloomrate
// counts errors and computes how far their number is from the expected one. Package sets
// opens the sets.
package fpr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/bench/report"
	"github.com/bloomfrontier/crawler/internal/bench/sets"
	"github.com/bloomfrontier/crawler/internal/bloomrate"
)

// Config says what to measure. The zero value has no subjects, so nothing is measured.
type Config struct {
	Keys     uint64    // number of keys that are offered to each set; 0 means 250,000, and 25,000 for exact sets
	Rates    []float64 // nil means 5 %, 1 %, 0.1 %, 1e-4 and 1e-6
	Seed     uint64    // of all keys
	Subjects []Subject
}

// Subject is a set with its theory.
type Subject struct {
	sets.Kind
	// Probes is the maximum number of probes. If 100/p is larger, where p is the rate of
	// the case, the maximum is 100/p. More probes make the confidence interval of the
	// measured rate narrower.
	Probes uint64
	// Theory is nil for an exact set. Such a set never errs, so measuring one case suffices.
	Theory func(c Case) Theory
}

// Memory returns the subject for package membits.
func Memory() Subject {
	return Subject{Kind: sets.Memory(), Probes: 20_000_000, Theory: memoryTheory}
}

// Redis returns the subject for package redisbits.
func Redis(r *sets.Redis) Subject {
	return Subject{Kind: sets.RedisFilter(r), Probes: 2_000_000, Theory: redisTheory}
}

// Exact returns the subject for a set that never errs.
func Exact(kind sets.Kind) Subject {
	kind.Name += ", exact keys"
	return Subject{Kind: kind}
}

// filter is a Set that implements bloomstore.Filter.
type filter struct{ *sets.Set }

// AddIfAbsent implements bloomstore.Filter.
func (f filter) AddIfAbsent(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	return f.Add(ctx, sets.Prints(prints))
}

// Contains implements bloomstore.Filter.
func (f filter) Contains(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	return f.Set.Contains(ctx, sets.Prints(prints))
}

// Case is one measurement of a set.
type Case struct {
	Keys     uint64  // number of offered keys
	Capacity uint64  // keys that the set is sized for
	FPR      float64 // target rate
	Growth   bool
}

// Name returns the name of the case, which is unique within its subject.
func (c Case) Name() string { return fmt.Sprintf("p = %g%s", c.FPR, c.growth()) }

// growth says how many times its capacity the set gets, if it grows.
func (c Case) growth() string {
	if !c.Growth {
		return ""
	}
	return fmt.Sprintf(", grown ×%d", (c.Keys+c.Capacity/2)/c.Capacity)
}

// probes returns the number of probes in which a hundred errors are expected.
func (c Case) probes() uint64 { return uint64(math.Ceil(100 / c.FPR)) }

// limit is the deviation, in σ, above which a promise is broken. By chance, one figure
// in 3.5 million exceeds it.
const limit = 5

// Section returns the section of the measurement, with its steps.
func Section(config Config) *report.Section {
	if config.Rates == nil {
		config.Rates = []float64{0.05, 0.01, 1e-3, 1e-4, 1e-6}
	}
	m := newMeasurement(config)
	seed := config.Seed
	for _, s := range config.Subjects {
		for _, c := range config.cases(s) {
			m.step(s, c, seed)
			seed++
		}
	}
	return m.section
}

// cases returns the measurements of s. Growth is only measured at rates from 1e-4 to 1 %,
// because its effect hardly depends on the rate.
func (config Config) cases(s Subject) (all []Case) {
	if s.Theory == nil {
		// The filter of an exact store is sized for a hundredth of the keys, at the
		// highest rate that can be configured. So the filter soon takes every new key for
		// a known one. A store that relied on this filter would lose nearly all keys.
		n := config.exactKeys()
		return []Case{{Keys: n, Capacity: max(n/100, 1), FPR: 0.5}}
	}
	n := config.filterKeys()
	for _, p := range config.Rates {
		all = append(all, Case{Keys: n, Capacity: n, FPR: p})
	}
	for _, p := range config.Rates {
		if p > 0.01 || p < 1e-4 {
			continue
		}
		for _, growth := range []uint64{2, 8} {
			all = append(all, Case{Keys: n, Capacity: max(n/growth, 1), FPR: p, Growth: true})
		}
	}
	return all
}

// filterKeys returns the number of keys that are offered to a filter.
func (config Config) filterKeys() uint64 { return cmp.Or(config.Keys, 250_000) }

// exactKeys returns the number of keys that are offered to an exact store. By default there are fewer
// than for a filter, because exact stores are slower.
func (config Config) exactKeys() uint64 { return cmp.Or(config.Keys, 25_000) }

// partitions is the number of partitions of a set in Redis.
const partitions = 16

type measurement struct {
	section        *report.Section
	full, filling  *report.Table
	bound, theory  *report.Promise
	exact, forgets *report.Promise
}

func newMeasurement(config Config) *measurement {
	s := &report.Section{Name: "fpr", Title: "False positives", About: fmt.Sprintf(
		`Each filter is filled with %s random fingerprints, and each exact store with %s. The fingerprints of URLs are keyed
hashes, so random ones behave like them. Then a filter is asked for at least 100/p other fingerprints. If the budget was
too small for that, the case is listed under "Missing", with the number of keys that were added. The intervals are 95 %% Wilson intervals. The theory is computed
by package sizing for the actual layout: sub-filters in memory, and blocks of segments in Redis. Their sizes are rounded
up, so a small set gets more bits than it needs. A rate is promised for the mean of all filters of a size. Each filter
differs from it by chance; σ includes this, layer by layer. A promise is broken if a figure differs from the theory by
more than %dσ, in addition to the 0.2 %% (memory) or 1 %% (Redis) by which the formulas may be wrong. By chance this
happens once in 3.5 million figures. The filters of the exact stores are much too small on purpose, and claim nearly all
keys; pgstore has no filter.`, report.Count(config.filterKeys()).Text, report.Count(config.exactKeys()).Text, limit)}
	m := &measurement{section: s}
	m.bound = s.Promise("a new key is taken for a known one with a probability of at most p")
	m.theory = s.Promise("rates are what `crawler size` says, neither more nor less")
	m.exact = s.Promise("exact stores lose nothing, and claim nothing")
	m.forgets = s.Promise("no key that was added is denied")
	m.full = s.Table("Claimed when full", "set", "keys", "p", "probes", "claimed", "measured", "95 % interval", "theory", "measured / theory", "σ")
	m.filling = s.Table("Lost while filling", "set", "keys", "p", "lost", "share", "95 % interval", "theory", "measured / theory", "σ")
	return m
}

// step adds the step for a case.
func (m *measurement) step(s Subject, c Case, seed uint64) {
	name := s.Name
	if s.Theory != nil {
		name += ", " + c.Name()
	}
	m.section.Step(name, func(ctx context.Context, turn *report.Turn) error { return m.run(ctx, turn, s, c, seed) })
}

// goal returns the number of probes that are made if the budget suffices.
func (s Subject) goal(c Case) uint64 {
	const narrow = 1e5 // number of errors; with so many, σ is 0.3 % of the rate
	return max(c.probes(), min(uint64(narrow/c.FPR), s.Probes))
}

// keysOf returns the keys of a measurement, which are random fingerprints.
func keysOf(seed uint64) bloomrate.Keys {
	return bloomrate.RandomKeys(rand.New(rand.NewPCG(seed, 0)))
}

func (m *measurement) run(ctx context.Context, turn *report.Turn, s Subject, c Case, seed uint64) (err error) {
	plan := sets.Plan{Capacity: c.Capacity, FPR: c.FPR, Growth: bloomstore.GrowthOff, Partitions: partitions}
	if c.Growth {
		plan.Growth = bloomstore.GrowthOn
	}
	opened, err := s.Open(ctx, plan)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.End(ctx)) }()
	set := filter{opened}
	keys := keysOf(seed)
	filled := func(done uint64) {
		turn.At("after %s of %s keys were added", report.Count(done).Text, report.Count(c.Keys).Text)
	}
	filled(0)
	lost, _, err := chunks(c.Keys, func(n uint64) (uint64, error) {
		return bloomrate.Fill(ctx, set, keys, n)
	}, func(done uint64) bool {
		filled(done)
		return true
	})
	if err != nil {
		return err
	}
	if err := m.checkKnown(ctx, set, s, c, seed); err != nil {
		return err
	}
	if s.Theory == nil {
		claimed, err := bloomrate.Probe(ctx, set, keys, min(c.Keys, sample))
		if err == nil {
			m.reportExact(turn, s, c, lost, claimed)
		}
		return err
	}
	theory := s.Theory(c)
	m.reportLost(s, c, lost, theory)
	goal := s.goal(c)
	claimed, probes, err := chunks(goal, func(n uint64) (uint64, error) {
		return bloomrate.Probe(ctx, set, keys, n)
	}, func(done uint64) bool {
		turn.At("after all %s keys were added and %s of at most %s probes were made",
			report.Count(c.Keys).Text, report.Count(done).Text, report.Count(goal).Text)
		return turn.Left() > 0 || done < min(c.probes(), owed)
	})
	if probes < c.probes() {
		m.section.Miss(s.Name+", "+c.Name(), fmt.Sprintf("the budget was enough for %.2g/p probes only, not 100/p", float64(probes)*c.FPR))
	}
	if probes > 0 && (err == nil || ctx.Err() != nil) { // an interrupted measurement reports the probes that it made
		m.reportFull(turn, s, c, claimed, probes, theory)
	}
	return err
}

// owed is the number of probes that a case makes even if the time is up. If 100/p is
// smaller, the case makes 100/p probes. These probes take seconds, and without them the
// rate is too uncertain.
const owed = 1_000_000

// chunk is the number of keys between two checks of the clock.
const chunk = 1 << 15

// chunks splits n keys into chunks. It calls process for one chunk after the other, as
// long as proceed returns true. It returns the sum of the results of process, and the
// number of keys in these chunks.
func chunks(n uint64, process func(n uint64) (uint64, error), proceed func(done uint64) bool) (sum, done uint64, err error) {
	for done < n {
		some := min(chunk, n-done)
		counted, err := process(some)
		if err != nil {
			return sum, done, err
		}
		sum, done = sum+counted, done+some
		if !proceed(done) {
			break
		}
	}
	return sum, done, nil
}

// sample is the maximum number of keys that one check looks up. There are two checks: that
// a set contains the keys that were added, and that an exact set does not contain new keys.
const sample = 1000

// checkKnown generates the first keys again and checks that the set contains them.
func (m *measurement) checkKnown(ctx context.Context, set filter, s Subject, c Case, seed uint64) error {
	n := min(c.Keys, sample)
	known, err := bloomrate.Probe(ctx, set, keysOf(seed), n)
	if err != nil {
		return err
	}
	m.forgets.Hold(known == n, "%s: %d of %d keys that were added are denied", s.Name, n-known, n)
	return nil
}
