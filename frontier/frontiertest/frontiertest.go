package frontiertest

import (
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

// Crawl is a whole frontier: what the suite holds to the contract.
type Crawl interface {
	frontier.Store
	frontier.Scope
	frontier.Inspector
	frontier.Control
}

// Options say what kind of crawl a case needs. The suite always sets LeaseTTL
// and Now.
type Options struct {
	Delay      time.Duration    // of a host that no HostUpdate spoke of yet; 0: none
	LeaseTTL   time.Duration    // how long a lease lasts
	MaxPerHost uint64           // items added to one host over the whole crawl; 0: no limit
	FilterKeys uint64           // size the filter for so many keys, without growth; 0: so that no case sees a false positive
	Now        func() time.Time // the store's clock
	Output     frontier.Output  // nil: none
}
