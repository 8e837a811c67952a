package crawl

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bloomfrontier/crawler/frontier"
)

// TestOfferKept: after a rule became looser, kept links that it had refused are queued as links: with their depth, under
// the present rules, and not those with rel=nofollow. A repeat adds nothing.
func TestOfferKept(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, c Config) {
		var mu sync.Mutex
		var paths []string
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			paths = append(paths, r.URL.Path)
			mu.Unlock()
			w.Header().Set("Content-Type", "text/html")
			switch r.URL.Path {
			case "/":
				fmt.Fprint(w, `<a href=/a/1>1</a><a href=/a/2 rel=nofollow>2</a><a href=/b>b</a><a href=/c/1>c</a><a href=http://other.test/a/3>3</a>`)
			case "/b":
				fmt.Fprint(w, `<meta name=robots content=nofollow><a href=/a/4>4</a>`)
			case "/a/1":
				fmt.Fprint(w, `<a href=/a/5>5</a>`) // at depth 2, which the crawl does not follow
			}
		}))
		defer web.Close()
		c.Settings.Links, c.Settings.Exclude, c.Settings.MaxDepth = true, []string{"/a/", "/c/"}, 1
		c.Settings.AllowPrivate, c.Settings.Robots, c.Settings.Delay, c.Settings.LatencyFactor = true, "ignore", 0, 0
		c.Seeds = []string{web.URL}
		if err := Run(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		h, err := Attach(t.Context(), c.Location())
		if err != nil {
			t.Fatal(err)
		}
		if r := changed(t, h, Change{Values: []string{"exclude="}}); !slices.Equal(r.Looser, []string{"exclude"}) || !r.Links {
			t.Errorf("the change is %+v, want a looser one of a crawl with links", r)
		}
		offer := func(want frontier.LinkCounts) {
			t.Helper()
			if n, err := h.OfferKept(t.Context(), regexp.MustCompile("/a/")); err != nil || n != want {
				t.Errorf("OfferKept: %+v, error %v; want %+v", n, err, want)
			}
		}
		offer(frontier.LinkCounts{Found: 4, Added: 1, Refused: 3})
		offer(frontier.LinkCounts{Found: 4, Seen: 1, Refused: 3})
		c.Seeds, c.Settings = nil, DefaultSettings()
		c.Settings.AllowPrivate = true
		if err := Run(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if slices.Sort(paths); strings.Join(paths, " ") != "/ /a/1 /b" {
			t.Errorf("the pages %q were requested, want /, /b and then /a/1", paths)
		}
		if a, err := h.Audit(t.Context()); err != nil || len(a.Faults) > 0 {
			t.Errorf("audit: %v, error %v", a.Faults, err)
		}
	})
}
