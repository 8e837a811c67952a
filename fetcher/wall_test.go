package fetcher_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
)

// challenge is the answer of a wall.
func challenge() reply { return challenged(403) }

func challenged(status int) reply {
	return reply{status: status, header: map[string]string{"Cf-Mitigated": "challenge"}, body: "<title>Just a moment...</title>"}
}

// onlyBlocked implements fetcher.Config.OnlyBlocked for the store of the world.
func (w *world) onlyBlocked(ctx context.Context) (bool, error) {
	only, hosts := true, 0
	err := w.store.Hosts(ctx, frontier.HostQuery{}, func(h frontier.HostState) bool {
		why, err := fetcher.BlockOf(h.Blob)
		if err != nil {
			w.t.Error(err)
		}
		hosts++
		only = only && why != "" && h.Leased == 0
		return true
	})
	return only && hosts > 0, err
}

// requests returns the times of the requests for pages of a host, in order.
func (w *wire) requests(host string) (at []time.Time) {
	for _, c := range w.log() {
		if c.host == host && !c.robots() {
			at = append(at, c.start)
		}
	}
	return at
}

// TestWallIsNotADeadPage: a host that a wall blocks after 50 pages, beside one with 50 pages that are
// really forbidden. The wall uses up no attempt, and is asked after 10 min and 1 h. When it has fallen,
// every page is fetched.
func TestWallIsNotADeadPage(t *testing.T) {
	t.Parallel()
	late := challenge() // four requests are under way at once
	late.wait = 10 * time.Second
	for _, test := range []struct {
		atOnce, before int // requests at once, and before the wall comes
		wall           reply
	}{{1, 51, challenge()}, {4, 51, challenge()}, {1, 58, challenge()}, {1, 59, challenge()}, {1, 60, challenge()}, {1, 50, challenged(429)}, {4, 51, late}} {
		atOnce, before := test.atOnce, test.before
		t.Run(fmt.Sprintf("%d at once, %d before, status %d, %v", atOnce, before, test.wall.status, test.wall.wait), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				served, fallen := 0, time.Now().Add(40*time.Minute)
				wire := &wire{}
				wire.answer = func(r *http.Request, url string, _ int) (reply, bool) {
					switch {
					case strings.HasSuffix(url, "/robots.txt"):
						return status(404), true
					case strings.HasSuffix(url, "/start"):
						return links(numbered(r.URL.Hostname(), 100)...), true
					case r.URL.Hostname() == "real.test" && r.URL.Opaque > "/5":
						return reply{status: 403, body: "<title>403 Forbidden</title>"}, true
					case r.URL.Hostname() == "wall.test":
						wire.mu.Lock()
						served++
						walled := served > before && time.Now().Before(fallen)
						wire.mu.Unlock()
						if walled {
							return test.wall, true
						}
					}
					return reply{}, true
				}
				w := newWorld(t, wire)
				cfg := w.config()
				cfg.HostConcurrency, cfg.Politeness.LatencyFactor = atOnce, 0
				w.crawl(cfg, "http://wall.test/start", "http://real.test/start")
				outcomes := map[string]map[string]int{"wall.test": {}, "real.test": {}}
				for _, r := range w.sink.records {
					outcomes[r.Host][r.Outcome]++
					if r.Attempts != 1 {
						t.Errorf("%s: %d attempts, want 1", r.URL, r.Attempts)
					}
				}
				if n := outcomes["wall.test"]["ok"]; n != 101 || outcomes["real.test"]["client_error"] < 40 || outcomes["real.test"]["blocked"] > 0 {
					t.Errorf("outcomes %v, want 101 pages of wall.test, and real.test refused", outcomes)
				}
				at := wire.requests("wall.test")
				begun := slices.IndexFunc(at[1:], func(next time.Time) bool { return next.Sub(at[slices.Index(at, next)-1]) > 5*time.Minute })
				if most := before + 5 + atOnce; begun+1 < before+5 || begun+1 > most {
					t.Fatalf("the first long pause came after %d requests, want %d to %d", begun+1, before+5, most)
				}
				for i, pause := range []time.Duration{10 * time.Minute, time.Hour} {
					before, next := at[begun+i], at[begun+i+1]
					if got := next.Sub(before); got < pause || got > pause+time.Minute {
						t.Errorf("pause %d of the blocked host is %v, want %v", i, got, pause)
					}
				}
			})
		})
	}
}

