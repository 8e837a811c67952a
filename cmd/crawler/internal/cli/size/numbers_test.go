package size

import (
	"math"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestCount(t *testing.T) {
	for in, want := range map[string]uint64{
		"1": 1, "250000": 250_000, "1e9": 1_000_000_000, "100M": 100_000_000, "2.5k": 2500, "1G": 1e9, "1B": 1e9,
		"3T": 3e12, "10_000": 10_000, "1,000,000": 1_000_000, " 5 ": 5, "0.5k": 500, "1 M": 1e6,
	} {
		var c count
		if err := c.Set(in); err != nil || uint64(c) != want {
			t.Errorf("%q is %d, %v, want %d", in, c, err, want)
		}
	}
	refuse(t, func() pflag.Value { return new(count) }, "", "0", "-1", "1.5", "1e16", "NaN", "Inf", "0x10", "1MM", "M", "ten", "1e", "1 in 3")
}

func TestRate(t *testing.T) {
	for in, want := range map[string]float64{
		"1e-6": 1e-6, "0.1%": 0.001, "1 in 1000000": 1e-6, "1 in 1M": 1e-6, "1/1000": 0.001, "3 in 1e6": 3e-6,
		"0.000001": 1e-6, "5 %": 0.05, "1 in 1,000": 0.001,
	} {
		var r rate
		if err := r.Set(in); err != nil || math.Abs(float64(r)/want-1) > 1e-12 {
			t.Errorf("%q is %g, %v, want %g", in, r, err, want)
		}
	}
	refuse(t, func() pflag.Value { return new(rate) }, "", "0", "1", "-0.1", "100%", "1 in 0", "1 in 1", "0/0", "2 in 1", "1e-19",
		"NaN", "Inf", "%", "1 in", "in 5", "1 in 2 in 3")
}

func TestBytes(t *testing.T) {
	for in, want := range map[string]uint64{
		"512MiB": 512 << 20, "2GB": 2e9, "1.5GiB": 3 << 29, "1024": 1024, "1e9": 1e9, "1 TiB": 1 << 40, "64k": 64000,
	} {
		var b bytes
		if err := b.Set(in); err != nil || uint64(b) != want {
			t.Errorf("%q is %d, %v, want %d", in, b, err, want)
		}
	}
	refuse(t, func() pflag.Value { return new(bytes) }, "", "0", "-1MiB", "1 in 3", "1e30", "1000PiB", "MiB", "NaN")
}

func TestLoss(t *testing.T) {
	for in, want := range map[string]loss{
		"1000": {number: 1000}, "1": {number: 1}, "1k": {number: 1000}, "2.5": {number: 2.5},
		"0.01%": {share: 0.0001}, "1 in 1M": {share: 1e-6}, "1e-6": {share: 1e-6}, "0.5": {share: 0.5},
	} {
		var l loss
		if err := l.Set(in); err != nil || math.Abs(l.number-want.number) > 1e-9 || math.Abs(l.share-want.share) > 1e-15 {
			t.Errorf("%q is %+v, %v, want %+v", in, l, err, want)
		}
	}
	refuse(t, func() pflag.Value { return new(loss) }, "", "-1", "100%", "200%", "3 in 2", "1e16", "NaN", "many")
	if err := new(loss).Set("0"); err == nil || !strings.Contains(err.Error(), "exact store") {
		t.Errorf("to lose none: %v, want to be told of exact stores", err)
	}
}

func refuse(t *testing.T, fresh func() pflag.Value, inputs ...string) {
	t.Helper()
	for _, in := range inputs {
		v := fresh()
		if err := v.Set(in); err == nil {
			t.Errorf("%q is taken for %s %s", in, v.Type(), v)
		}
	}
}

// Whatever a flag takes is in its range, and its own text leads to it again.
func FuzzNumbers(f *testing.F) {
	for _, s := range []string{"1e9", "100M", "1 in 1000000", "0.1%", "512MiB", "1,0", "1/3", "0x1p3", "١"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var c count
		if c.Set(s) == nil {
			var again count
			if err := again.Set(c.String()); err != nil || again != c || c < 1 || c > maxCount {
				t.Errorf("%q is %d, its text %q is %d (%v)", s, c, c.String(), again, err)
			}
		}
		var r rate
		if r.Set(s) == nil {
			var again rate
			if err := again.Set(r.String()); err != nil || again != r || !(r >= leastRate && r <= 0.99) {
				t.Errorf("%q is %g, its text %q is %g (%v)", s, float64(r), r.String(), float64(again), err)
			}
		}
		var b bytes
		if b.Set(s) == nil && (b < 1 || b > 1<<57) {
			t.Errorf("%q is %d bytes", s, b)
		}
		var l loss
		if l.Set(s) == nil {
			var again loss
			if err := again.Set(l.String()); err != nil || again != l || !l.set() {
				t.Errorf("%q is %+v, its text %q is %+v (%v)", s, l, l.String(), again, err)
			}
		}
	})
}

// What is rounded for a suggestion still suffices.
func TestRoundingUp(t *testing.T) {
	for n := uint64(1); n < 1<<50; n = n*1007/1000 + 1 {
		var b bytes
		if err := b.Set(ibytesUp(n)); err != nil || uint64(b) < n || float64(b) > 1.02*float64(n)+1 {
			t.Errorf("%d bytes are rounded up to %s (%v)", n, ibytesUp(n), err)
		}
	}
	for p := 0.99; p > 1e-18; p *= 0.97 {
		if up := rateUp(p); up < p*(1-1e-15) || up > p*1.0101 {
			t.Errorf("%g is rounded up to %g", p, up)
		}
	}
}

func TestOneIn(t *testing.T) {
	for p, want := range map[float64]string{
		1e-6: "1 in 1M", 0.25: "25%", 0.01: "1%", 1.2345e-4: "1 in 8.1k", 1e-18: "1 in 1e+18", 0: "none",
	} {
		if got := oneIn(p); got != want {
			t.Errorf("oneIn(%g) = %q, want %q", p, got, want)
		}
	}
}

func TestDays(t *testing.T) {
	for seconds, want := range map[float64]string{
		1: "1s", 3600: "1h0m0s", 3 * 86400: "3 days", 800 * 86400: "2.19 years", 1e11: "more than 292 years",
	} {
		if got := days(seconds); got != want {
			t.Errorf("days(%g) = %q, want %q", seconds, got, want)
		}
	}
}
