// Package crawltest runs crawls of package crawl in memory, for tests of the functions that a program gives to a crawl: of
// OnPage, OnAnswer, OnRefused and WrapTransport, and of its settings.
//
// It owns the web, which is a handler for each host, and the place of the crawl, which is memory. All else is what a crawl
// does: canonical URLs, rules, robots.txt, redirects, parsing, records. No file is written, no connection is made and no
// name is looked up.
package crawltest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"time"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/fetcher/record"
)

// Web is the sites of a crawl: a handler for each host key, such as "a.test" or "a.test:8080", which answers http and
// https. The handler of "*" answers for all other hosts. A host without a handler does not exist. A host whose handler
// answers /robots.txt with 404, as http.ServeMux does, allows everything.
type Web map[string]http.Handler

// Result is what a crawl has done.
type Result struct {
	*crawl.Result
	Records []*record.Record // of finished URLs, in the order in which they were finished
}

// Run crawls web from config.Seeds in memory, as crawl.Run does, and returns the same errors, with the Result if the crawl
// has run.
//
// Nothing waits: the settings about delays, back-offs and rates do not count (Delay, LatencyFactor, MaxCrawlDelay,
// Backoff, BackoffMax, DomainRate, Rate), nor do those about the network (AllowPrivate, AllowNet, ConnectTo, DNS, Proxy)
// and files (Sink, Save, Links, RotateBytes). Dir, Redis, Postgres and Events must not be set. config.Logger is nil
// for none.
func Run(ctx context.Context, config crawl.Config, web Web) (*Result, error) {
	if config.Dir != "" || config.Redis != nil || config.Postgres != nil || config.Events != nil {
		return nil, errors.New("crawltest: Dir, Redis, Postgres or Events is set, want none: the crawl is in memory")
	}
	place := newPlace()
	opened, err := crawl.Open(engine.WithPlace(ctx, place), inMemory(config, web))
	if err != nil {
		return nil, err
	}
	ran, err := opened.Run(ctx)
	if ran != nil {
		err = errors.Join(err, ran.Err())
	}
	return &Result{ran, place.records}, errors.Join(err, opened.Close())
}

// settingsOf returns the settings of config, or their defaults if there are none.
func settingsOf(config crawl.Config) crawl.Settings {
	if reflect.ValueOf(config.Settings).IsZero() {
		return crawl.DefaultSettings()
	}
	return config.Settings
}

// inMemory returns config with the settings that Run documents.
func inMemory(config crawl.Config, web Web) crawl.Config {
	s := settingsOf(config)
	s.Delay, s.LatencyFactor, s.MaxCrawlDelay, s.DomainRate, s.Rate = 0, 0, 0, 0, 0
	s.Backoff, s.BackoffMax = time.Millisecond, time.Millisecond
	s.AllowPrivate, s.ConnectTo, s.DNS, s.Proxy, s.ProxyHTTP = true, nil, "", "", "tunnel"
	s.Sink, s.Save, s.Links = "jsonl", "none", false
	config.Settings = s
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	wrap := config.WrapTransport
	config.WrapTransport = func(http.RoundTripper) http.RoundTripper {
		if wrap == nil {
			return web
		}
		return wrap(web)
	}
	return config
}
