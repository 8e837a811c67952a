package crawl_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/frontier"
)

// TestProductToken: a crawl keeps the product token that it was created with. A run with
// another one is refused, also if a header sets it. A run without an agent has the token of
// the crawl and the version of the program.
func TestProductToken(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var agents, pages []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			fmt.Fprint(w, "User-agent: guest\nDisallow: /\nUser-agent: *\nDisallow:\n")
			return
		}
		mu.Lock()
		defer mu.Unlock()
		agents, pages = append(agents, r.UserAgent()), append(pages, r.URL.Path)
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<a href="/1"></a><a href="/2"></a><a href="/3"></a><a href="/4"></a>`)
	}))
	t.Cleanup(server.Close)
	seen := func() (agent string, n int) {
		mu.Lock()
		defer mu.Unlock()
		return agents[len(agents)-1], len(pages)
	}

	c := config(t, server.URL)
	c.Settings.Agent, c.Settings.MaxPages = "archive/1.0 (test)", 1
	if err := crawl.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if agent, n := seen(); agent != "archive/1.0 (test)" || n != 1 {
		t.Fatalf("first run: %d pages, agent %q", n, agent)
	}

	c.Settings.MaxPages = 2
	for _, other := range []func(*crawl.Config){
		func(c *crawl.Config) { c.Settings.Agent = "guest/1.0" },
		func(c *crawl.Config) { c.Settings.Agent = "crawler/1.0" },
		func(c *crawl.Config) {
			c.Settings.Agent = crawl.DefaultSettings().Agent
			c.Settings.Headers = http.Header{"User-Agent": {"guest"}}
		},
	} {
		o := c
		other(&o)
		err := crawl.Run(t.Context(), o)
		differs, is := errors.AsType[*frontier.SettingsError](err)
		if !is || len(differs.Differ) != 1 || differs.Differ[0].Name != "product-token" {
			t.Errorf("agent %q, headers %v: error %v, want that the product token differs", o.Settings.Agent, o.Settings.Headers, err)
		}
	}

	c.Settings.Agent = crawl.DefaultSettings().Agent
	if err := crawl.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if agent, n := seen(); !strings.HasPrefix(agent, "archive/") || agent == "archive/1.0 (test)" || n != 2 {
		t.Errorf("second run: %d pages, agent %q, want archive with the version of the program", n, agent)
	}

	c.Settings.MaxPages, c.Settings.Agent = 0, "archive/2.0"
	if err := crawl.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if agent, n := seen(); agent != "archive/2.0" || n != 5 {
		t.Errorf("third run: %d pages, agent %q, want 5 pages and archive/2.0", n, agent)
	}
}