// TestWallOfOnePage: a page for which a server demands money, also if it is the last one, does not block a
// host with other pages. Its attempts are used up.
func TestWallOfOnePage(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/7", "/19"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, &wire{answer: func(_ *http.Request, url string, _ int) (reply, bool) {
				if strings.HasSuffix(url, "/start") {
					return links(numbered("a.test", 20)...), true
				}
				return status(http.StatusPaymentRequired), strings.HasSuffix(url, path)
			}})
			cfg := w.config()
			cfg.OnlyBlocked = w.onlyBlocked
			handed := 0
			cfg.OnAnswer = func(_ context.Context, answer *fetcher.Answer) error {
				if answer.URL.String() != "http://a.test"+path || answer.Outcome != frontier.Blocked || answer.Status != 402 {
					t.Errorf("OnAnswer got %s, %s, %d, want %s, blocked, 402", answer.URL, answer.Outcome, answer.Status, path)
				}
				handed++
				return nil
			}
			w.crawl(cfg, "http://a.test/start")
			if handed != 1 {
				t.Errorf("OnAnswer was called %d times, want 1", handed)
			}
			r := w.sink.recordOf(t, "http://a.test"+path)
			if want := "wall: payment (status 402)"; r.Outcome != "blocked" || r.Error != want || r.Attempts != 4 || r.Status != 402 {
				t.Errorf("outcome %s, %q, status %d after %d attempts, want blocked, %q, 402, 4", r.Outcome, r.Error, r.Status, r.Attempts, want)
			}
			stats := w.stats()
			if stats.Done != 20 || stats.Failed != 1 || stats.Pages != 20 {
				t.Errorf("%d done, %d failed, %d pages, want 20, 1 and 20: a wall is no page", stats.Done, stats.Failed, stats.Pages)
			}
			if stats.Causes["blocked_payment"] != 4 || len(stats.Causes) != 1 {
				t.Errorf("causes %v, want blocked_payment four times", stats.Causes)
			}
		})
	}
}

// TestOnlyBlockedHosts: a crawl ends when only blocked hosts have URLs. These stay queued, without an
// attempt. A second run requests nothing before the time of the next try, and continues after it.
func TestOnlyBlockedHosts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		answer func(url string) reply
		pages  int // requests for pages in the first run
		robots int
	}{
		{"a page", func(url string) reply {
			if strings.HasSuffix(url, "/robots.txt") {
				return status(404)
			}
			return challenge()
		}, 5, 1},
		{"robots.txt", func(string) reply { return challenge() }, 0, 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				wall := true
				w := newWorld(t, &wire{answer: func(_ *http.Request, url string, _ int) (reply, bool) {
					return test.answer(url), wall && strings.HasPrefix(url, "http://a.test/")
				}})
				cfg := w.config()
				cfg.OnlyBlocked = w.onlyBlocked
				w.crawlTo(fetcher.Blocked, cfg, "http://a.test/", "http://b.test/")
				if pages, robots := len(w.wire.requests("a.test")), w.wire.count("http://a.test/robots.txt"); pages != test.pages || robots != test.robots {
					t.Errorf("%d requests for the page and %d for robots.txt, want %d and %d", pages, robots, test.pages, test.robots)
				}
				err := w.store.List(t.Context(), frontier.Queued, "", func(it frontier.Item) bool {
					if it.URL != "http://a.test/" || it.Attempts+it.Deliveries > 0 {
						t.Errorf("%s is queued after %d attempts and %d deliveries, want a.test after none", it.URL, it.Attempts, it.Deliveries)
					}
					return true
				})
				if stats := w.stats(); err != nil || stats.Queued != 1 || stats.Done != 1 {
					t.Errorf("%v, %d queued, %d done, want 1 and 1", err, stats.Queued, stats.Done)
				}
				before := len(w.wire.log())
				w.crawlTo(fetcher.Blocked, cfg)
				if n := len(w.wire.log()); n != before {
					t.Errorf("the second run made %d requests, want none", n-before)
				}
				time.Sleep(10 * time.Minute)
				w.crawlTo(fetcher.Blocked, cfg)
				if n := len(w.wire.log()); n != before+1 {
					t.Errorf("after 10 minutes a run made %d requests, want 1", n-before)
				}
				wall = false
				time.Sleep(time.Hour)
				w.crawl(cfg)
				if r := w.sink.recordOf(t, "http://a.test/"); r.Outcome != "ok" || r.Attempts != 1 {
					t.Errorf("outcome %s after %d attempts, want ok after 1", r.Outcome, r.Attempts)
				}
			})
		})
	}
}

// TestWallOfRobotsElsewhere: a robots.txt that redirects to a wall of another host counts as unreachable. It
// cannot block the host.
func TestWallOfRobotsElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://a.test/robots.txt": redirect("http://b.test/robots.txt"), "http://b.test/robots.txt": challenge(),
		}))
		w.crawl(w.config(), "http://a.test/")
		r := w.sink.recordOf(t, "http://a.test/")
		if r.Outcome != "blocked" || !strings.HasPrefix(r.Error, "robots.txt: 4 attempts failed: wall: challenge") || w.wire.count("http://a.test/") > 0 {
			t.Errorf("outcome %s, %q, %d requests for the page; want blocked by the wall of robots.txt, 0 requests", r.Outcome, r.Error, w.wire.count("http://a.test/"))
		}
	})
}
