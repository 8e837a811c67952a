package get

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/resolve/resolvetest"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// testProxy is a proxy on the loopback that notes the targets that it receives.
type testProxy struct {
	url            string
	user, password string // empty means that no password is needed

	mu      sync.Mutex
	targets []string
}

// newTestProxy starts a proxy for a scheme of Config.Proxy.
func newTestProxy(t *testing.T, scheme, user, password string) *testProxy {
	t.Helper()
	p := &testProxy{user: user, password: password}
	serve := p.serveHTTP
	if scheme == "socks5" {
		serve = p.serveSOCKS
	}
	var wrap func(net.Listener) net.Listener
	if scheme == "https" {
		wrap = func(l net.Listener) net.Listener {
			return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate(t)}})
		}
	}
	addr := listen(t, wrap, func(_ int, conn net.Conn) { serve(conn) })
	p.url = scheme + "://"
	if user != "" {
		p.url += user + ":" + password + "@"
	}
	p.url += addr
	return p
}

// certificate returns the certificate of the servers that the function secure starts. It
// is valid for example.com and 127.0.0.1.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	s, _ := secure(t, page("unused"))
	return s.TLS.Certificates[0]
}

// tunnel connects to target and copies bytes until one side ends.
func (p *testProxy) tunnel(conn net.Conn, target string, granted func(bool)) {
	p.mu.Lock()
	p.targets = append(p.targets, target)
	p.mu.Unlock()
	up, err := net.Dial("tcp", target)
	granted(err == nil)
	if err != nil {
		return
	}
	defer up.Close()
	var down sync.WaitGroup
	down.Go(func() { io.Copy(conn, up); conn.Close() })
	io.Copy(up, conn)
	up.Close()
	down.Wait()
}

func (p *testProxy) serveHTTP(conn net.Conn) {
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(p.user+":"+p.password))
	switch {
	case r.Method != http.MethodConnect:
		io.WriteString(conn, "HTTP/1.1 405 No\r\n\r\n")
	case p.user != "" && r.Header.Get("Proxy-Authorization") != want:
		io.WriteString(conn, "HTTP/1.1 407 Who\r\nContent-Length: 0\r\n\r\n")
	default:
		p.tunnel(conn, r.Host, func(granted bool) {
			if granted {
				io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
			} else {
				io.WriteString(conn, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
			}
		})
	}
}

func (p *testProxy) serveSOCKS(conn net.Conn) {
	read := func(n int) []byte {
		b := make([]byte, n)
		if _, err := io.ReadFull(conn, b); err != nil {
			return make([]byte, n)
		}
		return b
	}
	methods := read(int(read(2)[1]))
	if p.user != "" {
		if methods[0] != 2 {
			conn.Write([]byte{5, 0xff})
			return
		}
		conn.Write([]byte{5, 2})
		user := read(int(read(2)[1]))
		password := read(int(read(1)[0]))
		if string(user) != p.user || string(password) != p.password {
			conn.Write([]byte{1, 1})
			return
		}
		conn.Write([]byte{1, 0})
	} else {
		conn.Write([]byte{5, 0})
	}
	target := ""
	switch request := read(4); request[3] {
	case 1:
		target = netip.AddrFrom4([4]byte(read(4))).String()
	case 4:
		target = netip.AddrFrom16([16]byte(read(16))).String()
	case 3:
		target = string(read(int(read(1)[0])))
	}
	port := binary.BigEndian.Uint16(read(2))
	p.tunnel(conn, net.JoinHostPort(target, strconv.Itoa(int(port))), func(granted bool) {
		if granted {
			conn.Write([]byte{5, 0, 0, 3, 2, 'o', 'k', 0, 80})
		} else {
			conn.Write([]byte{5, 5, 0, 1, 0, 0, 0, 0, 0, 0})
		}
	})
}

// hasOnly checks that the proxy received no target other than this one.
func (p *testProxy) hasOnly(t *testing.T, target string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, got := range p.targets {
		if got != target {
			t.Errorf("the proxy was told to go to %s, want %s", got, target)
		}
	}
}

var proxySchemes = []string{"http", "https", "socks5"}

