package get

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestBind: connections come from the local addresses in turn, and none is made to an address of another family.
func TestBind(t *testing.T) {
	var mu sync.Mutex
	var from []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		from = append(from, host)
	}))
	defer server.Close()
	get := func(bind ...netip.Addr) error {
		client, err := New(Config{AllowPrivate: true, Bind: bind})
		if err != nil {
			return err
		}
		defer client.Close()
		for range 4 {
			answer, err := client.Get(t.Context(), Request{URL: server.URL, Header: http.Header{"Connection": {"close"}}})
			if err != nil {
				return err
			}
			answer.Release()
		}
		return nil
	}
	ipv6 := netip.MustParseAddr("::1")
	if err := get(netip.MustParseAddr("127.0.0.2"), ipv6, netip.MustParseAddr("127.0.0.3")); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	slices.Sort(from)
	if used := slices.Compact(slices.Clone(from)); !slices.Equal(used, []string{"127.0.0.2", "127.0.0.3"}) {
		t.Errorf("requests come from %q", from)
	}
	mu.Unlock()
	if err := get(ipv6); err == nil || !strings.Contains(err.Error(), "no address of Bind has the family of 127.0.0.1") {
		t.Errorf("with an address of another family: %v", err)
	}
}
