package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// sharedVisits is a crawl in Redis and Postgres that visits its pages again.
type sharedVisits struct {
	t     *testing.T
	dir   string
	named []string
	more  []string
}

const visitedPages = 31

func newSharedVisits(t *testing.T, rows bool) *sharedVisits {
	var answers atomic.Int64
	site := listen(t, func(l net.Listener) error {
		return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			for n := range visitedPages - 1 {
				fmt.Fprintf(w, `<a href="http://h%d.test/%d">x</a>`, n%6, n)
			}
			if r.URL.Path == "/1" {
				fmt.Fprint(w, answers.Add(1))
			}
		}))
	})
	c := &sharedVisits{t: t, dir: t.TempDir(), named: []string{
		"--redis", servers.Redis(t, servers.RedisOptions{}).URL(), "--name", "x", "--postgres", servers.Postgres(t, servers.PostgresOptions{}).DSN(),
	}}
	c.more = []string{"--urls", "1000", "--partitions", "4", "--delay", "0", "--domain-rate", "0", "--robots", "ignore", "--allow-private", "--quiet",
		"--connect-to", "*.test=" + site, "--scope", "any", "--lease-time", "3s", "--recrawl", "1s", "--recrawl-every", "1s..3s"}
	if rows {
		c.more = append(c.more, "--sink", "postgres")
	}
	return c
}

// worker starts a worker. The returned channel receives the error with which it ended.
func (c *sharedVisits) worker(name string, flags ...string) (*exec.Cmd, <-chan error) {
	c.t.Helper()
	args := append([]string{"crawl", "--dir", filepath.Join(c.dir, name)}, append(append(c.named, c.more...), flags...)...)
	cmd := exec.Command("crawler", append(args, "http://seed.test/")...)
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = cmd.Process.Kill() })
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		if failed, is := errors.AsType[*exec.ExitError](err); is && failed.ExitCode() == 2 {
			c.t.Errorf("%q: %v\n%s", cmd.Args, err, &said)
		}
		ended <- err
	}()
	return cmd, ended
}

func (c *sharedVisits) run(args ...string) (string, error) {
	out, err := exec.Command("crawler", append(append(args, "--dir", c.dir), c.named...)...).CombinedOutput()
	return string(out), err
}

func (c *sharedVisits) must(args ...string) string {
	c.t.Helper()
	out, err := c.run(args...)
	if err != nil {
		c.t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return out
}

type sharedStatus struct {
	Stats struct {
		Outcomes map[string]uint64
	}
	Visits struct{ Pages, Visits, Unchanged, Changed, Queued, Purged int64 }
}

func (c *sharedVisits) status() (st sharedStatus) {
	c.t.Helper()
	if out, err := c.run("status", "--json"); err == nil {
		if err := json.Unmarshal([]byte(out), &st); err != nil {
			c.t.Fatalf("%v: %s", err, out)
		}
	}
	return st
}

// await waits until the status is as a function wants it.
func (c *sharedVisits) await(what string, is func(sharedStatus) bool) sharedStatus {
	c.t.Helper()
	for begun := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		st := c.status()
		if is(st) {
			return st
		}
		if time.Since(begun) > time.Minute {
			c.t.Fatalf("not %s: %+v", what, st)
		}
	}
}

// check is rounds after an audit.
func (c *sharedVisits) check(after string) int {
	c.t.Helper()
	c.must("status", "--audit")
	return c.rounds(after)
}

// rounds returns the last round of the page whose round is the lowest. No page may have two records of a round.
func (c *sharedVisits) rounds(after string) int {
	c.t.Helper()
	last, seen := make(map[string]int), make(map[string]bool)
	for line := range strings.Lines(c.must("output", "--all-rounds", "--columns", "url,round")) {
		var r struct {
			URL   string
			Round int
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			c.t.Fatal(err)
		}
		if key := fmt.Sprint(r.URL, " ", r.Round); seen[key] {
			c.t.Fatalf("after %s: there are two records of %s", after, key)
		} else {
			seen[key] = true
		}
		last[r.URL] = max(last[r.URL], r.Round)
	}
	least := 1 << 30
	for _, round := range last {
		least = min(least, round)
	}
	if len(last) != visitedPages {
		return 0
	}
	return least
}