// TestProxyTunnels fetches http and https URLs by name through each kind of
// proxy. The proxy gets an address and the server gets the name.
func TestProxyTunnels(t *testing.T) {
	t.Parallel()
	server, config := secure(t, func(w http.ResponseWriter, r *http.Request) {
		page(r.Host+" "+r.TLS.ServerName+" "+r.Proto)(w, r)
	})
	plain := serve(t, func(w http.ResponseWriter, r *http.Request) {
		page(r.Host+" "+r.Header.Get("Proxy-Authorization"))(w, r)
	})
	names := resolvetest.Serve(t, func(string, int) []netip.Addr { return []netip.Addr{outside} })
	for _, scheme := range proxySchemes {
		for _, user := range []string{"", "user"} {
			t.Run(scheme+"/"+user, func(t *testing.T) {
				p := newTestProxy(t, scheme, user, "se:cr@t")
				config.Proxy = strings.Replace(p.url, ":se:cr@t@", ":se%3Acr%40t@", 1)
				config.DNS = names.Addr
				c := client(t, config)
				_, port, _ := net.SplitHostPort(strings.TrimPrefix(server.URL, "https://"))
				r := mustGet(t, c, Request{URL: "https://example.com:" + port})
				if want := "example.com:" + port + " example.com HTTP/1.1"; string(r.Body) != want {
					t.Errorf("body %q, want %q", r.Body, want)
				}
				r.Release()
				p.hasOnly(t, outside.String()+":"+port)
				p.targets = nil
				_, port, _ = net.SplitHostPort(strings.TrimPrefix(plain, "http://"))
				r = mustGet(t, c, Request{URL: "http://example.com:" + port})
				if want := "example.com:" + port + " "; string(r.Body) != want {
					t.Errorf("body %q, want %q", r.Body, want)
				}
				r.Release()
				p.hasOnly(t, outside.String()+":"+port)
			})
		}
	}
}

// TestProxyGetsNoSpecialAddress: for a special address the client does not even connect to
// the proxy.
func TestProxyGetsNoSpecialAddress(t *testing.T) {
	t.Parallel()
	names := resolvetest.Serve(t, func(string, int) []netip.Addr { return []netip.Addr{inside} })
	for _, scheme := range proxySchemes {
		p := newTestProxy(t, scheme, "", "")
		c := guarded(t, Config{Proxy: p.url, DNS: names.Addr})
		for _, host := range []string{"h.test", "127.0.0.1", "[::1]", "169.254.169.254", "[64:ff9b::7f00:1]", "192.168.0.1"} {
			refused := new(AddressError)
			if _, err := c.Get(t.Context(), Request{URL: "http://" + host}); !errors.As(err, &refused) {
				t.Errorf("%s: %v, want an *AddressError", host, err)
			}
		}
		if _, err := c.Get(t.Context(), Request{URL: "http://0x7f.1"}); !errors.Is(err, ErrURL) {
			t.Errorf("Get: %v, want ErrURL", err)
		}
		p.hasOnly(t, "nowhere")
	}
}

