package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// adminAddress returns where --admin listens: a port alone is of the loopback
// address, for whoever can ask for a profile can slow the crawl down.
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

// serveAdmin serves /metrics, /healthz, /readyz and /debug/pprof until it is
// closed, if --admin asks for it. run ends when the crawl is to stop.
func (ses *session) serveAdmin(run context.Context, w io.Writer) (closeAdmin func(), err error) {
	if ses.admin == "" {
		return func() {}, nil
	}
	address, err := adminAddress(ses.admin)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(run, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--admin: %w", err)
	}
	server := &http.Server{Handler: ses.adminHandler(run), ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	fmt.Fprintf(w, "metrics on http://%s/metrics\n", listener.Addr())
	return func() {
		_ = server.Close()
		<-done
	}, nil
}

// goCollector collects what is usual of Go's runtime, and how much of the
// processor time is garbage collection.
func goCollector() prometheus.Collector {
	return collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(
		collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/cpu/classes/(total|idle|gc/total):`)}))
}

func (ses *session) adminHandler(run context.Context) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(goCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newMetrics(ses.store, ses.crawl))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		health(w, ses.store.Err())
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if run.Err() != nil {
			health(w, fmt.Errorf("stopping: %w", context.Cause(run)))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), readyTime)
		defer cancel()
		_, err := ses.store.Counters(ctx)
		health(w, err)
	})
	// Not pprof.Cmdline: a header on the command line may be a secret.
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// readyTime is how soon a store that is ready answers.
const readyTime = 5 * time.Second

func health(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}
