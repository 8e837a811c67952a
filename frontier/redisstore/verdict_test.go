package redisstore

import (
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// TestForgottenVerdict: an item without a verdict is an error. With the answer Seen, the
// URL would be lost.
func TestForgottenVerdict(t *testing.T) {
	got := answers{verdicts: make([]frontier.Verdict, 1)}
	forgotten := &offering{asks: []ask{{item: testPages("a.test", 0, 1)[0].Item(bloomstore.Fingerprint{})}}}
	if err := new(Store).take(&got, forgotten); err == nil {
		t.Errorf("an item without a verdict is answered %v, want an error", got.verdicts[0].Answer)
	}
}
