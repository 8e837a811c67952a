package serve_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
	"github.com/bloomfrontier/crawler/serve"
)

// redisConfig returns the Config of a Server of crawls in a new Redis.
func redisConfig(t *testing.T, db *crawl.Postgres) serve.Config {
	cfg := config(t)
	cfg.Settings.Partitions = 4
	cfg.Redis, cfg.Postgres = &crawl.Redis{URL: servers.Redis(t, servers.RedisOptions{AppendOnly: true}).URL()}, db
	if db != nil {
		cfg.Settings.Sink = "postgres"
	}
	return cfg
}

// work runs a worker of a crawl until the crawl has nothing to fetch.
func work(t *testing.T, cfg serve.Config, name string) {
	t.Helper()
	r := *cfg.Redis
	r.Name = name
	s := crawl.DefaultSettings()
	s.AllowPrivate = true
	if err := crawl.Run(t.Context(), crawl.Config{Dir: t.TempDir(), Redis: &r, Postgres: cfg.Postgres, Settings: s}); err != nil && !errors.Is(err, crawl.ErrStopped) {
		t.Fatal(err)
	}
}

// TestCrawlInRedis: a Server controls a crawl in Redis that a worker runs, from its creation to its deletion. Its records are read if
// they are in Postgres.
func TestCrawlInRedis(t *testing.T) {
	t.Parallel()
	for _, rows := range []bool{false, true} {
		t.Run(fmt.Sprintf("rows=%t", rows), func(t *testing.T) {
			t.Parallel()
			var db *crawl.Postgres
			if rows {
				db = &crawl.Postgres{URL: servers.Postgres(t, servers.PostgresOptions{}).DSN()}
			}
			controlInRedis(t, redisConfig(t, db))
		})
	}
}

func controlInRedis(t *testing.T, cfg serve.Config) {
	s, web := start(t, cfg), site(t)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	s.create("shop", "max-depth=3", "retries=0", "backoff=1ms")
	if got := s.status("shop"); got.State != serve.Finished || !got.Run {
		t.Errorf("a new crawl is %+v", got.Summary)
	}
	seeds := s.ask("POST", "/v1/crawls/shop/seeds", "s1", `{"seeds":["`+web+`/0","`+web+`/missing","`+web+`/0#again","`+closed.URL+`"]}`).want(t, 200)
	if !strings.Contains(seeds.body, `"added":3,"seen":1,"refused":0`) {
		t.Errorf("seeds: %s", seeds.body)
	}
	if got := s.status("shop"); got.State != serve.Waiting || got.Status.Stats.Queued != 3 {
		t.Errorf("without a worker, the crawl is %s with %d queued URLs", got.State, got.Status.Stats.Queued)
	}
	s.ask("PATCH", "/v1/crawls/shop/settings", "p1", `{"settings":["max-depth=2"]}`).want(t, 200)
	work(t, cfg, "shop")
	status := s.status("shop")
	if status.State != serve.Finished || status.Status.Stats.Pages != 4 { // depth 0 to 2, and the missing one
		t.Errorf("after the worker, the crawl is %+v", status)
	}
	for _, path := range []string{"/hosts", "/report", "/settings", "/settings/history", "/explain?url=" + web + "/1"} {
		s.ask("GET", "/v1/crawls/shop"+path, "", "").want(t, 200)
	}
	records := s.ask("GET", "/v1/crawls/shop/records", "", "")
	latest := s.ask("GET", "/v1/crawls/shop/records/latest", "", "")
	if cfg.Postgres == nil {
		records.problem(t, "records-elsewhere").want(t, 409)
		latest.problem(t, "records-elsewhere").want(t, 409)
	} else {
		var page serve.Records
		if records.want(t, 200, &page); len(page.Records) != 5 || strings.Count(latest.want(t, 200).body, "\n") != 5 {
			t.Errorf("%d records, and the latest ones are\n%s", len(page.Records), latest.body)
		}
	}
	to, count := receiver(t)
	hook := s.ask("PUT", "/v1/crawls/shop/webhooks/main", "", `{"url":"`+to+`","secret":"`+webhookSecret+`"}`)
	if cfg.Postgres == nil {
		hook.problem(t, "records-elsewhere")
	} else {
		hook.want(t, 200)
		awaitCount(t, 5, count)
	}
	s.ask("POST", "/v1/crawls/shop/drops", "d1", `{"rule":"host=other.test"}`).want(t, 200)
	if got := s.ask("POST", "/v1/crawls/shop/retries", "r1", `{}`).want(t, 200); !strings.Contains(got.body, `"urls":1`) {
		t.Errorf("retry: %s", got.body)
	}
	s.ask("POST", "/v1/crawls/shop/pause", "pause", "").want(t, 200)
	s.ask("POST", "/v1/crawls/shop/stop", "stop", "").want(t, 200)
	s.end()
	s = start(t, cfg)
	if got := s.status("shop"); got.State != serve.Stopped || got.Run || !got.Status.Stats.Paused {
		t.Errorf("after a new start, the crawl is %+v", got.Summary)
	}
	again := s.ask("POST", "/v1/crawls/shop/seeds", "s1", `{"seeds":["`+web+`/0","`+web+`/missing","`+web+`/0#again","`+closed.URL+`"]}`).want(t, 200)
	if again.body != seeds.body || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("after a new start, a replay is %s, want %s", again.body, seeds.body)
	}
	s.ask("DELETE", "/v1/crawls/shop", "gone", "").want(t, 204)
	s.ask("DELETE", "/v1/crawls/shop", "gone", "").want(t, 204)
	s.ask("GET", "/v1/crawls/shop", "", "").problem(t, "no-crawl")
	if listed, _, err := crawl.List(t.Context(), *cfg.Redis); err != nil || len(listed) != 0 {
		t.Errorf("after the deletion, Redis has %v, %v", listed, err)
	}
}

