package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/crawl/metrics"
)

// adminAddress returns the address on which --admin listens. A port alone means the
// loopback address, so that other machines cannot slow the crawl down with requests for
// profiles.
func adminAddress(text string) (string, error) {
	if !strings.Contains(text, ":") {
		text = ":" + text
	}
	host, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil || port == "" {
		return "", fmt.Errorf("--admin is %q, want PORT or ADDR:PORT", text)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// serveAdmin serves the dashboard, /metrics, /healthz and /readyz, and with --pprof also profiles,
// until closeAdmin is called. Without --admin it does nothing.
func (r *running) serveAdmin(ctx context.Context, w io.Writer) (closeAdmin func(), err error) {
	if r.plan.admin == "" {
		return func() {}, nil
	}
	address, err := adminAddress(r.plan.admin)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--admin: %w", err)
	}
	bound, _, _ := net.SplitHostPort(address)
	paging, endPages := context.WithCancel(context.WithoutCancel(ctx))
	handler := checkHost(slices.Concat(r.plan.adminHosts, []string{bound}), r.adminHandler(paging))
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	fmt.Fprintf(w, "dashboard on http://%[1]s/, metrics on http://%[1]s/metrics\n", listener.Addr())
	return func() {
		endPages()
		_ = server.Close()
		<-done
	}, nil
}

func (r *running) adminHandler(paging context.Context) http.Handler {
	mux, handler := http.NewServeMux(), metrics.Handler(r.crawl)
	mux.Handle("/", http.NewCrossOriginProtection().Handler(r.dashboard(paging)))
	for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
		mux.Handle(path, handler)
	}
	if !r.plan.pprof {
		mux.Handle("/debug/", http.NotFoundHandler())
		return mux
	}
	// pprof.Cmdline is left out, because the command line can contain secret headers.
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// checkHost wraps a handler. It refuses requests whose Host header does not name this
// server. Valid names are localhost, loopback addresses, the local address of the
// connection, and extraHosts. The check prevents DNS rebinding. In that attack, the owner
// of a web page lets the page's host name resolve to the address of this server. The
// browsers of visitors then send requests with that name to this server.
func checkHost(extraHosts []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostOf(r.Host)
		known := host == "localhost" || slices.ContainsFunc(extraHosts, func(name string) bool { return host == hostOf(name) })
		if ip, err := netip.ParseAddr(host); err == nil {
			local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
			known = known || ip.IsLoopback() || local != nil && ip.WithZone("") == local.AddrPort().Addr().Unmap().WithZone("")
		}
		if !known || host == "" {
			http.Error(w, fmt.Sprintf("this server is not known as %q, the Host of the request: "+
				"ask for localhost or its IP address, or start the crawl with --admin-host NAME", host), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostOf returns the host of HOST or HOST:PORT in lower case. It returns an IPv6 address
// without brackets.
func hostOf(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}
