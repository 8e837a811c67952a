package frontiertest

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// Crawl is a whole frontier: what the suite holds to the contract.
type Crawl interface {
	frontier.Store
	frontier.Scope
	frontier.Quota
	frontier.Inspector
	frontier.Control
}

// Reopener is a Crawl that outlives its process. Both methods end the use of
// the receiver; the options and the clock stay.
type Reopener interface {
	// Reopen closes the crawl in order and opens it again.
	Reopen() (Crawl, error)
	// Crash opens the crawl again as if its process had been killed: without a
	// last word.
	Crash() (Crawl, error)
}

// LinksFirst is a Crawl whose Complete adds the links before the rest, so that
// they stay when the rest fails.
type LinksFirst interface{ LinksFirst() }

// ForgetsDone is a Crawl that keeps nothing of a finished bulk item but that its
// filter knows it: Lookup says Done without an outcome, Audit.Done is the
// counter, and a known bulk item that is offered as an exact one is added once
// more, in another round, for it may have been a false positive.
type ForgetsDone interface{ ForgetsDone() }

// KeepsLeases is a Crawl whose leases belong to the process that asked for them:
// when it is opened again they have no holder, and expire.
type KeepsLeases interface{ KeepsLeases() }

// Options say what kind of crawl a case needs. The suite always sets LeaseTTL,
// Now and Output.
type Options struct {
	Delay          time.Duration    // of a host that no HostUpdate spoke of yet; 0 means none
	LeaseTTL       time.Duration    // how long a lease lasts
	MaxPerHost     uint64           // items added to one host over the whole crawl; 0 means no limit
	FilterCapacity uint64           // size the filter for so many keys, without growth; 0 means so that no case sees a false positive
	Now            func() time.Time // the store's clock; safe for concurrent use
	Output         frontier.Output  // where Completion.Record writes to
	ExactSet       bool             // of a exact.Outbox: an exact set decides about exact items
}

// A testCase holds a crawl to one part of the contract. It makes the crawls it
// needs.
type testCase = suite.Case[opener]

// opener returns a fresh, empty crawl in the hands of a driver.
type opener func(Options) *driver

// Run holds the crawls that open returns, fresh and empty each time, to the
// contract, case by case. They are closed by t.Cleanup.
func Run(t *testing.T, open func(t *testing.T, opt Options) Crawl) {
	runAll(t, allCases(), open)
}

func runAll(t *testing.T, cases []testCase, open func(t *testing.T, opt Options) Crawl) {
	suite.Run(t, cases, func(t *testing.T) opener {
		return drive(t.Context(), func(opt Options) Crawl { return open(t, opt) })
	})
}

func allCases() []testCase {
	return slices.Concat(addCases, leaseCases, expiryCases, completeCases, recordCases, controlCases, quotaCases, raceCases, outboxCases)
}

// drive gives each crawl that open returns to a driver.
func drive(ctx context.Context, open func(Options) Crawl) opener {
	return func(opt Options) *driver {
		d := &driver{Driver: suite.NewDriver(ctx)}
		opt.Now = d.Clock.Now
		opt.LeaseTTL = cmp.Or(opt.LeaseTTL, 30*time.Second)
		if opt.Output == nil {
			opt.Output = new(output)
		}
		d.Crawl, d.opt = open(opt), opt
		return d
	}
}
