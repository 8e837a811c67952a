package fetcher

import (
	"log/slog"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

// The private headers of Config.Client (get.PrivateHeader) are sent only to the origins of
// seeds, however a URL of such an origin was found. These origins are stored with the scope
// of the crawl, so that all workers can read them, also after a restart. The scope alone
// is not enough: if a seed redirects, the host of the target is in scope, but the target
// must not get the headers.

// originKeys returns the scope keys that store the origin of a seed. They differ from the
// scope keys of hosts. An http seed also stores the https origin of its host, because the
// site may redirect to it. An https seed does not store the http origin, because the
// headers would then be sent unencrypted.
func originKeys(seed canon.URL) []string {
	keys := []string{seed.Origin()}
	if seed.Scheme() == "http" && seed.Port() == "" {
		keys = append(keys, "https://"+seed.Host())
	}
	return keys
}

// sendsPrivate reports whether the client has private headers.
func (c *Config) sendsPrivate() bool { return len(c.Client.PrivateHeaders()) > 0 }

// private reports whether a request for url gets the private headers. Only the goroutine of
// run may call it. Its error ends the lease.
func (h *holding) private(url canon.URL) (bool, error) {
	if !h.cfg.sendsPrivate() {
		return false, nil
	}
	origin := url.Origin()
	if of, known := h.ofSeed[origin]; known {
		return of, nil
	}
	noted, err := h.admitted(h.hard, []string{origin})
	if err != nil {
		return false, h.storeFailed(err)
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
