package sizing

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Question is what is wanted of a filter. A zero field is open: Solve finds it.
// FPR, LostShare and LostKeys are ceilings; of several the tightest counts.
type Question struct {
	Keys      uint64  // n
	Bits      uint64  // m
	Hashes    uint    // k, or
	MaxHashes uint    // the largest k to consider; 0 means MaxHashes of the package
	FPR       float64 // p at Keys
	LostShare float64 // of Keys, while the filter is filled
	LostKeys  float64 // number of keys lost while the filter is filled
}

// Answer is a filter that does what a Question asks.
type Answer struct {
	Keys      uint64  `json:"keys"`
	Bits      uint64  `json:"bits"`
	Hashes    uint    `json:"hashes"`
	FPR       float64 `json:"fpr"`        // at Keys
	LostShare float64 `json:"lost_share"` // of Keys, while it is filled
	LostKeys  float64 `json:"lost_keys"`
}

// BitsPerKey returns m/n.
func (a Answer) BitsPerKey() float64 { return float64(a.Bits) / float64(a.Keys) }

// OverBound returns how many times the information bound's bits it takes, for
// the rate that it has.
func (a Answer) OverBound() float64 { return a.BitsPerKey() / InformationBound(a.FPR) }

// ImpossibleError reports a Question that no filter answers.
type ImpossibleError struct {
	Question Question
	Possible []Answer // what each part of the question would allow, given the others
}

func (e *ImpossibleError) Error() string {
	q := e.Question
	var b strings.Builder
	fmt.Fprintf(&b, "no filter of %d bits", q.Bits)
	if q.Keys > 0 {
		fmt.Fprintf(&b, " holds %d keys", q.Keys)
	}
	fmt.Fprintf(&b, " with %s", q.ceilings())
	if q.Hashes > 0 {
		fmt.Fprintf(&b, " and %d hash functions", q.Hashes)
	}
	for i, a := range e.Possible {
		separator := "; possible: "
		if i > 0 {
			separator = "; or "
		}
		fmt.Fprintf(&b, "%s%d keys in %d bits with k = %d, p = %.3g, %.3g keys lost",
			separator, a.Keys, a.Bits, a.Hashes, a.FPR, a.LostKeys)
	}
	return b.String()
}

// ceilings names those that are set.
func (q Question) ceilings() string {
	var parts []string
	if q.FPR > 0 {
		parts = append(parts, fmt.Sprintf("p <= %.3g", q.FPR))
	}
	if q.LostShare > 0 {
		parts = append(parts, fmt.Sprintf("a share of %.3g lost", q.LostShare))
	}
	if q.LostKeys > 0 {
		parts = append(parts, fmt.Sprintf("%.3g keys lost", q.LostKeys))
	}
	return strings.Join(parts, ", ")
}

// The largest questions: float64 counts keys one by one up to maxKeys, and
// nobody owns maxBits, an exbibit.
const (
	maxKeys = 1 << 53
	maxBits = 1 << 60
)

// Solve finds what a question leaves open: the fewest bits for given keys and
// ceilings, the most keys for given bits and ceilings, or the rate of given keys
// and bits, each with the best integer number of hash functions. All three given,
// it checks that they agree, and answers an *ImpossibleError when they do not.
// Other errors name all faults of the question.
func Solve(q Question) (Answer, error) {
	if err := q.check(); err != nil {
		return Answer{}, err
	}
	switch {
	case q.Keys == 0:
		return q.mostKeys()
	case q.Bits == 0:
		return q.fewestBits()
	default:
		return q.lowestRate()
	}
}

func (q Question) check() error {
	var errs []error
	if q.FPR < 0 || q.FPR >= 1 || math.IsNaN(q.FPR) {
		errs = append(errs, fmt.Errorf("false-positive rate is %g, want more than 0 and less than 1", q.FPR))
	}
	if q.LostShare < 0 || q.LostShare >= 1 || math.IsNaN(q.LostShare) {
		errs = append(errs, fmt.Errorf("share of lost keys is %g, want more than 0 and less than 1", q.LostShare))
	}
	if q.LostKeys < 0 || math.IsNaN(q.LostKeys) {
		errs = append(errs, fmt.Errorf("number of lost keys is %g, want more than 0", q.LostKeys))
	} else if q.Keys > 0 && q.LostKeys >= float64(q.Keys) {
		errs = append(errs, fmt.Errorf("%g lost keys are all of %d: no filter is needed", q.LostKeys, q.Keys))
	}
	if q.Hashes > MaxHashes || q.MaxHashes > MaxHashes {
		errs = append(errs, fmt.Errorf("%d hash functions, want 1 to %d", max(q.Hashes, q.MaxHashes), MaxHashes))
	}
	if q.MaxHashes > 0 && q.Hashes > q.MaxHashes {
		errs = append(errs, fmt.Errorf("%d hash functions are more than the %d allowed", q.Hashes, q.MaxHashes))
	}
	if q.Keys > maxKeys {
		errs = append(errs, fmt.Errorf("%d keys, want at most %d", q.Keys, uint64(maxKeys)))
	}
	if q.Bits > maxBits {
		errs = append(errs, fmt.Errorf("%d bits, want at most %d", q.Bits, uint64(maxBits)))
	}
	if (q.Keys == 0 || q.Bits == 0) && !q.limited() || q.Keys == 0 && q.Bits == 0 {
		errs = append(errs, errors.New("too little is known: give two of the number of keys, "+
			"the memory, and a ceiling (false-positive rate or lost keys)"))
	}
	return errors.Join(errs...)
}

