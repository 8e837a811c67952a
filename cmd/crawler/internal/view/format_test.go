package view

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestFormat(t *testing.T) {
	for _, pair := range [][2]string{
		{rate(0), "0"},
		{rate(0.012), "0.01"},
		{rate(0.5), "0.5"},
		{rate(1), "1"},
		{rate(12.34), "12.3"},
		{rate(99.96), "100"},
		{rate(1234.5), "1,235"},
		{rate(math.Inf(1)), "?"},
		{percent(0.9999), "99.9%"},
		{percent(1), "100.0%"},
		{span(-1), "0s"},
		{span(59.6e9), "1m00s"},
		{span(723e9), "12m03s"},
		{span(47*time.Hour + 59*time.Minute), "47h59m"},
		{span(76 * time.Hour), "3d04h"},
		{comma(math.MaxUint64), "9,223,372,036,854,775,807"},
		{plural(1, "host"), "1 host"},
		{plural(uint64(0), "host"), "0 hosts"},
		{printable("a\x1b[31m\u00a0b"), "a?[31m?b"},
		{probability(7.1234e-7), "7.12e-07"},
		{few(0), "0"},
		{few(2345.5), "2,346"},
		{milliseconds(math.MaxUint64), "106751d23h"},
	} {
		if got, want := pair[0], pair[1]; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// What a cell shows may come from a server: it is escaped before it is measured.
func TestCellsAreEscaped(t *testing.T) {
	const hostile = "host \x1b]0;pwned\a\u009b5m\u202e.test\nx"
	for _, lines := range [][]line{flow([]cell{{hostile, plain}}, 70), wrap(cell{hostile, bad}, 70), wrap(cell{hostile, bad}, 20), {{{hostile, plain}}}} {
		var got strings.Builder
		for _, l := range lines {
			if len(lines) > 1 && l.width() > 20 {
				t.Errorf("%q is wider than 20 columns", l)
			}
			l.write(&got, false)
		}
		if text := got.String(); text != printable(text) || !strings.Contains(text, `\u001b]0;`) {
			t.Errorf("%q is drawn as %q", hostile, text)
		}
	}
}
