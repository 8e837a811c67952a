package get

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/internal/resolve/resolvetest"
)

// TestInsecureHosts: the certificate of a matching host is not verified, with and without
// Capture and a proxy. The certificates of other hosts are verified.
func TestInsecureHosts(t *testing.T) {
	t.Parallel()
	s, _ := secure(t, func(w http.ResponseWriter, r *http.Request) { page(r.Proto)(w, r) })
	names := resolvetest.Serve(t, func(string, int) []netip.Addr { return []netip.Addr{outside} })
	host, port, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "https://"))
	proxy := newTestProxy(t, "https", "", "").url
	for name, config := range map[string]Config{
		"plain":   {},
		"capture": {Capture: true},
		"proxy":   {Proxy: proxy},
		"both":    {Proxy: proxy, Capture: true},
	} {
		t.Run(name, func(t *testing.T) {
			// The proxy has this host too, and its certificate must not be verified either.
			config.DNS, config.InsecureHosts = names.Addr, []string{"*.insecure.example", host}
			if config.Proxy == "" {
				config.ConnectTo = []Rule{{Pattern: "*", Addr: host}}
			}
			c := client(t, config)
			for _, from := range []string{"a.insecure.example", "A.Insecure.example"} {
				r := mustGet(t, c, Request{URL: "https://" + from + ":" + port + "/"})
				if string(r.Body) != "HTTP/1.1" {
					t.Errorf("%s: protocol %q, want HTTP/1.1", from, r.Body)
				}
				r.Release()
			}
			for _, from := range []string{"insecure.example", "a.insecure.example.test", "example.com"} {
				if _, err := c.Get(t.Context(), Request{URL: "https://" + from + ":" + port + "/"}); err == nil || !strings.Contains(err.Error(), "certificate") {
					t.Errorf("%s: %v, want an error about its certificate", from, err)
				}
			}
			if config.Proxy == "" {
				return
			}
			config.InsecureHosts = []string{"*.insecure.example"}
			if _, err := client(t, config).Get(t.Context(), Request{URL: "https://a.insecure.example:" + port + "/"}); err == nil || !strings.Contains(err.Error(), "proxy") {
				t.Errorf("Get: %v, want an error about the proxy's certificate", err)
			}
		})
	}
}

// TestInsecureAddress: the patterns also match addresses.
func TestInsecureAddress(t *testing.T) {
	t.Parallel()
	s, _ := secure(t, page("body"))
	host, _, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "https://"))
	for _, pattern := range []string{host, "127.*", "*"} {
		mustGet(t, client(t, Config{InsecureHosts: []string{pattern}}), Request{URL: s.URL}).Release()
	}
	if _, err := client(t, Config{InsecureHosts: []string{"127.0.0.2"}}).Get(t.Context(), Request{URL: s.URL}); err == nil {
		t.Error("the certificate of an address that no pattern matches is not verified")
	}
}
