package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
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
