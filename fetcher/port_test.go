package fetcher_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
)

// TestBadPortsAreNotRequested: no URL whose port belongs to another service, such as 25 for
// mail, is requested. The URL can come from a link, a redirect, a robots.txt, a Sitemap
// line or a seed. It can also be in the queue of a crawl that is older than this rule.
func TestBadPortsAreNotRequested(t *testing.T) {
	answers := map[string]reply{
		"http://a.test/robots.txt": text("Sitemap: http://a.test:110/list.xml"),
		"http://a.test/":           links("http://a.test:25/", "http://b.test:6379/", "http://a.test:8080/", "/away"),
		"http://a.test/away":       redirect("http://a.test:6667/"),
		"http://seed.test/":        redirect("http://seed.test:22/"),
		"http://c.test/robots.txt": redirect("http://c.test:143/robots.txt"),
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(answers))
		cfg := w.config()
		cfg.Rules, cfg.Sitemaps = anywhere, true
		told := make(chan fetcher.Refused, 10)
		cfg.OnRefused = func(r fetcher.Refused) { told <- r }
		c := w.worker(cfg)
		seeds, err := c.Seeds(t.Context(), []string{"http://a.test:25/seed"})
		if err != nil || seeds[0].Verdict.Reason != frontier.ReasonPort || seeds[0].Err == nil || !strings.Contains(seeds[0].Err.Error(), "--allow-port 25") {
			t.Errorf("Seeds for port 25 = %+v, %v, want it refused for its port", seeds, err)
		}
		if _, err := w.store.Add(t.Context(), []frontier.Offer{{URL: "http://old.test:25/", Host: "old.test"}}); err != nil {
			t.Fatal(err)
		}
		w.crawl(cfg, "http://a.test/", "http://seed.test/", "http://c.test/")
		for _, url := range w.wire.urls() {
			if strings.Count(url, ":") > 1 && !strings.HasPrefix(url, "http://a.test:8080/") {
				t.Errorf("%s was requested", url)
			}
		}
		if w.wire.count("http://a.test:8080/") != 1 {
			t.Error("http://a.test:8080/ was not requested")
		}
		if n := w.stats().Refused[frontier.ReasonPort]; n != 4 { // two links, two redirects
			t.Errorf("%d URLs refused for their port, want 4", n)
		}
		for _, url := range []string{"http://old.test:25/", "http://a.test:110/list.xml", "http://c.test/"} {
			if r := w.sink.recordOf(t, url); r.Outcome != string(frontier.Address) || r.Attempts != 0 || !strings.Contains(r.Error, "--allow-port") {
				t.Errorf("%s has the record %+v, want the outcome Address without an attempt", url, r)
			}
		}
		close(told)
		for r := range told {
			if r.Reason != frontier.ReasonPort || !strings.Contains(r.Rule, "--allow-port") {
				t.Errorf("OnRefused got %+v, want ReasonPort and the flag --allow-port", r)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(answers))
		cfg := w.config()
		var err error
		if cfg.Client, err = get.New(get.Config{Transport: w.wire, HeaderTimeout: 2 * get.DefaultTimeout, AllowPorts: []uint16{25, 6379, 110}}); err != nil {
			t.Fatal(err)
		}
		cfg.Rules, cfg.Sitemaps = anywhere, true
		w.crawl(cfg, "http://a.test/", "http://a.test:25/seed")
		for _, url := range []string{"http://a.test:25/", "http://a.test:25/seed", "http://b.test:6379/", "http://a.test:110/list.xml"} {
			if !slices.Contains(w.wire.urls(), url) {
				t.Errorf("%s was not requested, although it is allowed", url)
			}
		}
	})
}