// TestStopsWorkers: stop ends a worker that runs elsewhere, as a signal does, and delete does so, too.
func TestStopsWorkers(t *testing.T) {
	t.Parallel()
	cfg := redisConfig(t, nil)
	s := start(t, cfg)
	s.create("web", "delay=1h")
	s.ask("POST", "/v1/crawls/web/seeds", "s", `{"seeds":["`+site(t)+`/0"]}`).want(t, 200)
	for _, end := range []struct{ method, path string }{{"POST", "/v1/crawls/web/stop"}, {"DELETE", "/v1/crawls/web"}} {
		var working sync.WaitGroup
		working.Go(func() { work(t, cfg, "web") })
		s.await("web", func(c serve.CrawlStatus) bool { return c.State == serve.Running })
		if got := s.ask(end.method, end.path, "end-"+end.method, ""); got.status > 299 {
			t.Errorf("%s %s: %d %s", end.method, end.path, got.status, got.body)
		}
		working.Wait()
	}
}

// TestOneServerForRedis: a second Server waits for the lease. If the first one is killed, the second one begins a new term, and
// the first can store nothing any more.
func TestOneServerForRedis(t *testing.T) {
	t.Parallel()
	cfg := redisConfig(t, nil)
	s := start(t, cfg)
	s.create("web")
	other := cfg
	other.Root = t.TempDir()
	begun := time.Now()
	if _, err := serve.New(t.Context(), other); !errors.Is(err, serve.ErrLeaseHeld) {
		t.Errorf("a second Server: %v, want ErrLeaseHeld", err)
	}
	if took := time.Since(begun); took < 15*time.Second {
		t.Errorf("the second Server waited for %v, want more than a lease", took)
	}
	other.Root = cfg.Root
	if _, err := serve.New(t.Context(), other); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a second Server with the same root: %v", err)
	}
	serve.TakeLease(t, cfg) // as the next Server does after a crash
	for path, body := range map[string]string{"/web/seeds": `{"seeds":["http://a.test/"]}`, "/web/uploads": "http://a.test/", "": `{"name":"new"}`} {
		if r, err := s.send("POST", "/v1/crawls"+path, "k", strings.NewReader(body)); err == nil && r.status != 503 { // or it has ended
			t.Errorf("%s after the lease was lost: %d %s", path, r.status, r.body)
		}
	}
	s.lost()
	if listed, _, err := crawl.List(t.Context(), *cfg.Redis); err != nil || len(listed) != 1 || listed[0].Queued != 0 {
		t.Errorf("after that, Redis has %+v, %v", listed, err)
	}
}

