package get

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloomfrontier/crawler/frontier"
)

func guarded(t *testing.T, config Config) *Client {
	t.Helper()
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestPrivateAddressIsNotDialled(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	url := serve(t, func(http.ResponseWriter, *http.Request) { requests.Add(1) })
	port := url[strings.LastIndexByte(url, ':'):]
	c := guarded(t, Config{})
	for _, host := range []string{"127.0.0.1", "localhost", "LOCALHOST", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]"} {
		_, err := c.Get(t.Context(), Request{URL: "http://" + host + port})
		var refused *AddressError
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v, want an *AddressError", host, err)
			continue
		}
		if _, err := netip.ParseAddr(refused.Addr); err != nil || refused.Host != strings.Trim(host, "[]") {
			t.Errorf("%s: AddressError %+v, want this host and an IP address", host, refused)
		}
		if f := Classify(err); f != (Fault{Outcome: frontier.Address}) {
			t.Errorf("Classify(%v) = %+v", err, f)
		}
	}
	if requests.Load() != 0 {
		t.Errorf("the server got %d requests, want 0", requests.Load())
	}
}

func TestCheckHost(t *testing.T) {
	t.Parallel()
	c := guarded(t, Config{ConnectTo: []Rule{{Pattern: "*.test", Addr: "127.0.0.1"}}})
	for host, want := range map[string]string{
		"127.0.0.1":         "127.0.0.1 is a private address (--allow-private, or --allow-net 127.0.0.1/32)",
		"[::1]":             "::1 is a private address (--allow-private, or --allow-net ::1/128)",
		"224.0.0.1":         "224.0.0.1 is a special address (--allow-private, or --allow-net 224.0.0.1/32)",
		"8.8.8.8":           "",
		"a.test":            "",
		"[2606:4700::1]":    "",
		"[64:ff9b::7f00:1]": "64:ff9b::7f00:1 is a special address (--allow-private, or --allow-net 64:ff9b::7f00:1/128 --allow-net 127.0.0.1/32)",
	} {
		err := c.CheckHost(t.Context(), host)
		if got := errorText(err); got != want {
			t.Errorf("CheckHost(%q) = %q, want %q", host, got, want)
		}
	}
	if err := c.CheckHost(t.Context(), "localhost"); err == nil || !strings.HasPrefix(err.Error(), "localhost is ") {
		t.Errorf("CheckHost(localhost) = %v", err)
	}
	if got, want := (&AddressError{"localhost", "127.0.0.1"}).Error(), "localhost is 127.0.0.1, a private address (--allow-private, or --allow-net 127.0.0.1/32)"; got != want {
		t.Errorf("AddressError: %q, want %q", got, want)
	}
	if err := client(t, Config{}).CheckHost(t.Context(), "127.0.0.1"); err != nil {
		t.Errorf("CheckHost with AllowPrivate: %v", err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestConnectTo(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { page(r.Host)(w, r) })
	addr := strings.TrimPrefix(url, "http://")
	_, port, _ := net.SplitHostPort(addr)
	rule, err := ParseConnectTo("*.site.test=" + addr)
	if err != nil {
		t.Fatal(err)
	}
	samePort, err := ParseConnectTo("port.test=127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	c := guarded(t, Config{ConnectTo: []Rule{rule, samePort}}) // the guard is on
	for host, want := range map[string]string{"a.site.test": "a.site.test", "b.site.test:81": "b.site.test:81", "port.test:" + port: "port.test:" + port} {
		r := mustGet(t, c, Request{URL: "http://" + host})
		if string(r.Body) != want {
			t.Errorf("%s: the server got the Host %q, want %q", host, r.Body, want)
		}
		r.Release()
	}
}

func TestParseConnectTo(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]Rule{
		"*=127.0.0.1":           {"*", "127.0.0.1", ""},
		"*.Example.org=h:8080":  {"*.example.org", "h", "8080"},
		"h=[::1]:80":            {"h", "::1", "80"},
		"h=::1":                 {"h", "::1", ""},
		"h=[::1]":               {"h", "::1", ""},
		"[::2]=127.0.0.1:65535": {"::2", "127.0.0.1", "65535"},
	} {
		if got, err := ParseConnectTo(s); err != nil || got != want {
			t.Errorf("ParseConnectTo(%q) = %+v, %v, want %+v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "h", "=h", "h=", "h=:80", "h=a:0", "h=a:65536", "h=a:b", "h=a:b:c", "a b=c", "http://h=c"} {
		if got, err := ParseConnectTo(s); err == nil {
			t.Errorf("ParseConnectTo(%q) = %+v, want an error", s, got)
		}
	}
}

func TestMatchHost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, host string
		want          bool
	}{
		{"h", "h", true}, {"h", "hh", false}, {"*", "", true}, {"*", "a.b", true},
		{"*.a", "x.a", true}, {"*.a", "x.y.a", true}, {"*.a", ".a", true}, {"*.a", "a", false},
		{"a*", "abc", true}, {"a*c", "abc", true}, {"a*c", "ac", true}, {"a*c", "acb", false},
		{"*a*b*", "xaxbx", true}, {"*a*b*", "ba", false}, {"a*a", "a", false}, {"*aba*aba", "ababa", false},
	} {
		if got := MatchHost(c.pattern, c.host); got != c.want {
			t.Errorf("MatchHost(%q, %q) = %v", c.pattern, c.host, got)
		}
	}
}
