package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// site serves three pages that link to each other.
func site(t testing.TB) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/", "/one", "/two":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, `<h1>page %s</h1><a href="/one">1</a> <a href="/two">2</a>`, r.URL.Path)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func config(t testing.TB, seeds ...string) crawl.Config {
	s := crawl.DefaultSettings()
	s.Delay, s.Capacity, s.AllowPrivate = 0, 10_000, true
	return crawl.Config{Dir: filepath.Join(t.TempDir(), "site.crawl"), Seeds: seeds, Settings: s}
}

// handle crawls site, and returns a Handle on the crawl after it has ended.
func handle(t testing.TB) *crawl.Handle {
	c := config(t, site(t))
	if err := crawl.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	h, err := crawl.Attach(t.Context(), c.Location())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// TestRunCallsOnPageOnce: a crawl calls OnPage once for each page. Running it
// again finds nothing more to do.
func TestRunCallsOnPageOnce(t *testing.T) {
	t.Parallel()
	var pages atomic.Int64
	c := config(t, site(t))
	c.OnPage = func(_ context.Context, page *crawl.Page) error {
		if !strings.HasPrefix(page.Document().Find("h1").Text(), "page /") {
			t.Errorf("%s has the heading %q, want one that begins with \"page /\"", page.URL, page.Document().Find("h1").Text())
		}
		pages.Add(1)
		return nil
	}
	for range 2 {
		if err := crawl.Run(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if n := pages.Load(); n != 3 {
		t.Errorf("OnPage was called %d times, want 3", n)
	}
	h, err := crawl.Attach(t.Context(), c.Location())
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	st, err := h.Status(t.Context())
	if err != nil || st.Running || st.Stats.Done != 3 {
		t.Errorf("status %+v, error %v, want 3 done and not running", st, err)
	}
	audit, err := h.Audit(t.Context())
	if err != nil || !audit.Balanced {
		t.Errorf("audit %+v, error %v, want it balanced", audit, err)
	}
	lines := 0
	for _, err := range h.Records(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		lines++
	}
	if lines != 3 {
		t.Errorf("%d records, want 3", lines)
	}
}

// TestRedisSinkNeedsPostgres: a crawl in Redis with its records in Postgres is refused if no
// Postgres is given, and is not created.
func TestRedisSinkNeedsPostgres(t *testing.T) {
	t.Parallel()
	c := config(t, site(t))
	c.Redis = &crawl.Redis{URL: servers.Redis(t, servers.RedisOptions{}).URL(), Name: "x"}
	c.Settings.Sink = "postgres"
	err := crawl.Run(t.Context(), c)
	if e, is := errors.AsType[*crawl.LocationError](err); !is || !e.Postgres {
		t.Errorf("Run: %v, want a LocationError that asks for a Postgres", err)
	}
	if stored, err := crawl.Stored(t.Context(), c.Location()); err != nil || stored != nil {
		t.Errorf("the crawl has the settings %v, %v, want no crawl", stored, err)
	}
}

// TestStatusOfWorker: the status of a crawl in Redis names the workers, even if a worker
// of the crawl answers the call.
func TestStatusOfWorker(t *testing.T) {
	t.Parallel()
	c := config(t)
	c.Redis = &crawl.Redis{URL: servers.Redis(t, servers.RedisOptions{}).URL(), Name: "x"}
	o, err := crawl.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	st, err := o.Status(t.Context())
	if err != nil || !st.Running || st.Progress == nil || st.Shared == nil || len(st.Shared.Workers) != 1 {
		t.Errorf("status %+v, %v, want it running, with the progress of this process and one worker", st, err)
	}
}

// TestHandleIsSafeForConcurrentUse: concurrent calls wait for each other if no process runs
// the crawl.
func TestHandleIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	h := handle(t)
	var calls errgroup.Group
	// This call takes about 11 s. A process waits only handoverTime (10 s) for the lock of the directory.
	calls.Go(func() error {
		_, err := h.Report(t.Context(), 11*time.Second)
		return err
	})
	for range 20 {
		calls.Go(func() error {
			_, err := h.Status(t.Context())
			return err
		})
	}
	if err := calls.Wait(); err != nil {
		t.Error(err)
	}
}

// TestKeptHandle: after Keep, a second Keep has no effect, and the outboxes of the Handle can
// compute their lag. After Close has closed the kept crawl, release returns no error, and the
// outboxes still work.
func TestKeptHandle(t *testing.T) {
	t.Parallel()
	h := handle(t)
	release, err := h.Keep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again, err := h.Keep(t.Context())
	if err != nil {
		t.Fatalf("second Keep: %v", err)
	}
	if err := again(); err != nil {
		t.Errorf("release of the second Keep: %v", err)
	}
	boxes, err := h.Outboxes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer boxes.Close()
	list, err := boxes.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if lag, err := list[0].Lag(ctx, ""); err != nil || lag.Events != 3 {
		t.Errorf("lag %+v, %v, want 3 events", lag, err)
	}
	if err := h.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := release(); err != nil {
		t.Errorf("release after Close: %v", err)
	}
	if lag, err := list[0].Lag(ctx, ""); err != nil || lag.Events != 3 {
		t.Errorf("lag after Close %+v, %v, want 3 events", lag, err)
	}
}

// TestCloseTwice: a second Close does nothing.
func TestCloseTwice(t *testing.T) {
	t.Parallel()
	o, err := crawl.Open(t.Context(), config(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestStopWithEndedContext: if its context has ended, Stop returns the error of the context.
// A nil error would mean that no process ran the crawl.
func TestStopWithEndedContext(t *testing.T) {
	t.Parallel()
	c := config(t, site(t))
	o, err := crawl.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	h, err := crawl.Attach(t.Context(), c.Location())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ran, err := h.Stop(ctx); ran || !errors.Is(err, context.Canceled) {
		t.Errorf("Stop: %v, %v, want the error %v", ran, err, context.Canceled)
	}
}

// TestSeedCountsAreSummed: the report counts the seeds of Config.Seeds and of each Feed.
func TestSeedCountsAreSummed(t *testing.T) {
	t.Parallel()
	c := config(t, site(t))
	c.Settings.MaxDepth = 0
	o, err := crawl.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	first, second := o.Feed(), o.Feed()
	first(crawl.SeedCounts{Added: 2, Seen: 3, All: true})
	second(crawl.SeedCounts{Refused: 4, All: true})
	r, err := o.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := (report.Seeds{Added: 3, Known: 3, Refused: 4}); r.Report.Seeds == nil || *r.Report.Seeds != want {
		t.Errorf("seeds %+v, want %+v", r.Report.Seeds, want)
	}
}

// TestClosedAfterLastFeed: in a crawl that follows no links, Sample.Closed becomes true
// when all seeds of all feeds were added. It stays false if a feed ended early.
func TestClosedAfterLastFeed(t *testing.T) {
	t.Parallel()
	for _, all := range []bool{true, false} {
		c := config(t)
		c.Settings.MaxDepth = 0
		o, err := crawl.Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		closed := func() bool {
			s, err := o.Sample(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return s.Closed
		}
		first, second := o.Feed(), o.Feed()
		first(crawl.SeedCounts{All: all})
		if closed() {
			t.Error("closed while a feed can add seeds, want it open")
		}
		second(crawl.SeedCounts{All: true})
		if closed() != all {
			t.Errorf("closed %t after all feeds, want %t", !all, all)
		}
	}
}

// TestMissingArguments: Export without directories and Migrate without a Postgres return
// errors.
func TestMissingArguments(t *testing.T) {
	t.Parallel()
	_, err := crawl.Export(t.Context(), crawl.Location{Dir: t.TempDir()}, nil, "", io.Discard)
	if _, is := errors.AsType[*crawl.LocationError](err); !is {
		t.Errorf("Export without directories: %v, want a LocationError", err)
	}
	if _, _, err := crawl.Migrate(t.Context(), nil); err == nil {
		t.Error("Migrate without a Postgres returned no error")
	}
}