// TestSharedHosts: the status of a crawl names hosts from which another crawl fetches, too.
func TestSharedHosts(t *testing.T) {
	t.Parallel()
	s := start(t, redisConfig(t, nil))
	for _, name := range []string{"one", "two"} {
		s.create(name)
		s.ask("POST", "/v1/crawls/"+name+"/seeds", "s", `{"seeds":["http://both.test/","http://`+name+`.test/"]}`).want(t, 200)
	}
	for name, other := range map[string]string{"one": "two", "two": "one"} {
		got := s.await(name, func(c serve.CrawlStatus) bool { return len(c.SharedHosts) > 0 })
		if h := got.SharedHosts; len(h) != 1 || h[0].Host != "both.test" || len(h[0].Crawls) != 1 || h[0].Crawls[0] != other {
			t.Errorf("crawl %s shares %+v", name, h)
		}
	}
}

// TestStoreChecksTerm: a write of a Server fails if another term has begun, even if the Server has not noticed it.
func TestStoreChecksTerm(t *testing.T) {
	t.Parallel()
	if err := serve.StoreAfterLease(t, redisConfig(t, nil)); !errors.Is(err, serve.ErrLeaseLost) {
		t.Errorf("a write in an old term: %v, want ErrLeaseLost", err)
	}
}

// TestRedisAway: while Redis is away, requests get 503 and have no effect, and the Server is not ready. Then repeats have their effect.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	server := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
	cfg.Redis = &crawl.Redis{URL: server.URL()}
	s := start(t, cfg)
	s.create("web")
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	requests := []struct{ path, body string }{
		{"/v1/crawls", `{"name":"other"}`}, {"/v1/crawls/web/seeds", `{"seeds":["http://a.test/"]}`}, {"/v1/crawls/web/uploads", "http://b.test/"},
		{"/v1/crawls/web/pause", ""},
	}
	for _, r := range requests {
		if got := s.ask("POST", r.path, "k", r.body).want(t, 503); got.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", r.path)
		}
	}
	s.ask("GET", "/v1/crawls/web", "", "").problem(t, "unavailable").want(t, 503)
	s.ask("GET", "/readyz", "", "").want(t, 503)
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		got := s.ask("POST", r.path, "k", r.body)
		for end := time.Now().Add(30 * time.Second); got.status == 503 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			got = s.ask("POST", r.path, "k", r.body)
		}
		if got.status > 299 {
			t.Errorf("%s after Redis is back: %d %s", r.path, got.status, got.body)
		}
	}
	s.ask("GET", "/readyz", "", "").want(t, 200)
	if got := s.status("web"); got.Status.Stats.Added != 2 || !got.Status.Stats.Paused {
		t.Errorf("the crawl has %+v", got.Status.Stats)
	}
}

// TestSeedsAreGuarded: seeds at addresses that crawls may not request are refused, also while this process does not run the crawl.
func TestSeedsAreGuarded(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("redis=%t", shared), func(t *testing.T) {
			t.Parallel()
			cfg := config(t)
			if shared {
				cfg = redisConfig(t, nil)
			}
			cfg.Settings.AllowPrivate, cfg.Settings.AllowPorts = false, []uint16{1}
			s := start(t, cfg)
			s.ask("POST", "/v1/crawls", "c", `{"name":"web","run":false}`).want(t, 201)
			var seeds serve.Seeds
			s.ask("POST", "/v1/crawls/web/seeds", "s", `{"seeds":["http://10.0.0.1/","http://localhost/","http://[::ffff:127.0.0.1]/",
				"http://[64:ff9b::7f00:1]/","http://127.1/","http://198.51.100.1:25/","http://192.88.99.1/","http://8.8.8.8:1/"]}`).want(t, 200, &seeds)
			if seeds.Added != 1 || seeds.Refused != 7 || seeds.Answers[7].Answer != "added" {
				t.Errorf("seeds: %+v, want only the last one added", seeds)
			}
			s.ask("POST", "/v1/crawls/web/uploads", "u", "http://10.0.0.1/x\n").want(t, 200, &seeds)
			if seeds.Refused != 1 {
				t.Errorf("upload: %+v, want a refused line", seeds)
			}
		})
	}
}
