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
	"testing"
	"time"
)

// TestRevisitKilled kills a crawl that visits its pages again, at each of its steps. The next run goes on: every page is
// visited again, no page has two records of a round, each round follows the one before, and the audit is clean.
func TestRevisitKilled(t *testing.T) {
	t.Parallel()
	var answers atomic.Int64
	const pages = 30
	site := listen(t, func(l net.Listener) error {
		return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			for n := range pages {
				fmt.Fprintf(w, `<a href="/%d">x</a>`, n)
			}
			if r.URL.Path == "/1" {
				fmt.Fprint(w, answers.Add(1))
			}
		}))
	})
	dir := filepath.Join(t.TempDir(), "c.crawl")
	crawl := func(flags ...string) error {
		args := append([]string{"crawl", "--dir", dir, "--urls", "1000", "--delay", "0", "--domain-rate", "0", "--robots", "ignore", "--allow-private", "--quiet",
			"--recrawl", "1s", "--recrawl-every", "1s..3s"}, flags...)
		out, err := exec.Command("crawler", append(args, "http://"+site+"/")...).CombinedOutput()
		if failed, is := errors.AsType[*exec.ExitError](err); err != nil && (!is || failed.ExitCode() == 2) {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("crawler", append(args, "--dir", dir)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	// check returns the last round of the page whose round is the lowest.
	check := func(after string) int {
		t.Helper()
		must("status", "--audit")
		last := make(map[string]int)
		for line := range strings.Lines(must("output", "--all-rounds", "--columns", "url,round")) {
			var r struct {
				URL   string
				Round int
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			if before, known := last[r.URL]; known && r.Round != before+1 || !known && r.Round != 0 {
				t.Fatalf("after %s: %s has round %d after %d", after, r.URL, r.Round, before)
			}
			last[r.URL] = r.Round
		}
		least := 1 << 30
		for _, round := range last {
			least = min(least, round)
		}
		if len(last) != pages+1 {
			least = 0
		}
		return least
	}
	for i, point := range []string{"visits begun", "visits begun committed", "visits added", "visits added committed", "visits due", "visits offered",
		"visits queued", "visits queued committed", "visits swept"} {
		nth, flags := 1+i%2, []string(nil)
		switch {
		case strings.HasPrefix(point, "visits begun"):
			nth = 1
		case point == "visits swept":
			nth = 1
			must("set", "recrawl=2s")
			flags = []string{"--recrawl", "2s"}
		}
		if crawl(append(flags, "--max-time", "30s", "--crash-at", fmt.Sprintf("%s:%d", point, nth))...) == nil {
			t.Errorf("the crawl did not reach the crash point %q", point)
		}
		check(point)
	}
	before := check("the kills")
	if err := crawl("--recrawl", "2s", "--max-time", "8s"); err != nil {
		t.Errorf("the run after the kills: %v", err)
	}
	if least := check("the last run"); least <= before {
		t.Errorf("in the last run some pages were not visited again: the lowest round is %d, as before", least)
	}
	var st struct {
		Visits struct{ Pages, Visits, Unchanged, Changed, Queued int64 }
	}
	if out := must("status", "--json"); json.Unmarshal([]byte(out), &st) != nil || st.Visits.Pages != pages+1 || st.Visits.Unchanged == 0 || st.Visits.Changed == 0 ||
		st.Visits.Visits < st.Visits.Unchanged+st.Visits.Changed {
		t.Errorf("the status says %s", out)
	}
	if out := must("status"); !strings.Contains(out, "visits after the first") && !strings.Contains(out, "after the first ones") {
		t.Errorf("the status has no line of visits:\n%s", out)
	}
}

// TestRevisitBegins: a crawl that has ended begins to visit its pages again after `crawler set`, and ends by itself after
// the setting is off. A page that stays away is not visited again within a day, and one with a max-age not before that.
func TestRevisitBegins(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	site := listen(t, func(l net.Listener) error {
		return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			if r.URL.Path == "/away" && away.Load() {
				w.WriteHeader(http.StatusGone)
			}
			if r.URL.Path == "/fresh" {
				w.Header().Set("Cache-Control", "max-age=3600")
			}
			fmt.Fprint(w, `<a href="/away">a</a> <a href="/fresh">b</a>`)
		}))
	})
	dir := filepath.Join(t.TempDir(), "c.crawl")
	do := func(args ...string) (string, error) {
		out, err := exec.Command("crawler", append(args, "--dir", dir)...).CombinedOutput()
		return string(out), err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := do(args...)
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return out
	}
	must("crawl", "--urls", "1000", "--delay", "0", "--domain-rate", "0", "--robots", "ignore", "--allow-private", "--quiet", "http://"+site+"/")
	away.Store(true)
	must("set", "recrawl=1s", "recrawl-every=1s..2s")
	if out, err := do("set", "recrawl=80"); err == nil || !strings.Contains(out, "want off, a time") {
		t.Errorf("a share without %%: %v, %s", err, out)
	}
	running := exec.Command("crawler", "crawl", "--dir", dir, "--quiet")
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- running.Wait() }()
	var st struct {
		Visits struct{ Pages, Visits, Unchanged int64 }
	}
	for begun := time.Now(); st.Visits.Unchanged < 3; time.Sleep(100 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatalf("no pages are visited again: %+v", st)
		}
		if out, err := do("status", "--json"); err == nil {
			_ = json.Unmarshal([]byte(out), &st)
		}
	}
	must("set", "recrawl=off")
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the crawl ended with %v", err)
		}
	case <-time.After(time.Minute):
		_ = running.Process.Kill()
		t.Fatal("the crawl does not end although recrawl is off")
	}
	must("status", "--audit")
	if n := strings.Count(must("output", "--all-rounds", "--where", "status = 410", "--columns", "round"), "\n"); n != 1 {
		t.Errorf("a page that is away was visited %d times within a day, want once", n)
	}
}

