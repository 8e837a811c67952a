package frontiertest

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// Crawl is a whole frontier, as the suite tests it.
type Crawl interface {
	frontier.Store
	frontier.Submitter
	frontier.Scope
	frontier.Quota
	frontier.Inspector
	frontier.Control
}

// Reopener is a Crawl that is stored and can be opened again. The receiver must not be
// used after a call of either method. Options and clock stay the same.
type Reopener interface {
	// Reopen closes the crawl and opens it again.
	Reopen() (Crawl, error)
	// Crash opens the crawl again without closing it, as if its process had been
	// killed.
	Crash() (Crawl, error)
}

// LinksFirst is a Crawl whose Complete first adds the links. They stay in the crawl even
// if Complete fails after that.
type LinksFirst interface{ LinksFirst() }

// ForgetsDone is a Crawl that keeps nothing of a done item except its bits in the
// filter. Lookup returns Done without an outcome, and Audit.Done is not counted, but copied
// from the counter. A known bulk item that is offered as an exact one is added once more,
// in another round, because the filter's claim might be a false positive.
type ForgetsDone interface{ ForgetsDone() }

// LimitsPagesOnly is a Crawl that says whether several workers share it. In this case, leased items do not count towards
// MaxPages, so that workers must call LimitReached before each request. Of any other Crawl, they count.
type LimitsPagesOnly interface{ LimitsPagesOnly() bool }

// KeepsLeases is a Crawl whose leases do not end when it is opened again. The new
// process cannot use them, so they expire.
type KeepsLeases interface{ KeepsLeases() }

// AnswersExpire is a Crawl whose server removes the answers of frontier.Submitter, by a clock that Options.Now does not set.
type AnswersExpire interface{ AnswersExpire() }

// Options say what kind of crawl a case needs. The suite always sets LeaseTTL,
// Now and Output.
type Options struct {
	Delay          time.Duration    // of hosts without a HostUpdate; 0 means none
	LeaseTTL       time.Duration    // how long a lease lasts
	MaxPerHost     uint64           // items added to one host over the whole crawl; 0 means no limit
	DomainRate     float64          // requests per second to the hosts of a site; 0 means no limit
	SeedsUnlimited bool             // MaxPerHost does not hold for hosts of seeds (see frontier.SeedHost)
	Capacity       uint64           // capacity of the filter, without growth; 0 means large enough for the case
	Policy         *policy.Live     // has the fields above, and changes; nil means that only they count
	Now            func() time.Time // the store's clock; safe for concurrent use
	Output         frontier.Output  // the output that Completion.Record writes to
}

// A testCase tests one part of the contract with a new, empty crawl.
type testCase = suite.Case[Options, *driver]

// Run tests the contract, in parallel subtests. Each call of open must return a new,
// empty crawl, which open closes with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T, opt Options) Crawl) {
	suite.Run(t, allCases(), driving(open))
}

func allCases() []testCase {
	return slices.Concat(addCases, leaseCases, expiryCases, completeCases, recordCases, contentCases, controlCases, recheckCases, readmitCases, checkCases, siteCases, quotaCases, raceCases, submitCases)
}

// driving returns a function that calls the function open and returns a driver of the crawl
// that open returned.
func driving(open func(*testing.T, Options) Crawl) func(*testing.T, Options) *driver {
	return func(t *testing.T, opt Options) *driver {
		d := &driver{Driver: suite.NewDriver(t.Context()), out: new(output)}
		d.open = func(opt Options) *driver { return driving(open)(t, opt) }
		opt.Now, opt.Output = d.Clock.Now, d.out
		opt.LeaseTTL = cmp.Or(opt.LeaseTTL, 30*time.Second)
		opt.Policy = policy.NewLive(&policy.Policy{
			Politeness: politeness.Policy{Delay: opt.Delay}, MaxPerHost: opt.MaxPerHost, SeedsUnlimited: opt.SeedsUnlimited, DomainRate: opt.DomainRate,
		})
		d.Crawl, d.opt = open(t, opt), opt
		return d
	}
}
