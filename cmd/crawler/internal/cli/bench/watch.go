package bench

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/sanitize"
	"github.com/bloomfrontier/crawler/internal/bench/agenda"
	"github.com/bloomfrontier/crawler/internal/bench/report"
)

// watch shows the progress of a run: a line for each step, and on a terminal a bar below
// the lines. It writes the report after each step, so that an interrupted run leaves a
// report. It is an agenda.Watcher.
type watch struct {
	out   io.Writer
	bar   *progressbar.ProgressBar // nil means that out is not a terminal
	began time.Time                // when the current step began

	report *report.Report
	dir    string // directory for the report; empty means none
}

// barSteps is the resolution of the bar.
const barSteps = 1000

func newWatch(out io.Writer, r *report.Report, dir string) *watch {
	w := &watch{out: out, report: r, dir: dir}
	if raw := sanitize.Unwrap(out); os.Getenv("TERM") != "dumb" && sanitize.IsTerminal(raw) {
		w.bar = progressbar.NewOptions(barSteps, progressbar.OptionSetWriter(raw), progressbar.OptionSetWidth(20),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetElapsedTime(true), progressbar.OptionSetPredictTime(true))
	}
	return w
}

// Begin implements agenda.Watcher.
func (w *watch) Begin(s *agenda.Step) {
	w.began = time.Now()
	if w.bar != nil {
		w.bar.Describe(s.Section.Name + ": " + s.Name)
	}
}

// Progress implements agenda.Watcher.
func (w *watch) Progress(share float64) {
	if w.bar != nil {
		_ = w.bar.Set(int(share * barSteps)) // a failure of the terminal does not matter
	}
}

// End implements agenda.Watcher.
func (w *watch) End(s *agenda.Step, found string) {
	if w.bar != nil {
		_ = w.bar.Clear()
	}
	fmt.Fprintf(w.out, "%s: %s: %s (%v)\n", s.Section.Name, s.Name, found, time.Since(w.began).Round(100*time.Millisecond))
	if w.dir == "" {
		return
	}
	w.report.Took = time.Since(w.report.Began).Seconds()
	if err := w.report.Write(w.dir); err != nil {
		fmt.Fprintf(w.out, "the report so far: %v\n", err)
		w.dir = "" // print the error once; the write at the end returns it too
	}
}

func (w *watch) close() {
	if w.bar != nil {
		_ = w.bar.Clear()
	}
}
