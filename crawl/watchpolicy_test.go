package crawl

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestConfirmation: a policy may be obeyed for 4 s after the question for the newest one, and requests that wait are told
// when it is confirmed again.
func TestConfirmation(t *testing.T) {
	var c confirmation
	waits := c.opening()
	if waits == nil {
		t.Fatal("a policy that was never confirmed may be obeyed")
	}
	c.extend(sinceBoot() - policyTime)
	select {
	case <-waits:
		t.Error("a policy that was confirmed 4 s ago may be obeyed")
	default:
	}
	c.extend(sinceBoot() - policyTime + time.Minute)
	if _, open := <-waits; open || c.opening() != nil {
		t.Error("a policy that is confirmed may not be obeyed")
	}
}

// TestWorkersObeyNewestPolicy: workers of a crawl in Redis obey a change within seconds, publish a version that the server
// has lost, and request nothing while they have been cut off for more than 4 s.
func TestWorkersObeyNewestPolicy(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var requests []time.Time
	excluded := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requests = append(requests, time.Now())
		if strings.Contains(r.URL.Path, "/odd/") {
			excluded++
		}
		mu.Unlock()
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/" {
			for i := range 200 {
				fmt.Fprintf(w, `<a href="/even/%d">a</a><a href="/odd/%d">b</a>`, i, i)
			}
		}
	}))
	defer web.Close()
	// between returns the number of requests between two times.
	between := func(from, to time.Time) (n int) {
		time.Sleep(time.Until(to))
		mu.Lock()
		defer mu.Unlock()
		for _, at := range requests {
			if at.After(from) && at.Before(to) {
				n++
			}
		}
		return n
	}
	redis := servers.Redis(t, servers.RedisOptions{})
	c := Config{Redis: &Redis{URL: redis.URL(), Name: "w"}, Settings: small()}
	c.Settings.Partitions, c.Settings.Delay, c.Settings.LatencyFactor, c.Settings.AllowPrivate, c.Settings.Robots = 2, 400*time.Millisecond, 0, true, "ignore"
	c.Settings.Grace = time.Second
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	dir := t.TempDir()
	for i, seed := range []string{web.URL, strings.Replace(web.URL, "127.0.0.1", "localhost", 1)} {
		c.Dir, c.Seeds = filepath.Join(dir, fmt.Sprint(i)), []string{seed}
		worker, err := Open(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			_, _ = worker.Run(ctx)
			_ = worker.Close()
		})
	}
	h, err := Attach(t.Context(), Location{Dir: dir, Redis: c.Redis})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if n := between(now.Add(time.Second), now.Add(3*time.Second)); n < 4 {
		t.Fatalf("%d requests in 2 s, want 4 or more", n)
	}

	changed(t, h, Change{Values: []string{"exclude=/odd/"}})
	between(now, time.Now().Add(2*time.Second))
	mu.Lock()
	before := excluded
	mu.Unlock()
	now = time.Now()
	if n := between(now, now.Add(2*time.Second)); n < 4 || excluded != before {
		t.Errorf("%d requests after the change, and %d of what it excludes, want some and 0", n, excluded-before)
	}

	if err := redis.Pause(); err != nil {
		t.Fatal(err)
	}
	cut := time.Now()
	if n := between(cut.Add(4500*time.Millisecond), cut.Add(7*time.Second)); n > 0 {
		t.Errorf("%d requests of workers that were cut off for 4.5 s, want none", n)
	}
	if err := redis.Resume(); err != nil {
		t.Fatal(err)
	}
	if n := between(time.Now(), time.Now().Add(4*time.Second)); n < 4 {
		t.Errorf("%d requests in 4 s after the server answers again, want 4 or more", n)
	}

	if n := redis.Client().Del(t.Context(), "crawler:{w}:policy").Val(); n != 1 {
		t.Fatal("the server has no versions")
	}
	between(now, time.Now().Add(2500*time.Millisecond))
	if versions, err := h.History(t.Context()); err != nil || len(versions) != 1 || versions[0].Changes[0].Name != "exclude" {
		t.Errorf("after the server has lost version 1, the history is %+v, error %v", versions, err)
	}

	changed(t, h, Change{Values: []string{"delay=1h"}})
	now = time.Now()
	if n := between(now.Add(2*time.Second), now.Add(4*time.Second)); n > 0 {
		t.Errorf("%d requests with a delay of 1h, want none", n)
	}
}
