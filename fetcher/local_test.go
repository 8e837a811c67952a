package fetcher_test

import (
	"fmt"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/internal/resolve"
)

// TestLocalOutage: while this machine cannot make requests, no URL loses an
// attempt and no failure counts against a host, for pages and for robots.txt.
// The cases are a proxy or a name server that does not answer, and no free
// descriptor or port.
func TestLocalOutage(t *testing.T) {
	for name, cause := range map[string]error{
		"proxy": get.ErrProxy, "name server": resolve.ErrServer, "descriptors": syscall.EMFILE,
		"ports": &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}, Err: syscall.EADDRNOTAVAIL},
	} {
		for _, url := range []string{"http://a.test/", "http://a.test/robots.txt"} {
			t.Run(name+" "+url, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, &wire{answer: nil})
					w.wire.answer = func(_ *http.Request, asked string, try int) (reply, bool) {
						if asked == url && try < 20 {
							return reply{broken: fmt.Errorf("dial: %w", cause)}, true
						}
						return reply{}, false
					}
					w.crawl(w.config(), "http://a.test/")
					if r := w.sink.recordOf(t, "http://a.test/"); r.Outcome != "ok" || r.Attempts != 1 {
						t.Errorf("outcome %q after %d attempts, want ok after 1", r.Outcome, r.Attempts)
					}
				})
			})
		}
	}
}