// TestRevisitMaxPages: --max-pages limits the pages of a crawl that visits them again, not its visits. The crawl does not end
// at the limit, and a higher one lets more pages in.
func TestRevisitMaxPages(t *testing.T) {
	t.Parallel()
	site := listen(t, func(l net.Listener) error {
		return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			for n := range 30 {
				fmt.Fprintf(w, `<a href="/%d">x</a>`, n)
			}
		}))
	})
	dir := filepath.Join(t.TempDir(), "c.crawl")
	running := exec.Command("crawler", "crawl", "--dir", dir, "--urls", "1000", "--delay", "0", "--domain-rate", "0", "--robots", "ignore", "--allow-private",
		"--quiet", "--recrawl", "1s", "--recrawl-every", "1s..1s", "--max-pages", "5", "http://"+site+"/")
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- running.Wait() }()
	defer func() { _ = running.Process.Kill() }()
	do := func(args ...string) (string, error) {
		out, err := exec.Command("crawler", append(args, "--dir", dir)...).CombinedOutput()
		return string(out), err
	}
	var st struct {
		Visits struct{ Pages, Visits int64 }
	}
	await := func(pages, visits int64) {
		t.Helper()
		for begun := time.Now(); st.Visits.Pages != pages || st.Visits.Visits < visits; time.Sleep(100 * time.Millisecond) {
			select {
			case err := <-ended:
				t.Fatalf("the crawl ended with %v, and %+v", err, st)
			case <-time.After(0):
			}
			if time.Since(begun) > time.Minute || st.Visits.Pages > pages {
				t.Fatalf("the status says %+v, want %d pages", st, pages)
			}
			if out, err := do("status", "--json"); err == nil {
				_ = json.Unmarshal([]byte(out), &st)
			}
		}
	}
	await(5, 15)
	if out, err := do("set", "max-pages=8"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	await(8, st.Visits.Visits+16)
	if out, err := do("stop"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	<-ended
	if out, err := do("status", "--audit"); err != nil {
		t.Errorf("the audit: %v, %s", err, out)
	}
	if out, _ := do("output", "--columns", "url"); strings.Count(out, "\n") != 8 {
		t.Errorf("the records have these pages, want 8:\n%s", out)
	}
}

// TestRevisitTooSlow: the status, the report and the list of hosts name a host whose delay does not allow the visits that its
// pages want, and what it would take. Some visits are early, and measure how many pages are up to date.
func TestRevisitTooSlow(t *testing.T) {
	t.Parallel()
	site := listen(t, func(l net.Listener) error {
		return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			for n := range 9 {
				fmt.Fprintf(w, `<a href="/%d">x</a>`, n)
			}
		}))
	})
	dir := filepath.Join(t.TempDir(), "c.crawl")
	must := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("crawler", append(args, "--dir", dir)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	must("crawl", "--urls", "1000", "--delay", "20ms", "--domain-rate", "0", "--robots", "ignore", "--allow-private", "--quiet", "--recrawl", "1s",
		"--recrawl-every", "1s..1s", "--max-time", "20s", "http://"+site+"/")
	must("set", "delay=400ms")
	var st struct {
		Visits struct {
			Sampled       int64
			MeasuredFresh float64 `json:"measured_fresh"`
			TooSlow       []struct {
				PerDay  float64 `json:"per_day"`
				Allowed float64 `json:"allowed_per_day"`
			} `json:"too_slow_hosts"`
		}
	}
	out := must("status", "--json")
	if err := json.Unmarshal([]byte(out), &st); err != nil {
		t.Fatal(err)
	}
	if v := st.Visits; v.Sampled == 0 || v.MeasuredFresh != 1 || len(v.TooSlow) != 1 || v.TooSlow[0].Allowed != 216_000 || v.TooSlow[0].PerDay < 700_000 {
		t.Errorf("the status says %s", out)
	}
	for _, args := range [][]string{{"status"}, {"report"}, {"hosts"}} {
		if out := strings.Join(strings.Fields(must(args...)), " "); !strings.Contains(out, "its delay of 400ms allows 216,000: it would take a delay of 1") {
			t.Errorf("%v does not say that the host is too slow: %s", args, out)
		}
	}
}
