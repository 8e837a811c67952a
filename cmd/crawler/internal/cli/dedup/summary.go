package dedup

import (
	"fmt"
	"io"
	"time"

	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/sizing"
)

// summary is the summary of a run, which is printed to stderr.
type summary struct {
	counts
	settings
	before, keys uint64 // known URLs at the beginning and at the end
	bytes        uint64 // size of the set
	took         time.Duration
}

func (s summary) print(w io.Writer) {
	if more := s.malformed; more > shownBad {
		fmt.Fprintf(w, "… and %s more malformed lines\n", human.Commas(more-shownBad))
	}
	rate := float64(s.lines) / s.took.Seconds()
	fmt.Fprintf(w, "%s in %v (%s/s): %s new, %s seen, %s malformed",
		human.Plural(s.lines, "line"), s.took.Round(time.Millisecond), human.Commas(uint64(rate)),
		human.Commas(s.fresh), human.Commas(s.known), human.Commas(s.malformed))
	if s.void > 0 {
		fmt.Fprintf(w, ", %s empty", human.Commas(s.void))
	}
	fmt.Fprintf(w, "\n%s known, in %s", human.Plural(s.keys, "URL"), human.IBytes(s.bytes))
	if s.Exact {
		fmt.Fprintln(w, ", exactly")
		return
	}
	chain := sizing.Chain{Keys: s.URLs, FPR: s.FPR, Growth: true}
	begin, end := chain.At(s.before), chain.At(s.keys)
	rateNow := "below 1e-15"
	if end.FPR >= 1e-15 {
		rateNow = fmt.Sprintf("%.2g", end.FPR)
	}
	fmt.Fprintf(w, " made for %s; p is %s now, about %s new URLs of this run were taken for known ones\n",
		human.Commas(s.URLs), rateNow, human.Few(end.LostKeys-begin.LostKeys))
}
