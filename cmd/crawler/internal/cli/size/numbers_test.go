package size

import (
	"math"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/internal/human"
)

func TestParseLoss(t *testing.T) {
	for in, want := range map[string]loss{
		"1000": {number: 1000}, "1": {number: 1}, "1k": {number: 1000}, "2.5": {number: 2.5},
		"0.01%": {share: 0.0001}, "1 in 1M": {share: 1e-6}, "1e-6": {share: 1e-6}, "0.5": {share: 0.5},
	} {
		var l loss
		if err := l.Set(in); err != nil || math.Abs(l.number-want.number) > 1e-9 || math.Abs(l.share-want.share) > 1e-15 {
			t.Errorf("Set(%q): got %+v, error %v; want %+v", in, l, err, want)
		}
	}
	refuse(t, func() pflag.Value { return new(loss) }, "", "-1", "100%", "200%", "3 in 2", "1e16", "NaN", "many")
	if err := new(loss).Set("0"); err == nil || !strings.Contains(err.Error(), "exact store") {
		t.Errorf("Set(\"0\") = %v, want an error that names the exact store", err)
	}
}

func refuse(t *testing.T, fresh func() pflag.Value, inputs ...string) {
	t.Helper()
	for _, in := range inputs {
		v := fresh()
		if err := v.Set(in); err == nil {
			t.Errorf("Set(%q) of a %s gives %s, want an error", in, v.Type(), v)
		}
	}
}

// FuzzLoss: a value that the flag accepts is greater than 0, and its text parses to the
// same value.
func FuzzLoss(f *testing.F) {
	for _, s := range []string{"1000", "1e9", "1 in 1000000", "0.1%", "0", "1,0", "1/3", "0x1p3", "١"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var l loss
		if l.Set(s) == nil {
			var again loss
			if err := again.Set(l.String()); err != nil || again != l || !l.set() {
				t.Errorf("Set(%q): got %+v, whose text %q parses to %+v (%v)", s, l, l.String(), again, err)
			}
		}
	})
}

// TestRoundingUp: a value that is rounded for a suggestion still suffices.
func TestRoundingUp(t *testing.T) {
	for n := uint64(1); n < 1<<50; n = n*1007/1000 + 1 {
		var b human.Bytes
		if err := b.Set(ibytesUp(n)); err != nil || uint64(b) < n || float64(b) > 1.02*float64(n)+1 {
			t.Errorf("ibytesUp(%d) = %s (%v), want as much, or up to 2 %% more", n, ibytesUp(n), err)
		}
	}
	for p := 0.99; p > 1e-18; p *= 0.97 {
		if up := rateUp(p); up < p*(1-1e-15) || up > p*1.0101 {
			t.Errorf("rateUp(%g) = %g, want as much, or up to 1 %% more", p, up)
		}
	}
}

func TestFormatDays(t *testing.T) {
	for seconds, want := range map[float64]string{
		1: "1s", 3600: "1h0m0s", 3 * 86400: "3 days", 800 * 86400: "2.19 years", 1e11: "3.17e+03 years",
	} {
		if got := days(seconds); got != want {
			t.Errorf("days(%g) = %q, want %q", seconds, got, want)
		}
	}
}
