package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRecheckKilled kills `crawler retry --status 404` with SIGKILL at random moments, and repeats it until
// it has queued all URLs. None is queued twice, the books balance, and each URL is fetched once more.
func TestRecheckKilled(t *testing.T) {
	t.Parallel()
	const urls = 2500 // three steps
	site := listen(t, func(l net.Listener) error {
		return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			if r.URL.Path != "/" {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			for n := range urls {
				fmt.Fprintf(w, `<a href="/%d">x</a>`, n)
			}
		}))
	})
	dir := filepath.Join(t.TempDir(), "c.crawl")
	name, value := smallFilter()
	crawler := func(args ...string) *exec.Cmd {
		cmd := exec.Command("crawler", append(args, "--dir", dir)...)
		cmd.Env = append(os.Environ(), name+"="+value)
		return cmd
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := crawler(args...).Output()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	balanced := func() {
		t.Helper()
		if out := must("status", "--audit"); !strings.Contains(out, "the books balance") {
			t.Fatalf("the books do not balance:\n%s", out)
		}
	}
	run := []string{"crawl", "--delay", "0", "--robots", "ignore", "--allow-private", "--quiet", "http://" + site + "/"}
	must(run...)
	for range 6 {
		cmd := crawler("retry", "--status", "404")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(400 * time.Millisecond)) // so that the kill comes at any stage
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	balanced()
	must("retry", "--status", "404")
	if out := must("retry", "--status", "404"); out != "0 URLs queued again, 2,500 wait already\n" {
		t.Errorf("the repeated command prints %q", out)
	}
	balanced()
	must(run...)
	balanced()
	if n := strings.Count(must("output", "--where", "status = 404 and round = 1", "--columns", "url"), "\n"); n != urls {
		t.Errorf("%d URLs were fetched in round 1, want %d", n, urls)
	}
	if n := strings.Count(must("output", "--all-rounds", "--columns", "url"), "\n"); n != 1+2*urls {
		t.Errorf("the crawl has %d records, want %d", n, 1+2*urls)
	}
}
