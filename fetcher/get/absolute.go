package get

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// absolute sends requests in absolute form (RFC 9112, 3.2.2) where the dialer connects to the proxy instead of opening a
// tunnel. See Config.ProxyAbsolute.
type absolute struct {
	inner  http.RoundTripper
	dialer *dialer
}

const proxyAuthorization = "Proxy-Authorization"

// RoundTrip implements http.RoundTripper.
func (a absolute) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "http" || !a.dialer.isAbsolute(r.URL.Hostname()) {
		return a.inner.RoundTrip(r)
	}
	sent := r.WithContext(r.Context())
	u := *r.URL
	if !strings.HasPrefix(u.Opaque, "//") { // not absolute already
		u.Opaque = "//" + u.Host + r.URL.RequestURI()
	}
	sent.URL = &u
	if auth := a.dialer.proxy.plainAuth; auth != "" {
		sent.Header = r.Header.Clone()
		sent.Header.Set(proxyAuthorization, auth)
	}
	answer, err := a.inner.RoundTrip(sent)
	if err == nil && answer.StatusCode == http.StatusProxyAuthRequired {
		answer.Body.Close()
		return nil, fmt.Errorf("%w: it wants another user and password", ErrProxy)
	}
	return answer, err
}

// isAbsolute reports whether http requests to host are sent to the proxy in absolute form. A host of Config.ConnectTo gets
// a tunnel, because an absolute request cannot name another address than its URL.
func (d *dialer) isAbsolute(host string) bool {
	if d.proxy == nil || !d.proxy.absolute {
		return false
	}
	_, ruled := ruleFor(d.rules, host)
	return !ruled
}

// toProxy connects to the proxy, for requests in absolute form to host. It checks the addresses of host, which the proxy
// then looks up once more.
func (d *dialer) toProxy(ctx context.Context, host string) (net.Conn, error) {
	if _, err := d.permitted(ctx, host); err != nil {
		return nil, err
	}
	conn, err := d.proxy.dial(ctx, &d.open)
	if err != nil {
		return nil, err
	}
	return &gated{Conn: conn, read: &d.read}, nil
}
