package proofs

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestHostilePages crawls pages that are made to take far more memory than they have bytes, and
// hosts with long robots.txt files, with --memory 256MiB. The process must stay below 512 MiB.
func TestHostilePages(t *testing.T) {
	const memory, most = 256, 512 // MiB
	for name, test := range map[string]struct {
		hosts  int
		answer func(w http.ResponseWriter, r *http.Request)
		flags  []string
	}{
		"links": {sized(20, 60), answerLinks(t), []string{"--max-depth", "1"}},
		"edges": {sized(20, 60), answerLinks(t), []string{"--max-depth", "1", "--links"}},
		"rows": {sized(20, 60), answerLinks(t), []string{"--max-depth", "1", "--links", "--sink", "postgres",
			"--postgres", servers.Postgres(t, servers.PostgresOptions{}).DSN()}},
		"rules": {sized(100, 3000), answerRules, nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(test.answer))
			defer server.Close()
			args := append(test.flags, "--scope", "any", "--delay", "0", "--memory", fmt.Sprintf("%dMiB", memory), "--max-pages", fmt.Sprint(test.hosts),
				"--connect-to", "*="+strings.TrimPrefix(server.URL, "http://"))
			for i := range test.hosts {
				args = append(args, fmt.Sprintf("http://p%d.test/", i))
			}
			p := newCrawl(t, args...).start()
			if e := p.wait(); e.code != 0 {
				t.Fatalf("exit code %d, want 0; stderr:\n%s", e.code, e.stderr)
			}
			usage, ok := p.cmd.ProcessState.SysUsage().(*syscall.Rusage)
			if !ok {
				t.Skip("this system does not measure the memory of processes")
			}
			resident := usage.Maxrss >> 10 // Linux counts KiB
			figure(t, "memory_"+name, "%d MiB resident at most, with --memory %d MiB", resident, memory)
			if resident > most {
				t.Errorf("%d MiB resident, want at most %d", resident, most)
			}
		})
	}
}

// answerLinks returns a handler whose pages have 2.7 MB. Each has 100,000 links, which are
// relative to a base of 1,900 bytes.
func answerLinks(t *testing.T) func(http.ResponseWriter, *http.Request) {
	t.Helper()
	var page bytes.Buffer
	packer := gzip.NewWriter(&page)
	fmt.Fprintf(packer, `<base href="/%s/">`, strings.Repeat("y", 1900))
	for i := range 100_000 {
		fmt.Fprintf(packer, `<a href=%x>x</a>`, i)
	}
	if err := packer.Close(); err != nil {
		t.Fatal(err)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(page.Bytes())
	}
}

// answerRules answers with a robots.txt of about 500 KiB, or with a small page.
func answerRules(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/robots.txt" {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<p>text")
		return
	}
	var rules strings.Builder
	rules.WriteString("User-agent: *\n")
	for i := 0; rules.Len() < 500_000; i++ {
		fmt.Fprintf(&rules, "Disallow: /%x\n", i)
	}
	w.Header().Set("Content-Type", "text/plain")
	_, _ = io.WriteString(w, rules.String())
}
