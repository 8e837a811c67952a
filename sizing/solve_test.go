package sizing

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSolveEachQuestion(t *testing.T) {
	for _, c := range []struct {
		name string
		q    Question
		want Answer
	}{
		{"bits", Question{Keys: 1e9, FPR: 1e-6}, Answer{Keys: 1e9, Bits: 28_755_278_678, Hashes: 20}},
		{"bits for k", Question{Keys: 1e9, FPR: 0.01, Hashes: 3}, Answer{Keys: 1e9, Bits: Bits(1e9, 0.01, 3), Hashes: 3}},
		{"bits for k at most", Question{Keys: 1e9, FPR: 1e-6, MaxHashes: 8}, Answer{Keys: 1e9, Bits: Bits(1e9, 1e-6, 8), Hashes: 8}},
		{"keys", Question{Bits: 28_755_278_678, FPR: 1e-6}, Answer{Keys: 1e9, Bits: 28_755_278_678, Hashes: 20}},
		{"rate", Question{Keys: 1e9, Bits: 10e9}, Answer{Keys: 1e9, Bits: 10e9, Hashes: 7}},
		{"all agree", Question{Keys: 1e9, Bits: 10e9, FPR: 0.01}, Answer{Keys: 1e9, Bits: 10e9, Hashes: 7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Solve(c.q)
			if err != nil {
				t.Fatal(err)
			}
			if got.Keys != c.want.Keys || got.Bits != c.want.Bits || got.Hashes != c.want.Hashes {
				t.Errorf("Solve(%+v) = %+v, want n, m, k of %+v", c.q, got, c.want)
			}
		})
	}
}

// TestSolveLost: the answer meets a limit of lost keys, and the next smaller filter does
// not meet it.
func TestSolveLost(t *testing.T) {
	byNumber, err := Solve(Question{Keys: 1e8, LostKeys: 100})
	if err != nil {
		t.Fatal(err)
	}
	byShare, err := Solve(Question{Keys: 1e8, LostShare: 1e-6})
	if err != nil {
		t.Fatal(err)
	}
	if byNumber != byShare {
		t.Errorf("Solve for 100 lost keys of 10⁸ = %+v, and for a lost share of 1e-6 = %+v; want the same", byNumber, byShare)
	}
	for _, q := range []Question{{Keys: 1e8, LostKeys: 100, LostShare: 1e-3}, {Keys: 1e8, LostKeys: 1e5, LostShare: 1e-6}} {
		if both, err := Solve(q); err != nil || both != byNumber {
			t.Errorf("Solve(%+v) = %+v, %v; want the answer for the lower limit alone: %+v", q, both, err, byNumber)
		}
	}
	if byNumber.LostKeys > 100 || byNumber.FPR < 10e-6 {
		t.Errorf("Solve = %+v, want at most 100 lost keys and a rate of 10e-6 or more", byNumber)
	}
	for k := uint(1); k <= MaxHashes; k++ {
		if lost := 1e8 * LostWhileFilling(1e8, byNumber.Bits-1, k); lost <= 100 {
			t.Errorf("one bit less, %d bits with k = %d, loses only %g keys, want more than 100", byNumber.Bits-1, k, lost)
		}
	}
}

// TestSolveLostInGivenBits: the k with the lowest rate of a full filter is not the k that
// loses the fewest keys while the filter is filled. If the smallest possible share of lost keys
// is the limit, Solve must find the k that meets this limit.
func TestSolveLostInGivenBits(t *testing.T) {
	const n, m = 1e8, 1e9
	lowest, err := Solve(Question{Keys: n, Bits: m})
	if err != nil {
		t.Fatal(err)
	}
	least := lowest.LostShare
	for k := uint(1); k <= MaxHashes; k++ {
		least = min(least, LostWhileFilling(n, m, k))
	}
	got, err := Solve(Question{Keys: n, Bits: m, LostShare: least})
	if err != nil || got.LostShare > least || least == lowest.LostShare {
		t.Errorf("Solve for a lost share of %g = %+v, %v; want this share, and another k than %+v", least, got, err, lowest)
	}
}

func TestSolveImpossible(t *testing.T) {
	_, err := Solve(Question{Keys: 1e9, Bits: 1 << 33, FPR: 1e-6})
	impossible, ok := errors.AsType[*ImpossibleError](err)
	if !ok {
		t.Fatalf("error is %v, want an *ImpossibleError", err)
	}
	if len(impossible.Possible) != 3 {
		t.Errorf("Possible = %+v, want 3: with another rate, other bits and other keys", impossible.Possible)
	}
	for _, a := range impossible.Possible {
		if got := FalsePositiveRate(a.Keys, a.Bits, a.Hashes); got != a.FPR {
			t.Errorf("%+v has another FPR than FalsePositiveRate returns: %g", a, got)
		}
	}
	if !strings.Contains(err.Error(), "28755278678 bits") {
		t.Errorf("%q does not say that 28755278678 bits are necessary", err)
	}

	_, err = Solve(Question{Bits: 8, FPR: 1e-6})
	if impossible, ok := errors.AsType[*ImpossibleError](err); !ok || impossible.Possible[0].Bits != 29 {
		t.Errorf("Solve for 8 bits at a rate of 1e-6: %v, want an error with 29 bits for one key", err)
	}
}

