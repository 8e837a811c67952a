package human

import (
	"math"
	"testing"
	"time"
)

func TestFormatNumbers(t *testing.T) {
	for _, pair := range [][2]string{
		{PerSecond(0), "0"},
		{PerSecond(0.012), "0.01"},
		{PerSecond(0.5), "0.5"},
		{PerSecond(1), "1"},
		{PerSecond(12.34), "12.3"},
		{PerSecond(99.96), "100"},
		{PerSecond(1234.5), "1,235"},
		{PerSecond(math.Inf(1)), "?"},
		{Percent(0.9999), "99.9%"},
		{Percent(1), "100.0%"},
		{Span(-1), "0s"},
		{Span(59.6e9), "1m00s"},
		{Span(723e9), "12m03s"},
		{Span(47*time.Hour + 59*time.Minute), "47h59m"},
		{Span(76 * time.Hour), "3d04h"},
		{Commas(math.MaxUint64), "9,223,372,036,854,775,807"},
		{Plural(1, "host"), "1 host"},
		{Plural(uint64(0), "host"), "0 hosts"},
		{Printable("a\x1b[31m\u00a0b"), "a?[31m?b"},
	} {
		if got, want := pair[0], pair[1]; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
