package cli

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/crawl"
)

// TestWithinGrace: a run that hangs after its stop is abandoned when --grace is
// over. A run that ends returns its own error, and a run that was not stopped
// has no limit.
func TestWithinGrace(t *testing.T) {
	t.Parallel()
	errOwn := errors.New("its own")
	for _, c := range []struct {
		name        string
		grace, busy time.Duration // busy is how long the run takes after its stop
		stopped     bool
		took        time.Duration
	}{
		{"ends", 30 * time.Second, 20 * time.Second, true, 20 * time.Second},
		{"hangs", 30 * time.Second, time.Hour, true, 30 * time.Second},
		{"hangs without grace", 0, time.Hour, true, leastGrace},
		{"goes on", time.Second, time.Hour, false, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &plan{options: &options{settings: crawl.Settings{Grace: c.grace}}, at: inDirectory("x.crawl")}
				begun := time.Now()
				err := p.within(func() error {
					if c.stopped {
						p.ending.begin(c.grace)
						time.Sleep(c.busy / 2)
						p.ending.begin(c.grace) // a second signal does not extend the grace
						time.Sleep(c.busy - c.busy/2)
					} else {
						time.Sleep(c.busy)
					}
					return errOwn
				})
				if took := time.Since(begun); took != c.took {
					t.Errorf("within took %v, want %v", took, c.took)
				}
				if left := c.busy > c.took; left == errors.Is(err, errOwn) || left && !strings.Contains(err.Error(), "x.crawl did not close within --grace") {
					t.Errorf("error %v, want that of --grace if the run was abandoned (%t), else %v", err, left, errOwn)
				}
				time.Sleep(time.Hour) // wait until the abandoned run has ended
			})
		})
	}
}