func TestSolveFaults(t *testing.T) {
	for _, c := range []struct {
		q    Question
		want []string
	}{
		{Question{}, []string{"too few values"}},
		{Question{Keys: 10}, []string{"too few values"}},
		{Question{FPR: 0.1}, []string{"too few values"}},
		{Question{Keys: 10, FPR: 1}, []string{"false-positive rate is 1"}},
		{Question{Keys: 10, FPR: math.NaN()}, []string{"NaN"}},
		{Question{Keys: 10, LostKeys: 10}, []string{"no filter is needed"}},
		{Question{Keys: 10, FPR: -1, LostShare: 2, Hashes: 65}, []string{"rate is -1", "lost keys is 2", "65 hash"}},
		{Question{Keys: 10, FPR: 0.1, Hashes: 9, MaxHashes: 8}, []string{"more than the 8 allowed"}},
		{Question{Keys: 1 << 60, FPR: 0.1}, []string{"want at most 9007199254740992"}},
		{Question{Keys: 1 << 53, FPR: 1e-300}, []string{"use fewer keys or allow more errors"}},
		{Question{Keys: 1, Bits: 1 << 61}, []string{"want at most 1152921504606846976"}},
	} {
		_, err := Solve(c.q)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Solve(%+v): %v, want %q", c.q, err, want)
			}
		}
	}
}

// TestAnswersMeetTheirQuestions: the answer to any question meets the limits of the question.
// If Solve is then given the bits of the answer, it finds room for at least as many keys.
func TestAnswersMeetTheirQuestions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := Question{
			Keys:      rapid.Uint64Range(1, 1e12).Draw(t, "keys"),
			FPR:       math.Exp(-rapid.Float64Range(0.01, 50).Draw(t, "-log p")),
			MaxHashes: rapid.UintRange(8, MaxHashes).Draw(t, "max hashes"),
		}
		if rapid.Bool().Draw(t, "lost") {
			q.LostShare = math.Exp(-rapid.Float64Range(0.01, 50).Draw(t, "-log lost"))
		}
		a, err := Solve(q)
		if err != nil {
			t.Fatal(err)
		}
		const rounding = 1 + 1e-9
		if a.FPR > q.FPR*rounding || q.LostShare > 0 && a.LostShare > q.LostShare*rounding {
			t.Errorf("Solve(%+v) = %+v, want at most the rate and the lost share of the question", q, a)
		}
		if a.Hashes > q.MaxHashes {
			t.Errorf("Solve(%+v) = %+v, want at most MaxHashes hashes", q, a)
		}
		back := q
		back.Keys, back.Bits = 0, a.Bits
		b, err := Solve(back)
		if err != nil {
			if a.Keys == 1 {
				return // rounding can raise the rate of a filter for one key above the limit
			}
			t.Fatal(err)
		}
		if float64(b.Keys)*rounding+1 < float64(a.Keys) {
			t.Errorf("%d bits are the answer for %d keys, but Solve for these bits returns only %d keys", a.Bits, a.Keys, b.Keys)
		}
	})
}

// TestLostWhileFillingAgainstTheSum: the formulas agree with the sums and integrals that
// they approximate.
func TestLostWhileFillingAgainstTheSum(t *testing.T) {
	for _, c := range []struct {
		n, m uint64
		k    uint
	}{
		{1000, 9593, 7}, {10_000, 95_930, 7}, {10_000, 287_553, 20}, {10_000, 40_000, 20}, // the last one is overfilled
		{10_000, 20_000, 1}, {10_000, 100_000_000, 3}, {10_000, 10_000, 64}, {513, 14_752, 20},
	} {
		sum := 0.0
		for i := range c.n {
			sum += FalsePositiveRate(i, c.m, c.k)
		}
		want, got := sum/float64(c.n), LostWhileFilling(c.n, c.m, c.k)
		if math.Abs(got/want-1) > 1e-7 {
			t.Errorf("LostWhileFilling(%d, %d, %d) = %.12g, the sum is %.12g", c.n, c.m, c.k, got, want)
		}
	}
	if lost := LostWhileFilling(0, 100, 3); lost != 0 {
		t.Errorf("LostWhileFilling(0, 100, 3) = %g, want 0", lost)
	}
}

func TestBadArgumentsPanic(t *testing.T) {
	for name, call := range map[string]func(){
		"no keys":          func() { OptimalBits(0, 0.1) },
		"p = 0":            func() { OptimalBits(1, 0) },
		"p = NaN":          func() { OptimalBits(1, math.NaN()) },
		"too large":        func() { OptimalBits(math.MaxUint64, 1e-6) },
		"no bits":          func() { FalsePositiveRate(1, 0, 1) },
		"no hashes":        func() { FalsePositiveRate(1, 1, 0) },
		"block of one bit": func() { ExactBlockedBits(0.1, 1) },
		"no shards":        func() { ShardedBits(1, 0.1, 0) },
		"no growth":        func() { LayerAt(1, 1, 0.1, false) },
		"set > m":          func() { Cardinality(2, 1, 1) },
		"more than trials": func() { Interval(2, 1) },
		"no URLs":          func() { TimeToCrawl(CrawlPlan{}) },
		"no URL bytes":     func() { ExactStores(1, 0) },
		"odd block":        func() { RedisSegments(1, 0.1, 33) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			call()
		})
	}
}
