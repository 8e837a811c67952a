package contest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/bench/site"
	"github.com/bloomfrontier/crawler/internal/testweb"
)

// PageBytes is the mean size of the pages of a synthetic web.
const PageBytes = 4 << 10

// Site describes a site: a synthetic web of package testweb, or a folder of files as one
// host.
type Site struct {
	Pages, Hosts uint64 // of a synthetic web
	Folder       string // empty means a synthetic web
	Packed       bool   // whether a folder's files are sent with gzip

	// The following fields are for synthetic webs. Zero values mean the defaults of package
	// testweb.
	Latency time.Duration // mean latency of the hosts; see also LateSpread
	Links   int           // mean number of links of a page
	Seeds   int           // number of hosts whose root pages are the seeds
	TLS     bool

	// Mix makes the web testweb.MixWeb, over TLS, with its latency. Only Hosts and Seeds have a meaning then.
	Mix bool
}

// LateSpread is the standard deviation of the logarithms of the hosts' latencies, which
// have a log-normal distribution.
const LateSpread = 0.8

// serve serves the site that order describes, on loopback, and prints the site's Endpoint
// to out. It returns when stdin ends, or when ctx is done. The parent process keeps stdin
// open, so this process ends with its parent. At the end serve prints the testweb.Traffic
// of a synthetic web.
func serve(ctx context.Context, order string, stdin io.Reader, out io.Writer) error {
	var what Site
	if err := json.Unmarshal([]byte(order), &what); err != nil {
		return fmt.Errorf("serve %q: %w", order, err)
	}
	if info, err := os.Stat(what.Folder); what.Folder != "" && (err != nil || !info.IsDir()) {
		return errors.Join(fmt.Errorf("%q is no folder", what.Folder), err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// This goroutine can run until the process ends, because a read cannot be cancelled.
	go func() { _, _ = io.Copy(io.Discard, stdin); cancel() }()
	endpoint := Endpoint{Addr: listener.Addr().String()}
	if what.Folder != "" {
		endpoint.Seeds = []string{"http://" + endpoint.Addr + "/"}
		return errors.Join(json.NewEncoder(out).Encode(endpoint), what.serveFolder(ctx, listener))
	}
	config := testweb.Config{Seed: 1, Pages: int(what.Pages), Hosts: int(what.Hosts), MeanBytes: PageBytes,
		MeanLinks: what.Links, Latency: what.Latency, LatencySpread: LateSpread, TLS: what.TLS}
	if what.Mix {
		what.TLS = true
		config = testweb.Config{Seed: 1, Hosts: int(what.Hosts), Mix: testweb.MixWeb, TLS: true,
			Latency: testweb.MixLatency, LatencySpread: testweb.MixLatencySpread}
	}
	web, err := testweb.New(config)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	endpoint.Seeds, endpoint.Any, endpoint.CA = what.seeds(web), true, string(web.CACert())
	lines := json.NewEncoder(out)
	return errors.Join(lines.Encode(endpoint), web.Serve(ctx, listener), lines.Encode(web.Traffic()))
}

// seeds returns the seeds of a crawl of a synthetic web.
func (s Site) seeds(web *testweb.Web) (seeds []string) {
	if s.Seeds == 0 {
		return web.Seeds()
	}
	scheme := "http"
	if s.TLS {
		scheme = "https"
	}
	names := web.Hostnames()
	for _, name := range names[:min(s.Seeds, len(names))] {
		seeds = append(seeds, scheme+"://"+name+"/")
	}
	return seeds
}

func (s Site) serveFolder(ctx context.Context, listener net.Listener) error {
	handler := site.Handler(s.Folder)
	if s.Packed {
		handler = site.Packed(s.Folder)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Served is a site that another process serves.
type Served struct {
	Endpoint
	Stop func() testweb.Traffic // ends the process; returns a zero Traffic for a folder
}

// Serve starts a process that serves a site. The caller must call Served.Stop.
func (run Program) Serve(ctx context.Context, what Site) (*Served, error) {
	order, err := json.Marshal(what)
	if err != nil {
		return nil, err
	}
	cmd := run(ctx, siteCommand, string(order))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := json.NewDecoder(out)
	s := &Served{Stop: sync.OnceValue(func() (traffic testweb.Traffic) {
		_ = in.Close()
		_ = lines.Decode(&traffic)
		_ = cmd.Wait() // its errors went to stderr
		return traffic
	})}
	if err := lines.Decode(&s.Endpoint); err != nil {
		s.Stop()
		return nil, fmt.Errorf("the site did not print its endpoint: %w", err)
	}
	return s, nil
}
