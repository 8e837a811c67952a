package human

import (
	"math"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestParseCount(t *testing.T) {
	for in, want := range map[string]uint64{
		"1": 1, "250000": 250_000, "1e9": 1_000_000_000, "100M": 100_000_000, "2.5k": 2500, "1G": 1e9, "1B": 1e9,
		"3T": 3e12, "10_000": 10_000, "1,000,000": 1_000_000, " 5 ": 5, "0.5k": 500, "1 M": 1e6,
	} {
		var c Count
		if err := c.Set(in); err != nil || uint64(c) != want {
			t.Errorf("Set(%q): %d, %v, want %d", in, c, err, want)
		}
	}
	refuse(t, func() pflag.Value { return new(Count) }, "", "0", "-1", "1.5", "1e16", "NaN", "Inf", "0x10", "1MM", "M", "ten", "1e", "1 in 3")
}

func TestParseRate(t *testing.T) {
	for in, want := range map[string]float64{
		"1e-6": 1e-6, "0.1%": 0.001, "1 in 1000000": 1e-6, "1 in 1M": 1e-6, "1/1000": 0.001, "3 in 1e6": 3e-6,
		"0.000001": 1e-6, "5 %": 0.05, "1 in 1,000": 0.001,
	} {
		var r Rate
		if err := r.Set(in); err != nil || math.Abs(float64(r)/want-1) > 1e-12 {
			t.Errorf("Set(%q): %g, %v, want %g", in, r, err, want)
		}
	}
	refuse(t, func() pflag.Value { return new(Rate) }, "", "0", "1", "-0.1", "100%", "1 in 0", "1 in 1", "0/0", "2 in 1", "1e-19",
		"NaN", "Inf", "%", "1 in", "in 5", "1 in 2 in 3")
}

func TestParseBytes(t *testing.T) {
	for in, want := range map[string]uint64{
		"512MiB": 512 << 20, "2GB": 2e9, "1.5GiB": 3 << 29, "1024": 1024, "1e9": 1e9, "1 TiB": 1 << 40, "64k": 64000,
	} {
		var b Bytes
		if err := b.Set(in); err != nil || uint64(b) != want {
			t.Errorf("Set(%q): %d, %v, want %d", in, b, err, want)
		}
	}
	refuse(t, func() pflag.Value { return new(Bytes) }, "", "0", "-1MiB", "1 in 3", "1e30", "1000PiB", "MiB", "NaN")
}

func TestParsePeriod(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"24h": 24 * time.Hour, "30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "90s": 90 * time.Second, "2d1ms": 48*time.Hour + time.Millisecond,
	} {
		var p Period
		if err := p.Set(in); err != nil || time.Duration(p) != want {
			t.Errorf("Set(%q): %v, %v, want %v", in, time.Duration(p), err, want)
		}
	}
	for in, want := range map[string]string{"24h": "24h", "720h": "30d", "90s": "1m30s", "60m": "1h", "49h": "2d1h"} {
		var p Period
		if err := p.Set(in); err != nil || p.String() != want {
			t.Errorf("Set(%q): %q, %v, want %q", in, p.String(), err, want)
		}
	}
	refuse(t, func() pflag.Value { return new(Period) }, "", "0", "0d", "-1d", "-1h", "5", "1.5d", "d", "1e9d", "106751d24h", "1d-1h")
}

func TestParseSwitch(t *testing.T) {
	for in, want := range map[string]Switch{"on": true, "off": false, "true": true, "false": false} {
		s := !want
		if err := s.Set(in); err != nil || s != want {
			t.Errorf("Set(%q): %v, %v, want %v", in, s, err, want)
		}
	}
	refuse(t, func() pflag.Value { return new(Switch) }, "", "On", "1", "yes")
}

func refuse(t *testing.T, fresh func() pflag.Value, inputs ...string) {
	t.Helper()
	for _, in := range inputs {
		if v := fresh(); v.Set(in) == nil {
			t.Errorf("Set(%q) accepts it as the %s %s, want an error", in, v.Type(), v)
		}
	}
}

// FuzzValues: a value that a flag accepts is in its range, and its text parses to the same
// value.
func FuzzValues(f *testing.F) {
	for _, s := range []string{"1e9", "100M", "1 in 1000000", "0.1%", "512MiB", "1,0", "1/3", "0x1p3", "١", "on"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var c Count
		if c.Set(s) == nil && !(c >= 1 && c <= MaxCount) {
			t.Errorf("Set(%q) accepts the count %d, which is out of range", s, c)
		}
		var r Rate
		if r.Set(s) == nil && !(r >= MinRate && r < 1) {
			t.Errorf("Set(%q) accepts the rate %g, which is out of range", s, float64(r))
		}
		var b Bytes
		if b.Set(s) == nil && !(b >= 1 && b <= maxBytes) {
			t.Errorf("Set(%q) accepts %d bytes, which is out of range", s, b)
		}
		for _, fresh := range []func() pflag.Value{
			func() pflag.Value { return new(Count) },
			func() pflag.Value { return new(Rate) },
			func() pflag.Value { return new(Bytes) },
			func() pflag.Value { return new(Period) },
			func() pflag.Value { return new(Switch) },
		} {
			v, again := fresh(), fresh()
			if v.Set(s) != nil {
				continue
			}
			if err := again.Set(v.String()); err != nil || again.String() != v.String() {
				t.Errorf("Set(%q) gives the %s %s, which is read back as %s (%v)", s, v.Type(), v, again, err)
			}
		}
	})
}

func TestPrintedForms(t *testing.T) {
	for p, want := range map[float64]string{
		1e-6: "1 in 1M", 0.25: "25%", 0.01: "1%", 1.2345e-4: "1 in 8.1k", 1e-18: "1 in 1e+18", 0: "none",
	} {
		if got := OneIn(p); got != want {
			t.Errorf("OneIn(%g) = %q, want %q", p, got, want)
		}
	}
	for n, want := range map[float64]string{0: "0", 0.034: "0.034", 9.94: "9.9", 10.4: "10", 12345.6: "12,346"} {
		if got := Few(n); got != want {
			t.Errorf("Few(%g) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0 URLs", 1: "1 URL", 2000: "2,000 URLs"} {
		if got := Plural(n, "URL"); got != want {
			t.Errorf("Plural(%d) = %q, want %q", n, got, want)
		}
	}
}