// TestProxyFaults: each fault is attributed to the proxy or to the host, and no
// error shows the password.
func TestProxyFaults(t *testing.T) {
	closed := closedPort(t)
	proxyFault := Fault{Outcome: frontier.Network, Retry: true, Local: true}
	hostFault := Fault{Outcome: frontier.Network, Retry: true, Host: true}
	says := func(answer string) string {
		return "user:secret@" + listen(t, nil, func(_ int, conn net.Conn) {
			conn.Read(make([]byte, 1<<10))
			io.WriteString(conn, answer)
			io.Copy(io.Discard, conn)
		})
	}
	wrong := func(scheme string) string {
		return "user:secret@" + newTestProxy(t, scheme, "user", "other").url[len(scheme+"://user:other@"):]
	}
	right := func(scheme string) string {
		return newTestProxy(t, scheme, "user", "secret").url[len(scheme+"://"):]
	}
	for name, c := range map[string]struct {
		proxy  string
		want   Fault
		silent bool
	}{
		"http, no listener":         {"http://user:secret@" + closed, proxyFault, false},
		"socks5, no listener":       {"socks5://user:secret@" + closed, proxyFault, false},
		"http, wrong password":      {"http://" + wrong("http"), proxyFault, false},
		"socks5, wrong password":    {"socks5://" + wrong("socks5"), proxyFault, false},
		"http, host is not there":   {"http://" + right("http"), hostFault, false},
		"socks5, host is not there": {"socks5://" + right("socks5"), hostFault, false},
		"http, tunnel is refused":   {"http://" + says("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"), proxyFault, false},
		"http, no CONNECT":          {"http://" + says("HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n"), proxyFault, false},
		"http, CONNECT not known":   {"http://" + says("HTTP/1.1 501 No\r\nContent-Length: 0\r\n\r\n"), proxyFault, false},
		"http, too many requests":   {"http://" + says("HTTP/1.1 429 Slow\r\nContent-Length: 0\r\n\r\n"), proxyFault, false},
		"http, login page":          {"http://" + says("HTTP/1.1 302 Found\r\nLocation: http://login.test/\r\nContent-Length: 0\r\n\r\n"), proxyFault, false},
		"http, 500":                 {"http://" + says("HTTP/1.1 500 Unable to connect\r\nContent-Length: 0\r\n\r\n"), hostFault, false},
		"http, 503":                 {"http://" + says("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"), hostFault, false},
		"http, 504":                 {"http://" + says("HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\n\r\n"), hostFault, false},
		"socks5, not allowed":       {"socks5://" + rules(t), proxyFault, false},
		"http, silent":              {"http://" + says(""), hostFault, true},
		"socks5, silent":            {"socks5://" + says(""), proxyFault, true},
		"http, speaks SSH":          {"http://" + says("SSH-2.0-x\r\n"), proxyFault, false},
		"http, talks first":         {"http://" + says("HTTP/1.1 200 OK\r\n\r\nhello"), proxyFault, false},
		"http, endless header":      {"http://" + says("HTTP/1.1 200 OK\r\nA: "+strings.Repeat("a", 20<<10)), proxyFault, false},
		"socks5, speaks HTTP":       {"socks5://" + says("HTTP/1.1 400 Bad\r\n\r\n"), proxyFault, false},
		"socks5, unknown reply":     {"socks5://user:secret@" + newTestProxy(t, "http", "", "").url[len("http://"):], proxyFault, true},
		"https, bad certificate":    {"https://" + wrong("https"), proxyFault, false},
		"https, speaks no TLS":      {"https://" + says("HTTP/1.1 400 Bad\r\n\r\n"), proxyFault, false},
		"http, speaks TLS":          {"http://" + wrong("https"), proxyFault, false},
		"socks5, wants no password": {"socks5://" + says("\x05\x00"), proxyFault, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := Config{Proxy: c.proxy}
			if c.silent {
				config.DialTimeout = time.Second
			}
			client := client(t, config)
			_, err := client.Get(t.Context(), Request{URL: "http://" + closed})
			if err == nil {
				t.Fatal("Get returned an answer, want an error")
			}
			if got := Classify(err); got != c.want {
				t.Errorf("Classify(%v) = %+v, want %+v", err, got, c.want)
			}
			if errors.Is(err, ErrProxy) != (c.want == proxyFault) {
				t.Errorf("errors.Is(%v, ErrProxy) = %v", err, errors.Is(err, ErrProxy))
			}
			for _, part := range []string{"secret", "user:", base64.StdEncoding.EncodeToString([]byte("user:secret"))} {
				if strings.Contains(err.Error(), part) {
					t.Errorf("%v shows %q", err, part)
				}
			}
		})
	}
}

// rules starts a SOCKS server whose rules allow no connection, and returns its address.
func rules(t *testing.T) string {
	return listen(t, nil, func(_ int, conn net.Conn) {
		conn.Read(make([]byte, 3))
		conn.Write([]byte{5, 0})
		conn.Read(make([]byte, 10))
		conn.Write([]byte{5, 2, 0, 1, 0, 0, 0, 0, 0, 0})
	})
}

// TestProxyRefusesOne: while the proxy opens tunnels to a port, a refusal is about the address, and final.
func TestProxyRefusesOne(t *testing.T) {
	t.Parallel()
	refuse := make(map[string]bool)
	proxy := listen(t, nil, func(_ int, conn net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(conn))
		switch {
		case err != nil:
		case refuse[r.Host]:
			io.WriteString(conn, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
		default:
			io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
			http.ReadRequest(bufio.NewReader(conn))
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\nx")
		}
	})
	c := client(t, Config{Proxy: "http://" + proxy})
	refuse["127.0.0.2:80"], refuse["127.0.0.2:81"] = true, true
	ask := func(host string) error {
		r, err := c.Get(t.Context(), Request{URL: "http://" + host})
		if err == nil {
			r.Release()
		}
		return err
	}
	if err := ask("127.0.0.2"); !Classify(err).Local || !strings.Contains(err.Error(), "--proxy-http absolute") {
		t.Errorf("the first tunnel is refused: %v, %+v, want a fault of the proxy and the flag", err, Classify(err))
	}
	if err := ask("127.0.0.3"); err != nil {
		t.Fatal(err)
	}
	err := ask("127.0.0.2")
	if got, want := Classify(err), (Fault{Outcome: frontier.Address}); got != want || Cause(err) != CauseProxy {
		t.Errorf("one of two addresses is refused: %v, %+v, cause %s, want %+v", err, got, Cause(err), want)
	}
	if err := ask("127.0.0.2:81"); !Classify(err).Local {
		t.Errorf("another port is refused: %v, %+v, want a fault of the proxy", err, Classify(err))
	}
}

