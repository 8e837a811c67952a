package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// brokenSite starts a site with broken links: four pages link to /gone, and one to a URL with a long path. Its sitemap
// lists /gone and /a, and twice /lost, which no page links to.
func brokenSite(t *testing.T) (connectTo string) {
	pages := map[string]string{
		"/": "/a /b /c /gone", "/a": "/gone /never/was/a/page/with/such/a/long/path.html", "/b": "/gone", "/c": "/gone /a",
	}
	const listed = "http://a.test/lost http://a.test/lost http://a.test/gone http://a.test/a"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sitemap.xml" {
			w.Header().Set("Content-Type", "text/xml")
			fmt.Fprintf(w, "<urlset><url><loc>%s</loc></url></urlset>", strings.ReplaceAll(listed, " ", "</loc></url><url><loc>"))
			return
		}
		links, is := pages[r.URL.Path]
		if !is {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		for link := range strings.FieldsSeq(links) {
			fmt.Fprintf(w, "<a href=%s>x</a>", link)
		}
	}))
	t.Cleanup(server.Close)
	return "*=" + server.Listener.Addr().String()
}

// TestBrokenTargetsAreCounted: links --broken prints one line for each target, with the number of pages and three of
// them, on a pipe as JSON or CSV, and on a terminal as a table that fits, with a total. With --all it prints each link.
func TestBrokenTargetsAreCounted(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "c.crawl")
	must(t, "crawl", "--dir", dir, "--links", "--sitemaps", "--delay", "0", "--urls", "1000", "--connect-to", brokenSite(t), "http://a.test/")
	broken := []string{"links", "--broken", "--dir", dir}
	const most, lost, long = "http://a.test/gone", "http://a.test/lost", "http://a.test/never/was/a/page/with/such/a/long/path.html"
	out := must(t, append(broken, "--columns", "pages,status,target")...)
	want := fmt.Sprintf("{\"pages\":5,\"status\":404,\"target\":%q}\n{\"pages\":1,\"status\":404,\"target\":%q}\n"+
		"{\"pages\":1,\"status\":404,\"target\":%q}\n", most, lost, long)
	if diff := cmp.Diff(want, out); diff != "" {
		t.Error(diff)
	}
	out = must(t, append(broken, "--format", "csv", "--sort", "target", "--limit", "1", "--columns", "target,sources")...)
	if strings.Count(out, "http://a.test/") != 4 || !strings.HasPrefix(out, "target,sources\n"+most+",") {
		t.Errorf("CSV is %s, want a target with three sources", out)
	}
	out = must(t, append(broken, "--all")...)
	if a, listed := strings.Count(out, `"kind":"a"`), strings.Count(out, `"kind":"sitemap"`); a != 5 || listed != 2 {
		t.Errorf("--all prints %d links of pages and %d of sitemaps, want 5 and 2", a, listed)
	}
	want = `{"source":"http://a.test/sitemap.xml","target":"http://a.test/lost","status":404,"outcome":"client_error","kind":"sitemap"}` + "\n"
	if out := must(t, append(broken, "--all", "--where", "target = "+lost)...); out != want {
		t.Errorf("a URL that only a sitemap lists is reported as %s, want %s", out, want)
	}
	if out := must(t, "links", "--graph", "csv", "--dir", dir); strings.Contains(out, "sitemap.xml") {
		t.Errorf("the graph has links of a sitemap: %s", out)
	}
	for _, width := range []uint16{60, 80, 200} {
		shown := onTerminal(t, func(tty *os.File) {
			if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: width}); err != nil {
				t.Fatal(err)
			}
			if code := Run(t.Context(), broken, strings.NewReader(""), tty, tty); code != exitOK {
				t.Errorf("exit code %d", code)
			}
		})
		lines := strings.Split(strings.ReplaceAll(shown, "\r\n", "\n"), "\n")
		if len(lines) != 6 || !strings.HasPrefix(lines[0], "pages  status  outcome") || lines[4] != "3 targets without a page, 7 links" {
			t.Errorf("a terminal of %d columns shows %s, want a table of three rows with a total", width, shown)
		}
		for _, line := range lines {
			if n := len([]rune(line)); n > int(width) {
				t.Errorf("a terminal of %d columns gets a line of %d: %s", width, n, line)
			}
		}
		if whole := strings.Contains(shown, long); whole != (width == 200) {
			t.Errorf("a terminal of %d columns shows the long URL uncut: %t", width, whole)
		}
	}
}

