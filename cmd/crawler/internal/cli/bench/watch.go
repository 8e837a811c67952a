package bench

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/bloomfrontier/crawler/bench/agenda"
	"github.com/bloomfrontier/crawler/bench/report"
	"github.com/bloomfrontier/crawler/cmd/crawler/internal/sanitize"
)

// watch shows the progress of a run: a line for each step, and on a terminal a bar
// below them. It writes the report after each step, so that an interrupted run
// leaves one. It is an agenda.Watcher.
type watch struct {
	out   io.Writer
	bar   *progressbar.ProgressBar // nil means no terminal
	began time.Time                // of the step

	report *report.Report
	dir    string // of the report; empty means nowhere
}

// barSteps is the number of steps of the bar.
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
		_ = w.bar.Set(int(share * barSteps)) // a terminal that is gone is no error
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
		w.dir = "" // report the error once: the last write returns it too
	}
}

func (w *watch) close() {
	if w.bar != nil {
		_ = w.bar.Clear()
	}
}
