//go:build unix

package main

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// mixedSite serves a page for each kind of result. Its page /ill answers with status 500 until the
// site is healthy.
type mixedSite struct{ healthy atomic.Bool }

// ServeHTTP implements http.Handler.
func (s *mixedSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	switch r.URL.Path {
	case "/robots.txt":
		fmt.Fprint(w, "User-agent: *\nDisallow: /secret\n")
	case "/":
		for _, to := range []string{"/a", "/data", "/moved", "/gone", "/no", "/ill", "/silent", "/secret", "/secret/2"} {
			fmt.Fprintf(w, `<a href="%s">x</a>`, to)
		}
	case "/data":
		w.Header().Set("Content-Type", "application/x-data")
	case "/moved":
		http.Redirect(w, r, "/a", http.StatusFound)
	case "/gone", "/no":
		w.WriteHeader(http.StatusNotFound)
	case "/silent":
		panic(http.ErrAbortHandler)
	case "/ill":
		if !s.healthy.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}
}

// listing matches a line of the results, with the kind, the number and the command.
var listing = regexp.MustCompile(`(?m)^  ([2-5a-z].*?) +([0-9,]*)  (crawler .*)$`)

// TestResultsAreListed runs crawls of each kind of location. The last lines of a run name the number of
// URLs for each kind of answer, and the commands in these lines list exactly these. After a retry they
// list the last rounds. report.json has the same figures.
func TestResultsAreListed(t *testing.T) {
	redis, postgres := servers.Redis(t, servers.RedisOptions{}), servers.Postgres(t, servers.PostgresOptions{})
	t.Setenv("PGUSER", "postgres") // no command shows the user of a URL
	rows := []string{"--sink", "postgres", "--postgres", strings.Replace(postgres.DSN(), "postgres@", "", 1)}
	shared := func(name string) []string { return []string{"--redis", redis.URL(), "--name", name} }
	for name, c := range map[string]struct {
		flags, links []string
		allRounds    bool // after a retry, all rounds are counted, because records can be on other machines
	}{
		"directory":            {flags: []string{"--dir", "a b.crawl"}, links: []string{"--links"}},
		"directory and rows":   {flags: append([]string{"--dir", "c.crawl"}, rows...), links: []string{"--links"}},
		"Redis":                {flags: shared("usual"), links: []string{"--links"}, allRounds: true},
		"Redis, own directory": {flags: append(shared("own"), "--dir", filepath.Join("workers", "one")), allRounds: true},
		"Redis and rows":       {flags: append(shared("rows"), rows...)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := new(mixedSite)
			addr := listen(t, func(l net.Listener) error { return http.Serve(l, site) })
			dir := t.TempDir()
			variable, value := smallFilter()
			run := func(line string, args ...string) (out, said string) {
				t.Helper()
				cmd := exec.Command("crawler", args...)
				if line != "" {
					cmd = exec.Command("sh", "-c", line)
				}
				var err strings.Builder
				cmd.Dir, cmd.Stderr, cmd.Env = dir, &err, append(os.Environ(), variable+"="+value)
				got, fault := cmd.Output()
				if fault != nil {
					t.Fatalf("%s%q: %v\n%s", line, args, fault, &err)
				}
				return string(got), err.String()
			}
			// counts returns the numbers in the last lines of a text, after a check of the commands.
			counts := func(text string) map[string]int {
				t.Helper()
				_, last, found := strings.Cut(text, "finished URLs")
				if !found {
					t.Fatalf("no results in\n%s", text)
				}
				numbers := make(map[string]int)
				lines := listing.FindAllStringSubmatch(last, -1)
				if len(lines) != strings.Count(last, "\n")-1-strings.Count(last, "\n  # ") {
					t.Fatalf("%d lines of results, want nothing else at the end of\n%s", len(lines), text)
				}
				for _, line := range lines {
					out, _ := run(line[3])
					listed := strings.Count(out, "\n")
					want, err := strconv.Atoi(line[2])
					if line[1] == "broken links" { // their number is not known
						want, err = listed, nil
					}
					if err != nil || listed != want {
						t.Errorf("%s: %q URLs, but %d lines of\n%s", line[0], line[2], listed, out)
					}
					numbers[line[1]] = want
				}
				return numbers
			}
			expect := func(what string, got, want map[string]int, links int) {
				t.Helper()
				want = maps.Clone(want)
				if len(c.links) > 0 {
					want["broken links"] = links
				}
				if !maps.Equal(got, want) {
					t.Errorf("%s: results %v, want %v", what, got, want)
				}
			}
			crawl := append([]string{"crawl", "--delay", "0", "--retries", "0", "--allow-private"}, append(c.flags, c.links...)...)
			_, said := run("", append(crawl, "http://"+addr+"/")...)
			first := map[string]int{"2xx": 3, "3xx": 1, "4xx": 2, "5xx": 1, "no answer": 1, "broken": 4, "robots.txt": 2}
			expect("first run", counts(said), first, 4)
			_, resumed := run("", crawl...)
			expect("a run with nothing to do", counts(resumed), first, 4)

			site.healthy.Store(true)
			run("", append([]string{"retry"}, location(c.flags)...)...)
			_, said = run("", crawl...)
			want := map[string]int{"2xx": 4, "3xx": 1, "4xx": 2, "no answer": 1, "broken": 3, "robots.txt": 2}
			if c.allRounds {
				want = map[string]int{"2xx": 4, "3xx": 1, "4xx": 2, "5xx": 1, "no answer": 2, "broken": 5, "robots.txt": 2}
			}
			expect("after a retry", counts(said), want, 3)
			out, _ := run("", append([]string{"report", "--probe", "1ms"}, location(c.flags)...)...)
			expect("report", counts(out), want, 3)
		})
	}
}

