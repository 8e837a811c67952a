package fetcher_test

import (
	"bytes"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/internal/testweb"
)

var proof = flag.Bool("proof", false, "run the crawls of the test web at full size: 20,000 pages")

// TestWebWithAllHardships crawls the test web without sockets. The records are
// exactly the expected ones, each once, and the delays are checked without a
// tolerance.
func TestWebWithAllHardships(t *testing.T) {
	t.Parallel()
	hosts, pages := fewer(60), fewer(2000)
	if *proof {
		hosts, pages = 200, 20_000
	}
	rng := dice(t)
	for _, atOnce := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			web, err := testweb.New(testweb.Config{
				Seed: rng.Uint64(), Hosts: hosts, Pages: pages, Hardships: testweb.All,
				MeanBytes: 1500, MaxBodyBytes: 128 << 10, CrawlDelay: 3 * time.Second, KeepLog: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			w := newWorldOf(t, nil, frontiertest.MemoryConfig{Delay: time.Second})
			client, err := get.New(get.Config{Transport: handlerWire{web.Handler()}, MaxBodyBytes: 128 << 10})
			if err != nil {
				t.Fatal(err)
			}
			w.wire = &wire{}
			cfg := w.config()
			cfg.Client, cfg.Rules, cfg.HostConcurrency = client, anywhere, atOnce
			w.crawl(cfg, web.Seeds()...)

			report, err := web.Compare(&w.sink.lines)
			if err == nil {
				err = report.Err()
			}
			if err != nil {
				t.Errorf("records: %v", err)
			}
			verdict := web.Judge(web.Log(), testweb.Manners{Delay: time.Second, Tolerance: time.Nanosecond})
			if err := verdict.Err(); err != nil {
				t.Errorf("manners: %v", err)
			}
			if verdict.Refetched > 0 || report.Records != report.Expected {
				t.Errorf("%d refetches, want 0; %d records, want %d", verdict.Refetched, report.Records, report.Expected)
			}
			t.Logf("%d records, %d requests, closest gap %v, outcomes %v", report.Records, verdict.Requests, verdict.Closest, report.Outcomes)
		})
	}
}

// TestWebByTwoWorkers: two workers crawl the test web with one store, whose leases are short
// and whose calls sometimes fail. The records are complete and the delays are kept.
func TestWebByTwoWorkers(t *testing.T) {
	t.Parallel()
	rng := dice(t)
	synctest.Test(t, func(t *testing.T) {
		web, err := testweb.New(testweb.Config{
			Seed: rng.Uint64(), Hosts: fewer(40), Pages: fewer(1000), Hardships: testweb.All &^ testweb.Dead,
			MeanBytes: 1500, MaxBodyBytes: 128 << 10, CrawlDelay: 3 * time.Second, KeepLog: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		w := newWorldOf(t, &wire{}, frontiertest.MemoryConfig{Delay: time.Second, LeaseTTL: 20 * time.Second})
		client, err := get.New(get.Config{Transport: handlerWire{web.Handler()}, MaxBodyBytes: 128 << 10})
		if err != nil {
			t.Fatal(err)
		}
		cfg := w.config()
		cfg.Client, cfg.Rules = client, anywhere
		cfg.Politeness.DeadAfter = 0 // a working host may fail often in a row
		w.seed(w.worker(cfg), web.Seeds()...)
		cfg.Store = frontiertest.NewFaulty(w.store, frontiertest.Random(rng.Uint64(), 0.02, 100*time.Millisecond))
		w.crawlByTwo(cfg, web)
	})
}

// crawlByTwo crawls web with two workers and checks their records and delays.
func (w *world) crawlByTwo(cfg config, web *testweb.Web) {
	w.t.Helper()
	ends := make(chan error, 2)
	for range 2 {
		crawl := w.worker(cfg)
		go func() {
			_, err := crawl.Run(w.t.Context())
			ends <- err
		}()
	}
	for range 2 {
		if err := <-ends; err != nil {
			w.t.Error(err)
		}
	}
	w.balanced()
	report, err := web.Compare(&w.sink.lines)
	if err == nil {
		err = report.Err()
	}
	if err != nil {
		w.t.Errorf("records: %v", err)
	}
	verdict := web.Judge(web.Log(), testweb.Manners{Delay: time.Second, Tolerance: time.Nanosecond})
	if verdict.TooEarly+verdict.Disallowed+verdict.Unannounced+verdict.Unknown+verdict.Trapped > 0 {
		w.t.Errorf("manners: %v", verdict.Err())
	}
}

// handlerWire answers by calling a handler.
type handlerWire struct{ handler http.Handler }

func (h handlerWire) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	in := httptest.NewRequestWithContext(r.Context(), http.MethodGet, "http://"+r.URL.Host+"/", nil)
	in.RequestURI, in.Header, in.RemoteAddr = r.URL.Opaque, r.Header, ""
	out := httptest.NewRecorder()
	defer func() {
		switch fault := recover(); {
		case fault == nil:
		case fault != http.ErrAbortHandler:
			panic(fault)
		case out.Body.Len() == 0:
			answer, err = nil, errBroken
		default:
			answer = out.Result()
			answer.Body = io.NopCloser(io.MultiReader(bytes.NewReader(out.Body.Bytes()), brokenReader{}))
		}
	}()
	h.handler.ServeHTTP(out, in)
	if r.Context().Err() != nil {
		return nil, r.Context().Err()
	}
	if !strings.HasPrefix(in.RequestURI, "/") {
		return nil, errBroken
	}
	return out.Result(), nil
}
