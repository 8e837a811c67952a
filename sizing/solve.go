package sizing

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
)

// Question describes a wanted filter. Solve computes the fields that are zero. FPR,
// LostShare and LostKeys are upper limits; if several are set, all of them apply.
type Question struct {
	Keys      uint64  // n
	Bits      uint64  // m
	Hashes    uint    // k
	MaxHashes uint    // upper limit of k if Hashes is 0; 0 means the constant MaxHashes
	FPR       float64 // p when the filter holds Keys keys
	LostShare float64 // share of Keys that is lost while the filter is filled
	LostKeys  float64 // number of keys lost while the filter is filled
}

// Answer is a filter that meets a Question.
type Answer struct {
	Keys      uint64  `json:"keys"`
	Bits      uint64  `json:"bits"`
	Hashes    uint    `json:"hashes"`
	FPR       float64 `json:"fpr"`        // when the filter holds Keys keys
	LostShare float64 `json:"lost_share"` // of Keys, while it is filled
	LostKeys  float64 `json:"lost_keys"`
}

// BitsPerKey returns m/n.
func (a Answer) BitsPerKey() float64 { return float64(a.Bits) / float64(a.Keys) }

// OverBound returns the ratio of BitsPerKey to the InformationBound of the filter's rate.
func (a Answer) OverBound() float64 { return a.BitsPerKey() / InformationBound(a.FPR) }

// ImpossibleError reports a Question that no filter meets.
type ImpossibleError struct {
	Question Question
	Possible []Answer // filters that meet all parts of the question except one
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

// ceilings describes the upper limits that are set.
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

// Limits of questions. Up to maxKeys a float64 represents every integer, and maxBits is
// an exbibit, more than any machine has.
const (
	maxKeys = 1 << 53
	maxBits = 1 << 60
)

// Solve computes the zero fields of a question: the fewest bits for given keys and
// limits, the most keys for given bits and limits, or the rate of given keys and bits.
// It chooses the best number of hash functions. If keys, bits and limits are all given
// and contradict each other, the error is an *ImpossibleError. Other errors name all
// faults of the question.
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
		errs = append(errs, fmt.Errorf("limit of %g lost keys allows all of %d keys to be lost: no filter is needed", q.LostKeys, q.Keys))
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
		errs = append(errs, errors.New("too few values: give two of the number of keys, "+
			"the memory, and a limit (false-positive rate or lost keys)"))
	}
	return errors.Join(errs...)
}

// limited reports whether the question has an upper limit.
func (q Question) limited() bool { return q.FPR > 0 || q.LostShare > 0 || q.LostKeys > 0 }

// hashes returns the range of k to consider.
func (q Question) hashes() (lo, hi uint) {
	return max(q.Hashes, 1), cmp.Or(q.Hashes, q.MaxHashes, MaxHashes)
}

// met reports whether n keys in m bits with k hash functions meet every limit.
func (q Question) met(n, m uint64, k uint) bool {
	if q.FPR > 0 && FalsePositiveRate(n, m, k) > q.FPR {
		return false
	}
	share := q.lostShare(n)
	return share == 0 || LostWhileFilling(n, m, k) <= share
}

// lostShare returns the limit of the share of n keys that are lost; 0 means no limit.
func (q Question) lostShare(n uint64) float64 {
	share := q.LostShare
	if byNumber := q.LostKeys / float64(n); byNumber > 0 && (share == 0 || byNumber < share) {
		share = byNumber
	}
	return share
}

// fewestBits solves for m.
func (q Question) fewestBits() (Answer, error) {
	lo, hi := q.hashes()
	k := argmin(lo, hi, q.bitsWith)
	m := q.bitsWith(k)
	if m > maxBits {
		return Answer{}, fmt.Errorf("%d keys with %s need %.3g bits, more than %d: use fewer keys or allow more errors",
			q.Keys, q.ceilings(), m, uint64(maxBits))
	}
	return answer(q.Keys, uint64(m), k), nil
}

// bitsWith returns the fewest bits with k hash functions. The result is a whole number,
// which can be too large for an integer type.
func (q Question) bitsWith(k uint) float64 {
	n, m := float64(q.Keys), 1.0
	if q.FPR > 0 {
		m = math.Ceil(n * BitsPerKey(q.FPR, k))
	}
	share := q.lostShare(q.Keys)
	if share == 0 {
		return m
	}
	// The mean rate while filling is below the final rate, so the size for p = share suffices.
	enough := math.Ceil(n * BitsPerKey(share, k))
	if enough <= m || enough > maxBits {
		return max(m, enough)
	}
	bits := search(0, uint64(enough), func(bits uint64) bool { return LostWhileFilling(q.Keys, bits, k) <= share })
	return max(m, float64(bits))
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

// keysWith returns the most keys with k hash functions. It returns 0 if not even one
// key is possible.
func (q Question) keysWith(k uint) uint64 {
	some, tooMany := uint64(0), uint64(1)
	for q.met(tooMany, q.Bits, k) {
		if tooMany >= maxKeys {
			return maxKeys
		}
		some, tooMany = tooMany, 2*tooMany
	}
	return search(some, tooMany, func(n uint64) bool { return !q.met(n, q.Bits, k) }) - 1
}

// lowestRate solves for p, and checks the limits.
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
	moreBits, fewerKeys := q, q
	moreBits.Bits, fewerKeys.Keys = 0, 0
	for _, other := range []Question{moreBits, fewerKeys} {
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
