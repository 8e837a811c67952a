package report

import (
	"math"
	"testing"
)

func TestNumbersInWords(t *testing.T) {
	for _, pair := range [][2]string{
		{probability(7.1234e-7), "7.12e-07"},
		{threeDigits(0), "0"},
		{threeDigits(2345.5), "2,346"},
		{milliseconds(math.MaxUint64), "106751d23h"},
	} {
		if got, want := pair[0], pair[1]; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
