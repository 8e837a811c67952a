package cli

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestPrivateHeaders: headers of -H that may be secret are sent only to the origins of
// seeds. This also holds for later runs and for workers that were not given the seeds. No
// file, log or message contains these headers.
func TestPrivateHeaders(t *testing.T) {
	for name, where := range map[string]func(t *testing.T) []string{
		"directory": func(t *testing.T) []string { return []string{"--dir", filepath.Join(t.TempDir(), "x.crawl")} },
		"redis": func(t *testing.T) []string {
			return []string{"--redis", servers.Redis(t, servers.RedisOptions{}).URL(), "--name", "private"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			at := where(t)
			var mu sync.Mutex
			got := make(map[string]string) // the headers of the last request for each URL
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				got[r.Host+r.URL.Path] = r.Header.Get("Authorization") + r.Header.Get("X-Api-Key") + r.Header.Get("Accept-Language")
				mu.Unlock()
				switch r.URL.Path {
				case "/robots.txt":
					fmt.Fprint(w, "Sitemap: http://map.test/list.xml\n")
				case "/broken": // provokes an error for the log
					panic(http.ErrAbortHandler)
				case "/":
					fmt.Fprint(w, `<a href="/1">1</a> <a href="/2">2</a> <a href="/broken">3</a> <a href="http://b.test/x">4</a>`)
				}
			}))
			t.Cleanup(server.Close)
			crawl := func(args ...string) (errs string) {
				code, out, errs := run(t, "", slices.Concat([]string{"crawl"}, at, []string{"--urls", "10k", "--delay", "0", "--retries", "0",
					"--scope", "any", "--sitemaps", "--connect-to", "*.test=" + server.Listener.Addr().String(), "--log-level", "debug", "--types", "*",
					"-H", "Authorization: hush1", "-H", "X-Api-Key: hush2", "-H", "Accept-Language: de"}, args)...)
				if code != exitOK || strings.Contains(out+errs, "hush") {
					t.Fatalf("exit code %d, want 0 and no secret in the output: %s%s", code, out, errs)
				}
				return errs
			}
			errs := crawl("--max-pages", "1", "http://a.test/")
			if want := "sent to the origins of seeds only: Authorization, X-Api-Key; "; !strings.Contains(errs, want) {
				t.Errorf("crawl does not print %q: %s", want, errs)
			}
			if code, _, errs := run(t, "", slices.Concat([]string{"seed"}, at, []string{"http://c.test/later"})...); code != exitOK {
				t.Fatal(errs)
			}
			crawl()
			const public, private = "de", "hush1hush2de"
			mu.Lock() // the race detector sees no order between the writes of the server and the reads below
			defer mu.Unlock()
			for url, want := range map[string]string{
				"a.test/robots.txt": private, "a.test/": private, "a.test/1": private, "a.test/2": private, "a.test/broken": private,
				"c.test/robots.txt": private, "c.test/later": private,
				"b.test/robots.txt": public, "b.test/x": public, "map.test/robots.txt": public, "map.test/list.xml": public,
			} {
				if got[url] != want {
					t.Errorf("request for %s: headers %q, want %q", url, got[url], want)
				}
			}
			noFileHas(t, "hush", ".", at[1])
		})
	}
}

// noFileHas fails the test if a file below one of the directories contains the text.
func noFileHas(t *testing.T, text string, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return nil
			}
			if b, err := os.ReadFile(path); err != nil || strings.Contains(string(b), text) {
				t.Errorf("file %s contains %q (%v)", path, text, err)
			}
			return nil
		})
	}
}
