package explain_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/crawl/internal/explain"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/internal/follow"
)

const seedPage = "http://h.example/"

// seedLinks are the links of the seed page.
var seedLinks = []string{
	"http://h.example/a", "http://h.example/a.pdf", "http://h.example/docs/b", "http://h.example/docs/b.pdf",
	"https://h.example:8443/docs/", "http://www.h.example/", "http://www.h.example/docs/c", "http://a.b.h.example/docs/d",
	"http://example/", "http://other.example/docs/", "http://127.0.0.1/docs/", "http://h.example.org/",
	"http://h.example/redirect", "http://h.example:25/docs/",
}

// web answers for every host. There is no robots.txt, and only the seed page has links.
type web struct{}

func (web) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := &http.Response{StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"text/html"}}}
	var body strings.Builder
	switch path := r.URL.RequestURI(); {
	case strings.HasSuffix(path, "/robots.txt"):
		answer.StatusCode = 404
	case strings.HasSuffix(path, "/redirect"):
		answer.StatusCode = 302
		answer.Header.Set("Location", "http://h.example/target")
	case r.URL.Host == "h.example" && path == "/":
		for _, url := range seedLinks {
			fmt.Fprintf(&body, "<a href=%q>x</a>", url)
		}
	}
	answer.ContentLength = int64(body.Len())
	answer.Body = io.NopCloser(strings.NewReader(body.String()))
	return answer, nil
}

// records collects the records of a crawl.
type records map[string]record.Record // by URL

func (all records) Append(r *record.Record) error {
	all[r.URL] = *r
	return nil
}

func (all records) trail(id string) (trail []record.Record, _ error) {
	for _, r := range all {
		if r.ID == id {
			trail = append(trail, r)
		}
	}
	if len(trail) > 0 && trail[0].ReferrerID != "" {
		more, err := all.trail(trail[0].ReferrerID)
		return append(trail, more...), err
	}
	return trail, nil
}

func (all records) fingerprint(url string) (print bloomstore.Fingerprint) {
	_, _ = hex.Decode(print[:], []byte(all[url].ID)) // a record has the first half of the fingerprint
	return print
}

// TestWorkerAgrees explains links before a crawl finds them, lets the crawl decide, and
// explains them again. The first explanation must say what the crawl then does.
func TestWorkerAgrees(t *testing.T) {
	docs, pdf := []*regexp.Regexp{regexp.MustCompile("/docs/")}, []*regexp.Regexp{regexp.MustCompile(`\.pdf$`)}
	for name, set := range map[string]func(*follow.Rules){
		"default":    func(*follow.Rules) {},
		"subdomains": func(r *follow.Rules) { r.Scope, r.MaxDepth = canon.ScopeSubdomains, 1 },
		"domain":     func(r *follow.Rules) { r.Scope, r.Exclude = canon.ScopeDomain, pdf },
		"any":        func(r *follow.Rules) { r.Scope, r.Include, r.Exclude = canon.ScopeAny, docs, pdf },
		"include":    func(r *follow.Rules) { r.Scope, r.Include = canon.ScopeAny, docs },
		"seeds only": func(r *follow.Rules) { r.MaxDepth = 0 },
	} {
		rules := follow.Default(time.Now())
		set(&rules)
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { agree(t, rules) }) })
	}
}

func agree(t *testing.T, rules follow.Rules) {
	client, err := get.New(get.Config{Transport: web{}})
	if err != nil {
		t.Fatal(err)
	}
	canonicalizer, err := canon.New(canon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store, written := frontiertest.NewMemory(frontiertest.MemoryConfig{}), records{}
	p := policy.Default(time.Now())
	p.Rules = rules
	worker, err := fetcher.New(fetcher.Config{Store: store, Scope: store, Client: client, Canon: canonicalizer, Sink: written,
		Policy: policy.NewLive(p).Load})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := worker.Seeds(t.Context(), []string{seedPage}); err != nil {
		t.Fatal(err)
	}
	ask := func(url string) *explain.Explanation {
		t.Helper()
		e, err := explain.Explain(t.Context(), explain.Sources{
			Canon: canonicalizer, Rules: rules, Scope: store,
			Fingerprint: written.fingerprint, Now: time.Now(), CheckPort: client.CheckPort,
			Locate: func(ctx context.Context, url canon.URL, host string) (*explain.Located, error) {
				status, err := store.Lookup(ctx, host, url.String())
				return &explain.Located{Status: status, Trail: written.trail}, err
			},
		}, url)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	before := map[string]explain.Verdict{}
	for _, url := range seedLinks {
		before[url] = ask(url).Verdict
	}
	if end, err := worker.Run(t.Context()); end != fetcher.Empty || err != nil {
		t.Fatalf("Run = %q, %v", end, err)
	}
	refused := map[frontier.Reason]uint64{}
	for _, url := range seedLinks {
		after := ask(url)
		queued := after.Store.State == frontier.Done
		if would := before[url].Answer == "would be queued"; would != queued {
			t.Errorf("%s: explained as %q before the crawl, and as %q after it", url, before[url], after.Verdict)
		}
		if !queued {
			refused[before[url].Reason]++
		} else if len(after.Referrers) != 1 || after.Referrers[0] != seedPage || after.MoreBehind {
			t.Errorf("the referrers of %s are %q, want only %q", url, after.Referrers, seedPage)
		}
	}
	stats, err := store.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range []frontier.Reason{frontier.ReasonScope, frontier.ReasonExcluded, frontier.ReasonDepth, frontier.ReasonPort} {
		counted := stats.Refused[reason]
		if ask("http://h.example/redirect").Store.State == frontier.Done && // the target of this redirect counts as a link too
			ask("http://h.example/target").Verdict.Reason == reason {
			counted--
		}
		if counted != refused[reason] {
			t.Errorf("the explanations refuse %d links for %s, the crawl refused %d", refused[reason], reason, counted)
		}
	}
}