// TestSeedOfEachStore: the exit code of a crawl whose only seed is denied does not depend on where its
// URLs and its records are. A seed that may need JavaScript is named, and the printed command lists it.
func TestSeedOfEachStore(t *testing.T) {
	redis, postgres := servers.Redis(t, servers.RedisOptions{}), servers.Postgres(t, servers.PostgresOptions{})
	addr := listen(t, func(l net.Listener) error {
		return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/robots.txt":
				fmt.Fprintf(w, "User-agent: *\nDisallow: /secret\nSitemap: http://%[1]s/map.xml\nSitemap: http://%[1]s/none.xml\n", r.Host)
			case "/map.xml":
				fmt.Fprintf(w, `<urlset><url><loc>http://%s/denied</loc></url></urlset>`, r.Host)
			case "/none.xml":
				w.WriteHeader(http.StatusNotFound)
			case "/denied":
				w.WriteHeader(http.StatusForbidden)
			case "/app":
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, `<div id="root"></div><script src="/main.js"></script>`)
			}
		}))
	})
	t.Setenv("PGUSER", "postgres") // no command shows the user of a URL
	rows := []string{"--sink", "postgres", "--postgres", strings.Replace(postgres.DSN(), "postgres@", "", 1)}
	shared := func(name string) []string { return []string{"--redis", redis.URL(), "--name", name} }
	list := regexp.MustCompile(`(?m)^  JavaScript\? +(crawler .*)$`)
	for _, page := range []string{"denied", "secret", "fine", "app"} {
		for name, flags := range map[string][]string{
			"directory": {"--dir", "a.crawl"}, "sitemaps": {"--dir", "c.crawl", "--sitemaps"}, "directory and rows": append([]string{"--dir", "b.crawl"}, rows...),
			"Redis": shared("files-" + page), "Redis and rows": append(shared("rows-"+page), rows...),
		} {
			t.Run(page+"/"+name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				for range 2 { // the second run has nothing to do
					cmd := exec.Command("crawler", append(append([]string{"crawl", "--delay", "0", "--allow-private"}, flags...), "http://"+addr+"/"+page)...)
					variable, value := smallFilter()
					cmd.Dir, cmd.Env = dir, append(os.Environ(), variable+"="+value)
					said, _ := cmd.CombinedOutput()
					code, names := cmd.ProcessState.ExitCode(), strings.Contains(string(said), "crawler:   http://"+addr+"/"+page+": ")
					if denied := page == "denied" || page == "secret"; denied != (code == 8) || denied != names || !denied && code != 0 {
						t.Errorf("exit code %d, want 8 and the URL if it is denied, otherwise 0:\n%s", code, said)
					}
					command := list.FindStringSubmatch(string(said))
					if (command != nil) != (page == "app") {
						t.Fatalf("/%s: the line about JavaScript is %q:\n%s", page, command, said)
					}
					if command == nil {
						continue
					}
					cmd = exec.Command("sh", "-c", command[1])
					cmd.Dir = dir
					if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), addr+"/app") {
						t.Errorf("%s: %v, want the record of /app:\n%s", command[1], err, out)
					}
				}
			})
		}
	}
}

// location returns the flags of a crawl that name it for other commands.
func location(flags []string) (names []string) {
	for i := 0; i < len(flags); i += 2 {
		if flags[i] != "--sink" {
			names = append(names, flags[i], flags[i+1])
		}
	}
	return names
}
