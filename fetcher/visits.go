package fetcher

import (
	"context"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier/revisit"
)

// Visits knows the earlier visits of pages, in a crawl that visits them again. It is safe for concurrent use.
type Visits interface {
	// Active reports whether pages are visited again now. If not, nothing is known, and the record of a visit does not say
	// what has changed.
	Active() bool
	// Known returns what is known of items before a visit in their present rounds, for those of which something is known. The
	// worker calls it once for the items of a lease. Without an answer it makes no request, because it would not know whether the
	// visit was made already.
	Known(ctx context.Context, items []bloomstore.Fingerprint) (map[bloomstore.Fingerprint]Known, error)
	// Claim notes what a sitemap that was just read says of pages. What it says of unknown pages is ignored. After an error,
	// which the run reports, some of it is lost.
	Claim(claims []Claim) error
}

// Claim is what a sitemap says of a page of its own site: when the page was last modified, between First and Until.
type Claim struct {
	URL          string // canonical
	First, Until time.Time
}

// Known is what a crawl knows of a page before it visits it again.
type Known struct {
	Row revisit.Row // its Visited is zero if no visit had an answer, or the page is forgotten
	// Next is the round after the latest one that was completed. An item of an earlier round ends as frontier.Stale, without
	// a request and a record.
	Next uint32
	// Archived is fetched_at of the last visit whose content is in the archive as a whole, if the crawl has an archive.
	Archived time.Time
	// Unconditional says that the request must get the whole page, because the policy or what is kept has changed since
	// the last visit with content, or because that visit was long ago.
	Unconditional bool
}
