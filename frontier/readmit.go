package frontier

import "context"

// Readmission says what a Readmit found.
type Readmission uint8

// Values of Readmission. The zero value is invalid.
const (
	Readmitted Readmission = iota + 1 // the next offer of the URL is answered Added
	Waits                             // the URL is queued or leased, and stays unchanged
	NeverSeen                         // the store does not know the URL; an offer of it would be Added anyway
)

// Readmitter is a Store that can let URLs in again.
type Readmitter interface {
	// Readmit lets URLs in once more, whatever the filter claims: the next offer of each is answered Added, and queues it in a round that
	// it never had, with 0 Attempts and 0 Deliveries. The round is decided by Readmit, so a URL that comes back in another
	// way meanwhile, such as by Control.Retry, is not let in once more. The step that queues the URL ends its readmission. A
	// URL that is readmitted already, stays so. Later offers are answered Seen, and no other URL is let in. Of an Offer
	// only URL, Host and Class count. The result has a value for each URL, index for index. After an error, some URLs can be
	// readmitted, and the call can be repeated. If dry is set, nothing changes.
	//
	// A done item that comes back counts once more in Books.Added, and its earlier round stays in Books.Done; one that failed
	// stays in Books.Failed.
	Readmit(ctx context.Context, urls []Offer, dry bool) ([]Readmission, error)
}
