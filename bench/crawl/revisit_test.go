package crawl

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestRevisitCost measures the processor time of the program for a first visit, and for a later one that is answered with
// 304: pages of 14 and 66 KB with 40 links and a tag, on 100 hosts. It includes the start of the program in the first visits.
func TestRevisitCost(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes minutes")
	}
	for _, size := range []int{14 << 10, 66 << 10} {
		t.Run(fmt.Sprint(size), func(t *testing.T) { revisitCost(t, size) })
	}
}

func revisitCost(t *testing.T, size int) {
	bin := os.Getenv("CRAWLER_BIN")
	if bin == "" {
		t.Skip("CRAWLER_BIN names no program")
	}
	const hosts, pagesOfHost, all = 100, 200, 100 * 200
	var first, again atomic.Int64
	const words = "words of a page that are long enough for a paragraph. "
	text := strings.Repeat(words, (size-2000)/len(words))
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tag := `"` + r.Host + r.URL.Path + `"`
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			again.Add(1)
			w.WriteHeader(http.StatusNotModified)
			return
		}
		first.Add(1)
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<title>%s %s</title>", r.Host, r.URL.Path)
		n := 0
		_, _ = fmt.Sscanf(r.URL.Path, "/p%d", &n) // the start page has no number
		for i := range 40 {
			fmt.Fprintf(w, `<a href="/p%d">next</a> `, (n*7+i+1)%pagesOfHost)
		}
		fmt.Fprintf(w, "<p>%s %s %s</p>", r.Host, r.URL.Path, text)
	}))
	defer site.Close()
	dir := t.TempDir()
	var seeds strings.Builder
	for i := range hosts {
		fmt.Fprintf(&seeds, "http://h%d.test/p0\n", i)
	}
	list := filepath.Join(dir, "seeds.txt")
	if err := os.WriteFile(list, []byte(seeds.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, "crawl", "--seeds", list, "--dir", filepath.Join(dir, "c.crawl"), "--urls", "100000", "--quiet",
		"--connect-to", "*="+strings.TrimPrefix(site.URL, "http://"), "--robots", "ignore", "--delay", "0", "--domain-rate", "0", "--allow-series", ".",
		"--recrawl", "60s", "--recrawl-every", "60s..60s", "--max-time", "10m")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it runs
		_ = cmd.Wait()                          // it was stopped
	}()
	// until waits until a counter has a value, and returns the processor time of the program at that moment.
	until := func(what *atomic.Int64, n int64) time.Duration {
		t.Helper()
		for begun := time.Now(); what.Load() < n; time.Sleep(10 * time.Millisecond) {
			if time.Since(begun) > 4*time.Minute {
				t.Fatalf("after 4 minutes there are %d of %d answers; %d pages in all", what.Load(), n, first.Load())
			}
		}
		return processorTime(t, cmd.Process.Pid)
	}
	visited := until(&first, all)
	time.Sleep(3 * time.Second) // until the last ones are committed
	visited = max(visited, processorTime(t, cmd.Process.Pid))
	begun := until(&again, 1)
	done := until(&again, all)
	visit, revisit := visited/all, (done-begun)/time.Duration(again.Load())
	t.Logf("processor time: a first visit %v, one with 304 %v: %.2f; idle before it %v; %d other answers", visit, revisit,
		float64(revisit)/float64(visit), begun-visited, first.Load()-all)
}

// processorTime returns the processor time that a process has used.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest) // from the third one on
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond // a tick of Linux
}
