package fetcher

import (
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier/revisit"
)

// Visits knows the earlier visits of pages, in a crawl that visits them again. It is safe for concurrent use.
type Visits interface {
	// Active reports whether pages are visited again now. If not, nothing is known, and the record of a visit does not say
	// what has changed.
	Active() bool
	// Known returns what is known of an item before a visit in its present round. ok is false if no visit of it had an
	// answer, or if its rows are not read yet.
	Known(item bloomstore.Fingerprint) (known Known, ok bool, err error)
}

// Known is what a crawl knows of a page before it visits it again.
type Known struct {
	Row revisit.Row
	// Archived is fetched_at of the last visit whose content is in the archive as a whole, if the crawl has an archive.
	Archived time.Time
	// Unconditional says that the request must get the whole page, because the policy or what is kept has changed since
	// the last visit with content, or because that visit was long ago.
	Unconditional bool
}