// TestLinksOfEachStore: the reports about links are the same, whether a crawl is in a directory or in Redis, and
// whether its records are in files or rows of a Postgres. Deleting the crawl deletes the rows.
func TestLinksOfEachStore(t *testing.T) {
	t.Chdir(t.TempDir())
	database, server := servers.Postgres(t, servers.PostgresOptions{}), servers.Redis(t, servers.RedisOptions{})
	inPostgres := []string{"--postgres", database.DSN()}
	connectTo := brokenSite(t)
	var want []string
	for _, c := range []struct {
		name  string
		at    []string
		rows  bool
		count int // of workers
	}{
		{"directory", []string{"--dir", "files"}, false, 1},
		{"directory, rows", []string{"--dir", "rows"}, true, 1},
		{"Redis", []string{"--redis", server.URL(), "--name", "files"}, false, 2},
		{"Redis, rows", []string{"--redis", server.URL(), "--name", "rows"}, true, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			crawl := slices.Concat([]string{"crawl", "--links", "--sitemaps", "--delay", "0", "--urls", "1000", "--connect-to", connectTo}, c.at)
			if c.rows {
				c.at = append(c.at, inPostgres...)
				crawl = slices.Concat(crawl, inPostgres, []string{"--sink", "postgres"})
			}
			var errs [2]bytes.Buffer
			var ends []<-chan int
			for n := range c.count {
				ends = append(ends, started(&errs[n], append(crawl, "http://a.test/")...))
			}
			for n, end := range ends {
				if code := <-end; code != exitOK {
					t.Fatalf("worker %d: exit code %d: %s", n, code, &errs[n])
				}
			}
			var got []string
			for _, report := range [][]string{
				{}, {"--to", "http://a.test/gone"}, {"--broken", "--columns", "pages,status,target"}, {"--broken", "--all"},
				{"--redirects"}, {"--canonical"}, {"--graph", "csv"}, {"--graph", "gexf"},
			} {
				lines := slices.Collect(strings.Lines(must(t, slices.Concat([]string{"links"}, report, c.at)...)))
				for i, line := range lines {
					lines[i] = regexp.MustCompile(`edge id="[0-9]+"`).ReplaceAllString(line, "edge")
				}
				slices.Sort(lines)
				got = append(got, strings.Join(report, " ")+"\n"+strings.Join(lines, ""))
			}
			if want == nil {
				want = got
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if n := strings.Count(got[0], `"kind":"a"`); n != 9 {
				t.Errorf("%d links of pages, want 9: %s", n, got[0])
			}
		})
	}
	must(t, slices.Concat([]string{"delete", "--yes", "--redis", server.URL(), "--name", "rows"}, inPostgres)...)
	if code, _, errs := run(t, "", slices.Concat([]string{"links", "--redis", server.URL(), "--name", "rows"}, inPostgres)...); code == exitOK {
		t.Errorf("links of a deleted crawl: exit code %d: %s", code, errs)
	}
}

// TestNoLinksInPostgres: a crawl without --links has no links, and a crawl whose pages have none is no fault.
func TestNoLinksInPostgres(t *testing.T) {
	t.Chdir(t.TempDir())
	database := servers.Postgres(t, servers.PostgresOptions{})
	connectTo := brokenSite(t)
	for _, c := range []struct {
		flags []string
		code  int
	}{{nil, exitNotKept}, {[]string{"--links"}, exitOK}} {
		at := []string{"--dir", fmt.Sprint("c", len(c.flags)), "--postgres", database.DSN()}
		crawl := slices.Concat([]string{"crawl", "--sink", "postgres", "--delay", "0", "--urls", "1000", "--connect-to", connectTo}, at, c.flags)
		must(t, append(crawl, "http://a.test/sitemap.xml")...)
		if code, out, errs := run(t, "", append([]string{"links"}, at...)...); code != c.code || out != "" {
			t.Errorf("links of a crawl with %q: exit code %d, want %d: %s%s", c.flags, code, c.code, out, errs)
		}
	}
}
