package cli

import (
	"fmt"
	"io"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/internal/human"
)

// printLoss prints which records are missing. It assumes that the end of a file was
// cut off, because lines missing from the middle cannot be located.
func printLoss(w io.Writer, at location, cut *crawl.Loss) {
	switch {
	case cut.None && cut.Name == "":
		fmt.Fprintf(w, "the records of %s are in no file: no loss to accept\n", at)
		return
	case cut.None:
		fmt.Fprintf(w, "%s is as long as was committed: no loss to accept\n", crawl.RecordsFile(at.Dir))
		return
	}
	fmt.Fprintf(w, "%s has %s of the %s bytes that were committed: %s bytes are missing\n",
		cut.Name, human.Commas(uint64(cut.Size)), human.Commas(uint64(cut.Committed)), human.Commas(uint64(cut.Committed-cut.Size)))
	if half := cut.Size - cut.Whole; half > 0 {
		fmt.Fprintf(w, "its last %s bytes are part of a line, which goes too\n", human.Commas(uint64(half)))
	}
	fmt.Fprintf(w, "lost: %s of %s", human.Plural(cut.Records, "record"), human.Commas(cut.Left+cut.Records))
	if cut.Records > 0 && cut.Away == 0 {
		fmt.Fprintf(w, ", numbers %s to %s (bytes %s to %s of the file) if its end was cut off",
			human.Commas(cut.Left+1), human.Commas(cut.Left+cut.Records), human.Commas(uint64(cut.Whole)), human.Commas(uint64(cut.Committed)))
	}
	fmt.Fprintln(w)
	if cut.Away > 0 {
		fmt.Fprintf(w, "they include those of %s that is not in the directory\n", human.Plural(uint64(cut.Away), "closed file"))
	}
	fmt.Fprintln(w, "their URLs stay done or failed and are not fetched again, but for those that 'crawler retry' offers again")
}