// absoluteProxy is a proxy that takes requests in absolute form only. It notes what it receives.
func absoluteProxy(t *testing.T, login string) (addr string, seen func() []string) {
	var mu sync.Mutex
	var heads []string
	addr = listen(t, nil, func(_ int, conn net.Conn) {
		from := bufio.NewReader(conn)
		for {
			var head strings.Builder
			for !strings.HasSuffix(head.String(), "\r\n\r\n") {
				line, err := from.ReadString('\n')
				if err != nil {
					return
				}
				head.WriteString(line)
			}
			mu.Lock()
			heads = append(heads, head.String())
			mu.Unlock()
			status := "200 OK"
			switch {
			case strings.HasPrefix(head.String(), "CONNECT"):
				status = "403 Forbidden"
			case login != "" && !strings.Contains(head.String(), "Proxy-Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte(login))):
				status = "407 Who"
			}
			io.WriteString(conn, "HTTP/1.1 "+status+"\r\nContent-Type: text/html\r\nContent-Length: 1\r\n\r\nx")
		}
	})
	return addr, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return heads
	}
}

// TestProxyAbsolute: http requests are sent byte for byte in absolute form, on connections that stay open. The guard, the
// rules of ConnectTo and https have their tunnels and checks as before. The archive has no login.
func TestProxyAbsolute(t *testing.T) {
	t.Parallel()
	names := resolvetest.Serve(t, func(name string, _ int) []netip.Addr {
		if strings.HasPrefix(name, "private") {
			return []netip.Addr{inside}
		}
		return []netip.Addr{netip.MustParseAddr("192.1.1.1")} // public; only the proxy could connect to it
	})
	addr, seen := absoluteProxy(t, "user:se:cr@t")
	config := Config{
		Proxy: "http://user:se%3Acr%40t@" + addr, ProxyAbsolute: true, DNS: names.Addr, Capture: true,
		ConnectTo: []Rule{{Pattern: "ruled.test", Addr: "127.0.0.1"}},
	}
	c := guarded(t, config)
	for _, target := range []string{"/", "/a?b=c", "?q", "/100%", "//a//b", "//[x", "/a b", ""} {
		r, err := c.Get(t.Context(), Request{URL: "http://h.test" + target})
		if err != nil {
			t.Fatalf("%q: %v", target, err)
		}
		want := "GET http://h.test" + strings.ReplaceAll(target, " ", "%20") + " HTTP/1.1\r\n"
		if !strings.HasPrefix(target, "/") {
			want = "GET http://h.test/" + target + " HTTP/1.1\r\n"
		}
		heads := seen()
		if head := heads[len(heads)-1]; !strings.HasPrefix(head, want) || !strings.Contains(head, "\r\nHost: h.test\r\n") {
			t.Errorf("%q was sent as %q, want %q", target, head, want)
		}
		if kept := string(r.Wire.Request); !strings.HasPrefix(kept, want) || strings.Contains(kept, "Proxy-") || !strings.HasSuffix(kept, "\r\n\r\n") || r.Wire.Remote.IsValid() {
			t.Errorf("%q is kept as %q, address %v", target, kept, r.Wire.Remote)
		}
		r.Release()
	}
	for _, host := range []string{"private.test", "127.0.0.1", "[::1]", "169.254.169.254"} {
		refused := new(AddressError)
		if _, err := c.Get(t.Context(), Request{URL: "http://" + host}); !errors.As(err, &refused) {
			t.Errorf("%s: %v, want an *AddressError", host, err)
		}
	}
	before := len(seen())
	for _, url := range []string{"http://ruled.test", "https://h.test"} {
		if _, err := c.Get(t.Context(), Request{URL: url}); !errors.Is(err, ErrProxy) {
			t.Errorf("%s: %v, want a refused tunnel", url, err)
		}
	}
	for _, head := range seen()[before:] {
		if !strings.HasPrefix(head, "CONNECT ") {
			t.Errorf("sent %q, want CONNECT", head)
		}
	}
	config.Proxy = "http://user:wrong@" + addr
	_, err := guarded(t, config).Get(t.Context(), Request{URL: "http://h.test"})
	if want := (Fault{Outcome: frontier.Network, Retry: true, Local: true}); Classify(err) != want || strings.Contains(err.Error(), "wrong") {
		t.Errorf("with another password: %v, %+v, want %+v", err, Classify(err), want)
	}
	for _, proxy := range []string{"", "socks5://h"} {
		if _, err := New(Config{Proxy: proxy, ProxyAbsolute: true}); err == nil || !strings.Contains(err.Error(), "ProxyAbsolute") {
			t.Errorf("New with proxy %q: %v, want an error that names ProxyAbsolute", proxy, err)
		}
	}
}

