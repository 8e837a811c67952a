package view

import (
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/internal/human"
)

// TestCellsAreEscaped: the text of a cell can come from a server, so it is escaped before
// it is measured.
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
		if text := got.String(); text != human.Printable(text) || !strings.Contains(text, `\u001b]0;`) {
			t.Errorf("%q is drawn as %q, want it escaped", hostile, text)
		}
	}
}
