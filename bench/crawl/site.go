package crawl

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

	"github.com/bloomfrontier/crawler/bench/report"
	"github.com/bloomfrontier/crawler/bench/site"
	"github.com/bloomfrontier/crawler/bench/testweb"
)

// pageBytes is the mean size of made-up pages.
const pageBytes = 4 << 10

// Site is what is crawled: a made-up web, or a folder of files as one host.
type Site struct {
	Pages, Hosts uint64
	Folder       string // empty: a made-up web

	// Of made-up webs. Zero values are those of package testweb.
	Latency time.Duration // mean until hosts answer, which have lateSpread
	Links   int           // of a page, on average
	Seeds   int           // roots of hosts that a crawl begins with
	TLS     bool
}

// lateSpread is the spread of the log-normal latencies of late hosts.
const lateSpread = 0.8

func (s Site) name() string {
	if s.Folder != "" {
		return "HTML folder"
	}
	return fmt.Sprintf("%s pages, %s hosts", report.Count(s.Pages).Text, report.Count(s.Hosts).Text)
}

// Place is where a site is served.
type Place struct {
	Addr  string   // of the server
	Seeds []string // where a crawl begins
	Any   bool     // the server answers for all hosts, and all of them are the site
	CA    string   // certificate to trust, as PEM; empty: the URLs are http
}

// Serve serves the site that order describes on loopback, prints its Place on
// out, and goes on until in or ctx ends: it is the part of a process of its own,
// whose parent holds in. At the end it prints the testweb.Traffic of a made-up
// web.
func Serve(ctx context.Context, order string, in io.Reader, out io.Writer) error {
	var what Site
	if err := json.Unmarshal([]byte(order), &what); err != nil {
		return fmt.Errorf("serve %q: %w", order, err)
	}
	listener, err := testweb.Listen()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Ends with the process at the latest: a read takes no context.
	go func() { _, _ = io.Copy(io.Discard, in); cancel() }()
	place := Place{Addr: listener.Addr().String()}
	if what.Folder != "" {
		place.Seeds = []string{"http://" + place.Addr + "/"}
		return errors.Join(json.NewEncoder(out).Encode(place), serveFolder(ctx, what.Folder, listener))
	}
	web, err := testweb.New(testweb.Config{Seed: 1, Pages: int(what.Pages), Hosts: int(what.Hosts), MeanBytes: pageBytes,
		MeanLinks: what.Links, Latency: what.Latency, LatencySpread: lateSpread, TLS: what.TLS})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	place.Seeds, place.Any, place.CA = what.seeds(web), true, string(web.CACert())
	lines := json.NewEncoder(out)
	return errors.Join(lines.Encode(place), web.Serve(ctx, listener), lines.Encode(web.Traffic()))
}

// seeds returns where a crawl of a made-up web begins.
func (s Site) seeds(web *testweb.Web) (seeds []string) {
	if s.Seeds == 0 {
		return web.Seeds()
	}
	scheme := "http"
	if s.TLS {
		scheme = "https"
	}
	for name := range web.Hostnames() {
		if len(seeds) == s.Seeds {
			break
		}
		seeds = append(seeds, scheme+"://"+name+"/")
	}
	return seeds
}

func serveFolder(ctx context.Context, folder string, listener net.Listener) error {
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return errors.Join(fmt.Errorf("%q is no folder", folder), err, listener.Close())
	}
	server := &http.Server{Handler: site.Handler(folder), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// served is a site that another process serves.
type served struct {
	Place
	stop func() testweb.Traffic // of a made-up web, else zero
}

// serve starts a process that serves a site.
func (run Program) serve(ctx context.Context, what Site) (*served, error) {
	order, err := json.Marshal(what)
	if err != nil {
		return nil, err
	}
	cmd := run(ctx, "bench", ServeCommand, string(order))
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
	s := &served{stop: sync.OnceValue(func() (traffic testweb.Traffic) {
		_ = in.Close()
		_ = lines.Decode(&traffic)
		_ = cmd.Wait() // its complaints went to stderr
		return traffic
	})}
	if err := lines.Decode(&s.Place); err != nil {
		s.stop()
		return nil, fmt.Errorf("the site told no place: %w", err)
	}
	return s, nil
}