// TestProxiesAsShipped: squid opens tunnels to port 443 only, and its refusal counts against no host; tinyproxy opens
// tunnels to every port. Both take http requests in absolute form.
func TestProxiesAsShipped(t *testing.T) {
	t.Parallel()
	site := serve(t, page("kept"))
	for _, program := range []string{"squid", "tinyproxy"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			proxy := servers.WebProxy(t, program)
			r, err := client(t, Config{Proxy: proxy.URL()}).Get(t.Context(), Request{URL: site})
			switch {
			case program == "tinyproxy" && err != nil:
				t.Errorf("through a tunnel: %v", err)
			case program == "tinyproxy":
				r.Release()
			case !Classify(err).Local || !strings.Contains(err.Error(), "(403 Forbidden); with --proxy-http absolute"):
				t.Errorf("through a tunnel: %v, want a fault of the proxy that names the flag", err)
			}
			c := client(t, Config{Proxy: proxy.URL(), ProxyAbsolute: true})
			for range 2 {
				r := mustGet(t, c, Request{URL: site})
				if string(r.Body) != "kept" {
					t.Errorf("body %q, want kept", r.Body)
				}
				r.Release()
			}
		})
	}
}

func TestParseProxy(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"http://h": "h:80", "https://h": "h:443", "socks5://h": "h:1080", "http://u:p@[::1]:8080/": "[::1]:8080", "HTTP://h:1": "h:1",
	} {
		if p, err := parseProxy(Config{Proxy: raw}); err != nil || p.address != want {
			t.Errorf("parseProxy(%q) = %+v, %v, want %s", raw, p, err, want)
		}
	}
	if p, err := parseProxy(Config{}); p != nil || err != nil {
		t.Errorf("parseProxy without a proxy = %v, %v, want nil, nil", p, err)
	}
	for _, raw := range []string{
		"secret@h:80", "secret:x@h", "socks5h://secret@h", "ftp://secret@h", "http://", "http://secret@", "http://h/secret", "http://h?secret",
		"http://h#secret", "http://secret\x7f@h", "http://h:secret", "http://secret@h:0", "http://secret@h:99999", "socks5://" + strings.Repeat("secret", 50) + "@h",
	} {
		if _, err := parseProxy(Config{Proxy: raw}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("parseProxy(%q): %v, want an error that does not show the URL", raw, err)
		}
	}
}

// FuzzParseProxy: no error shows the text that was given, and an accepted proxy
// has an address.
func FuzzParseProxy(f *testing.F) {
	for _, raw := range []string{"http://h", "socks5://u:p@[::1]:1", "https://u@h:1/", "x", "http://h:99999"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		p, err := parseProxy(Config{Proxy: raw})
		if err != nil && !errors.Is(err, errProxyURL) {
			t.Errorf("parseProxy(%q): %v, want errProxyURL", raw, err)
		}
		if err != nil || raw == "" {
			return
		}
		if host, port, err := net.SplitHostPort(p.address); err != nil || host == "" || port == "" {
			t.Errorf("parseProxy(%q): address %q, %v, want a host and a port", raw, p.address, err)
		}
		if strings.ContainsAny(p.plainAuth, "\r\n") {
			t.Errorf("parseProxy(%q): the header %q has a line break", raw, p.plainAuth)
		}
	})
}
