package cli

import (
	"fmt"
	"sync"
	"time"
)

// leastGrace replaces a shorter --grace, so that a run can return its leases and close
// its files.
const leastGrace = 2 * time.Second

// ending is the deadline of a run that was stopped by a signal, --max-time or crawler
// stop. The run must end within --grace. The zero value means that the run goes on.
type ending struct {
	begun sync.Once
	over  chan struct{} // closed when --grace is over; nil if no goroutine waits for the end of --grace
}

// begin starts the time of --grace. Further calls do nothing.
func (e *ending) begin(grace time.Duration) {
	e.begun.Do(func() {
		if e.over != nil {
			time.AfterFunc(max(grace, leastGrace), func() { close(e.over) })
		}
	})
}

// within calls run and returns its error. If the crawl was stopped, and --grace is over
// before run returns, within returns an error at once. The process then ends while run is
// still at work. As after a kill, nothing is lost.
func (p *plan) within(run func() error) error {
	p.ending.over = make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- run() }()
	select {
	case err := <-ended:
		return err
	case <-p.ending.over:
		return &exitError{exitFailed, fmt.Errorf("%s did not close within --grace %v: its disk or a server does not answer\n"+
			"the process ends as if it was killed; nothing is lost, the same command resumes", p.at, p.settings.Grace)}
	}
}
