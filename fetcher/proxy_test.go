package fetcher_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/bloomfrontier/crawler/fetcher/get"
)

// TestProxyOutage: a proxy that does not answer for a while costs no URL an
// attempt, and no host its good name.
func TestProxyOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{answer: nil})
		w.wire.answer = func(_ *http.Request, url string, try int) (reply, bool) {
			if url == "http://a.test/" && try < 20 {
				return reply{broken: fmt.Errorf("dial: %w", get.ErrProxy)}, true
			}
			return reply{}, false
		}
		w.crawl(w.config(), "http://a.test/")
		if r := w.sink.of(t, "http://a.test/"); r.Outcome != "ok" || r.Attempts != 1 {
			t.Errorf("outcome %q after %d attempts, want ok after 1", r.Outcome, r.Attempts)
		}
	})
}
