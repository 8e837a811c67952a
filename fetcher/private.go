package fetcher

import (
	"log/slog"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

// The private headers of Config.Client (get.PrivateHeader) go to the origins of
// seeds and nowhere else, whatever leads to a URL: a link, a redirect, a sitemap.
// Which origins these are is kept with the scope of the crawl, so that it is known
// after a restart and to all workers. The scope itself cannot say: a seed that
// redirects opens the scope of its target.

// originKeys returns the scope keys that note the origin of a seed. None of them
// is the scope key of a host. A site that moves from http to https stays itself;
// in the other direction the headers would be sent in the clear.
func originKeys(seed canon.URL) []string {
	keys := []string{seed.Origin()}
	if seed.Scheme() == "http" && seed.Port() == "" {
		keys = append(keys, "https://"+seed.Host())
	}
	return keys
}

// sendsPrivate reports whether the client has private headers.
func (c *Config) sendsPrivate() bool { return len(c.Client.PrivateHeaders()) > 0 }

// private reports whether a request for url has the private headers. Only run's
// goroutine calls it. Its error ends the lease.
func (h *holding) private(url canon.URL) (bool, error) {
	if !h.cfg.sendsPrivate() {
		return false, nil
	}
	origin := url.Origin()
	if of, known := h.ofSeed[origin]; known {
		return of, nil
	}
	var noted []bool
	err := h.whileUnavailable(func() (err error) {
		noted, err = h.cfg.Scope.Admitted(h.hard, []string{origin})
		return err
	})
	if err != nil {
		if h.hard.Err() == nil {
			h.note(err)
		}
		return false, errStop
	}
	if h.ofSeed == nil {
		h.ofSeed = make(map[string]bool)
	}
	h.ofSeed[origin] = noted[0]
	if !noted[0] {
		h.cfg.Logger.Debug("private headers are not sent to an origin without a seed", slog.String("origin", origin))
	}
	return noted[0], nil
}