// limited reports whether the question sets a ceiling.
func (q Question) limited() bool { return q.FPR > 0 || q.LostShare > 0 || q.LostKeys > 0 }

// hashes returns the range of k to consider.
func (q Question) hashes() (lo, hi uint) {
	if q.Hashes > 0 {
		return q.Hashes, q.Hashes
	}
	if q.MaxHashes > 0 {
		return 1, q.MaxHashes
	}
	return 1, MaxHashes
}

// met reports whether n keys in m bits with k hash functions stay below every ceiling.
func (q Question) met(n, m uint64, k uint) bool {
	if q.FPR > 0 && FalsePositiveRate(n, m, k) > q.FPR {
		return false
	}
	share := q.lostShare(n)
	return share == 0 || LostWhileFilling(n, m, k) <= share
}

// lostShare returns the ceiling on the share of n keys lost, 0 for none.
func (q Question) lostShare(n uint64) float64 {
	share := q.LostShare
	if q.LostKeys > 0 {
		if byNumber := q.LostKeys / float64(n); share == 0 || byNumber < share {
			share = byNumber
		}
	}
	return share
}

// fewestBits solves for m.
func (q Question) fewestBits() (Answer, error) {
	lo, hi := q.hashes()
	k := argmin(lo, hi, q.bitsWith)
	m := q.bitsWith(k)
	if m > maxBits {
		return Answer{}, fmt.Errorf("%d keys with %s need %.3g bits, more than %d: ask for less",
			q.Keys, q.ceilings(), m, uint64(maxBits))
	}
	return answer(q.Keys, uint64(m), k), nil
}

// bitsWith returns the fewest bits with k hash functions: a whole number, also
// where it is too large for an integer.
func (q Question) bitsWith(k uint) float64 {
	n, m := float64(q.Keys), 1.0
	if q.FPR > 0 {
		m = math.Ceil(n * BitsPerKey(q.FPR, k))
	}
	share := q.lostShare(q.Keys)
	if share == 0 {
		return m
	}
	// Fewer are lost than the last rate says, so the size for p = share suffices.
	enough := math.Ceil(n * BitsPerKey(share, k))
	if enough <= m || enough > maxBits {
		return max(m, enough)
	}
	few, many := uint64(0), uint64(enough)
	for many-few > 1 {
		if mid := few + (many-few)/2; LostWhileFilling(q.Keys, mid, k) <= share {
			many = mid
		} else {
			few = mid
		}
	}
	return max(m, float64(many))
}

// mostKeys solves for n.
func (q Question) mostKeys() (Answer, error) {
	var best Answer
	lo, hi := q.hashes()
	for k := lo; k <= hi; k++ {
		if n := q.keysWith(k); n > best.Keys {
			best = Answer{Keys: n, Hashes: k}
		}
	}
	if best.Keys == 0 {
		one := q
		one.Keys, one.Bits = 1, 0
		possible, err := one.fewestBits()
		if err != nil {
			return Answer{}, err
		}
		return Answer{}, &ImpossibleError{q, []Answer{possible}}
	}
	return answer(best.Keys, q.Bits, best.Hashes), nil
}

// keysWith returns the most keys with k hash functions, 0 if not even one.
func (q Question) keysWith(k uint) uint64 {
	some, tooMany := uint64(0), uint64(1)
	for q.met(tooMany, q.Bits, k) {
		if tooMany >= maxKeys {
			return maxKeys
		}
		some, tooMany = tooMany, 2*tooMany
	}
	for tooMany-some > 1 {
		if mid := some + (tooMany-some)/2; q.met(mid, q.Bits, k) {
			some = mid
		} else {
			tooMany = mid
		}
	}
	return some
}

// lowestRate solves for p, and holds it to the ceilings.
func (q Question) lowestRate() (Answer, error) {
	lo, hi := q.hashes()
	k := argmin(lo, hi, func(k uint) float64 { return FalsePositiveRate(q.Keys, q.Bits, k) })
	if q.met(q.Keys, q.Bits, k) {
		return answer(q.Keys, q.Bits, k), nil
	}
	for other := lo; other <= hi; other++ { // fewer hash functions lose less while filling
		if q.met(q.Keys, q.Bits, other) {
			return answer(q.Keys, q.Bits, other), nil
		}
	}
	possible := []Answer{answer(q.Keys, q.Bits, k)}
	for _, open := range []func(*Question){
		func(q *Question) { q.Bits = 0 },
		func(q *Question) { q.Keys = 0 },
	} {
		other := q
		open(&other)
		if a, err := Solve(other); err == nil {
			possible = append(possible, a)
		}
	}
	return Answer{}, &ImpossibleError{q, possible}
}

func answer(n, m uint64, k uint) Answer {
	share := LostWhileFilling(n, m, k)
	return Answer{
		Keys: n, Bits: m, Hashes: k,
		FPR: FalsePositiveRate(n, m, k), LostShare: share, LostKeys: share * float64(n),
	}
}
