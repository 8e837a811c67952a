package cli

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/suite"
)

// TestLastingErrorsEndCrawl: with the default --retries and --backoff, a crawl of one host ends soon if
// the name does not exist, the port does not speak TLS or the certificate is not trusted. The message
// says what would help.
func TestLastingErrorsEndCrawl(t *testing.T) {
	t.Parallel()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	for name, test := range map[string]struct{ help, flag, value string }{
		"name":        {"there is no such name", "--dns", deadNameServer(t)},
		"plain":       {"begin the seed with http://", "--connect-to", "*=" + plain.Listener.Addr().String()},
		"certificate": {"--ca FILE", "--connect-to", "*=" + secure.Listener.Addr().String()},
	} {
		for _, robots := range []string{"obey", "ignore"} {
			t.Run(name+"/"+robots, func(t *testing.T) {
				begun := time.Now()
				code, _, errs := run(t, "", "crawl", "--dir", filepath.Join(t.TempDir(), "x.crawl"), "--urls", "1k",
					"--robots", robots, "--max-time", "40s", test.flag, test.value, "https://nosuch.test/")
				if took := time.Since(begun); code != exitUnreached || !strings.Contains(errs, test.help) || suite.TooLong(took, 30*time.Second) || strings.Contains(errs, "--max-time is over") {
					t.Errorf("exit code %d after %v, want %d within seconds, and %q: %s", code, took, exitUnreached, test.help, errs)
				}
			})
		}
	}
}

// TestRetriesAndBackoff: a URL, and a robots.txt, that always fails gets one request more than --retries
// says, and the first pause is --backoff.
func TestRetriesAndBackoff(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/", "/robots.txt"} {
		var requests atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == path {
				requests.Add(1)
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.WriteHeader(http.StatusNotFound)
		}))
		code, _, errs := run(t, "", "crawl", "--dir", filepath.Join(t.TempDir(), "x.crawl"), "--urls", "1k", "--delay", "0", "--retries", "3",
			"--backoff", "100ms", "--max-time", "40s", "--connect-to", "*="+server.Listener.Addr().String(), "http://a.test/")
		if n := requests.Load(); n != 4 || strings.Contains(errs, "--max-time is over") {
			t.Errorf("%s: %d requests, want 4; exit code %d: %s", path, n, code, errs)
		}
		server.Close()
	}
}