// TestRevisitSharedKilled kills workers that share a crawl and visit its pages again, at each of their steps, while another worker goes on.
// Every page is visited again, no page has two records of a round, and the audit is clean.
func TestRevisitSharedKilled(t *testing.T) {
	t.Parallel()
	sinks, last := map[string]bool{"files": false, "rows": true}, "25s"
	points := []string{"visits begun", "visits added", "visits added committed", "visits due", "visits offered", "visits queued",
		"visits queued committed", "leased", "recorded", "finished", "completed"}
	if testing.Short() {
		delete(sinks, "rows")
		points, last = []string{"visits offered", "recorded", "finished"}, "12s"
	}
	for name, rows := range sinks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newSharedVisits(t, rows)
			_, ended := c.worker("w1", "--max-time", "4s")
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			c.must("set", "recrawl=2s") // the next leader has a plan to begin
			c.more = append(c.more, "--recrawl", "2s")
			for i, point := range points {
				nth := 1 + i%2
				switch point {
				case "visits begun":
					nth = 1
				case "leased", "recorded", "finished", "completed":
					nth = 12 // among later visits
				}
				flags := []string{"--max-time", "40s", "--crash-at", fmt.Sprintf("%s:%d", point, nth)}
				one, oneEnded := c.worker("w1", flags...)
				two, twoEnded := c.worker("w2", flags...)
				var err error
				select {
				case err = <-oneEnded:
					_ = two.Process.Kill()
					<-twoEnded
				case err = <-twoEnded:
					_ = one.Process.Kill()
					<-oneEnded
				}
				if err == nil {
					t.Errorf("no worker reached the crash point %q", point)
				}
				c.rounds(point)
			}
			before := c.rounds("the kills")
			_, one := c.worker("w1", "--max-time", last)
			_, two := c.worker("w2", "--max-time", last)
			for _, ended := range []<-chan error{one, two} {
				if err := <-ended; err != nil {
					t.Errorf("a worker after the kills: %v", err)
				}
			}
			if least := c.check("the last run"); least <= before {
				t.Errorf("in the last run some pages were not visited again: the lowest round is %d, before %d", least, before)
			}
			st := c.status()
			if v := st.Visits; v.Pages != visitedPages || v.Unchanged == 0 || v.Changed == 0 || v.Visits < v.Unchanged+v.Changed {
				t.Errorf("the status says %+v", st)
			}
			t.Logf("%+v", st)
		})
	}
}

// TestRevisitSuspended suspends the worker that queues what is due. Another one takes over. After the first one goes on, both do so for some time,
// and no page has two records of a round.
func TestRevisitSuspended(t *testing.T) {
	t.Parallel()
	c := newSharedVisits(t, false)
	first, one := c.worker("w1")
	c.await("visited by the first worker", func(st sharedStatus) bool { return st.Visits.Visits > visitedPages })
	_, two := c.worker("w2")
	rounds := 2
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		time.Sleep(5 * time.Second) // both have hosts
		before := c.status().Visits.Visits
		if err := first.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		c.await("visited by the second worker", func(st sharedStatus) bool { return st.Visits.Visits > before+visitedPages })
		if err := first.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		before = c.status().Visits.Visits
		c.await("visited by both", func(st sharedStatus) bool { return st.Visits.Visits > before+2*visitedPages })
	}
	c.must("stop")
	<-one
	<-two
	if least := c.check("the suspension"); least < 2*rounds {
		t.Errorf("the lowest round is %d", least)
	}
	t.Logf("%+v", c.status())
}

// TestRevisitSharedBegins: a crawl in Redis that has ended begins to visit its pages again after `crawler set`: its worker reads its records
// once. Without Postgres this is refused.
func TestRevisitSharedBegins(t *testing.T) {
	t.Parallel()
	c := newSharedVisits(t, false)
	c.more = c.more[:len(c.more)-4]
	_, ended := c.worker("w1")
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	c.must("set", "recrawl=1s", "recrawl-every=1s..2s", "max-pages=10")
	_, ended = c.worker("w1")
	c.await("visited again", func(st sharedStatus) bool {
		return st.Visits.Pages == visitedPages && st.Visits.Unchanged > 3*visitedPages
	})
	c.must("set", "recrawl=off")
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the crawl ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the crawl does not end although recrawl is off")
	}
	c.check("the end")
	alone := exec.Command("crawler", "crawl", c.named[0], c.named[1], "--name", "y", "--recrawl", "7d", "http://seed.test/")
	alone.Dir = c.dir
	if out, err := alone.CombinedOutput(); err == nil || !strings.Contains(string(out), "add --postgres") {
		t.Errorf("without Postgres: %v, %s", err, out)
	}
}

// TestRevisitSharedMaxPages: --max-pages limits the pages, not their visits, and a higher one lets more pages in.
func TestRevisitSharedMaxPages(t *testing.T) {
	t.Parallel()
	c := newSharedVisits(t, false)
	_, ended := c.worker("w1", "--max-pages", "5")
	c.await("visited again at the limit", func(st sharedStatus) bool { return st.Visits.Pages == 5 && st.Visits.Visits > 15 })
	c.must("set", "max-pages=8")
	c.await("visited at the higher limit", func(st sharedStatus) bool { return st.Visits.Pages == 8 && st.Visits.Visits > 40 })
	c.must("stop")
	<-ended
	c.must("status", "--audit")
	if out := c.must("output", "--columns", "url"); strings.Count(out, "\n") != 8 {
		t.Errorf("the records have these pages, want 8:\n%s", out)
	}
}
