package record_test

import (
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/fetcher/record"
)

// TestEventID: the ids of events do not change, because consumers have stored
// them.
func TestEventID(t *testing.T) {
	t.Parallel()
	print := bloomstore.Fingerprint{0: 0x0a, 15: 0xff}
	if got, want := record.EventID(print, 12), "0a0000000000000000000000000000ff-12"; got != want {
		t.Errorf("EventID = %q, want %q", got, want)
	}
}
