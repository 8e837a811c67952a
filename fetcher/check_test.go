package fetcher_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/politeness"
)

// checking returns the config of a worker of w that checks links that lead out.
func checking(w *world) config {
	cfg := w.config()
	cfg.CheckExternal, cfg.Quota = true, w.store
	return cfg
}

// methods returns a wire that answers HEAD with the replies in head, if there is one for the URL, and
// all other requests with those in answers. It also returns the list of requests, with their methods.
func methods(head, answers map[string]reply) (*wire, func() []string) {
	w := new(wire)
	var asked []string
	w.answer = func(r *http.Request, url string, _ int) (reply, bool) {
		w.mu.Lock()
		asked = append(asked, r.Method+" "+url)
		w.mu.Unlock()
		if answer, is := head[url]; is && r.Method == http.MethodHead {
			return answer, true
		}
		answer, is := answers[url]
		return answer, is
	}
	return w, func() []string {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.Clone(asked)
	}
}

// hops returns the answers of a chain of redirects on one host.
func hops(url string, n int) map[string]reply {
	answers := map[string]reply{}
	at := url
	for i := range n {
		next := fmt.Sprintf("%s/hop%d", url, i+1)
		answers[at] = redirect(next)
		at = next
	}
	return answers
}

// TestCheckAnswers: what each answer says about a link, and which requests a check makes.
func TestCheckAnswers(t *testing.T) {
	const url = "http://out.test/x"
	broken := func(err error) map[string]reply { return map[string]reply{url: {broken: err}} }
	is := func(answer reply) map[string]reply { return map[string]reply{url: answer} }
	withHeader := func(code int, name, value string) reply {
		return reply{status: code, header: map[string]string{name: value}}
	}
	robots := func(answer reply) map[string]reply { return map[string]reply{"http://out.test/robots.txt": answer} }
	for _, c := range []struct {
		name          string
		head, answers map[string]reply
		want          string
		status        int
		asked         string // methods of the requests after that for robots.txt, which begin with H or G
		why           string // part of the error
	}{
		{name: "200", want: "ok", status: 200, asked: "H"},
		{name: "204", answers: is(status(204)), want: "ok", status: 204, asked: "H"},
		{name: "404", answers: is(status(404)), want: "broken", status: 404, asked: "HG", why: "status 404"},
		{name: "410", answers: is(status(410)), want: "broken", status: 410, asked: "HG", why: "status 410"},
		{name: "401", answers: is(status(401)), want: "unknown", status: 401, asked: "HG"},
		{name: "403", answers: is(status(403)), want: "unknown", status: 403, asked: "HG"},
		{name: "429", answers: is(status(429)), want: "unknown", status: 429, asked: "HG"},
		{name: "999", answers: is(status(999)), want: "unknown", status: 999, asked: "HG"},
		{name: "500", answers: is(status(500)), want: "unknown", status: 500, asked: "HG"},
		{name: "503", answers: is(status(503)), want: "unknown", status: 503, asked: "HG"},
		{name: "503 until later", answers: is(withHeader(503, "Retry-After", "60")), want: "unknown", status: 503, asked: "H"},
		{name: "400", answers: is(status(400)), want: "unknown", status: 400, asked: "HG"},
		{name: "304", answers: is(status(304)), want: "unknown", status: 304, asked: "H"},
		{name: "405 for HEAD", head: is(status(405)), want: "ok", status: 200, asked: "HG"},
		{name: "501 for HEAD", head: is(status(501)), want: "ok", status: 200, asked: "HG"},
		{name: "404 for HEAD", head: is(status(404)), want: "ok", status: 200, asked: "HG"},
		{name: "404 for GET after 405", head: is(status(405)), answers: is(status(404)), want: "broken", status: 404, asked: "HG"},
		{name: "HEAD has no answer", head: broken(errBroken), want: "ok", status: 200, asked: "HG"},
		{name: "no answer", answers: broken(errBroken), want: "unknown", asked: "HG", why: "connection broken"},
		{name: "no such host", answers: broken(&net.DNSError{Err: "no such host", IsNotFound: true}), want: "broken", asked: "H", why: "no such host"},
		{name: "no name server", answers: broken(&net.DNSError{Err: "server misbehaving", IsTemporary: true}), want: "unknown", asked: "HG"},
		{name: "refused", answers: broken(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), want: "broken", asked: "H", why: "refused"},
		{name: "certificate", answers: broken(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), want: "broken", asked: "H", why: "unknown authority"},
		{name: "no TLS", answers: broken(tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}), want: "unknown", asked: "H"},
		{name: "time ran out", answers: is(reply{wait: time.Hour}), want: "unknown", asked: "H", why: "30s"},
		{name: "a wall", answers: is(withHeader(404, "Cf-Mitigated", "challenge")), want: "unknown", status: 404, asked: "HG", why: "wall"},
		{name: "a wall with 200", answers: is(withHeader(200, "X-Amzn-Waf-Action", "captcha")), want: "unknown", status: 200, asked: "H", why: "wall"},
		{name: "a wall of the site", answers: is(redirect("/account/log-in.php?next=x")), want: "unknown", status: 302, asked: "H", why: "log in"},
		{name: "a wall at another host", answers: is(redirect("https://consent.out.test/?continue=x")), want: "unknown", status: 302, asked: "H", why: "consent"},
		{name: "5 redirects", answers: hops(url, 5), want: "ok", status: 200, asked: "HHHHHH"},
		{name: "6 redirects", answers: hops(url, 6), want: "unknown", status: 302, asked: "HHHHHH", why: "more than 5 redirects"},
		{name: "a loop", answers: map[string]reply{url: redirect("/y"), "http://out.test/y": redirect("/x")}, want: "unknown", status: 302, asked: "HH", why: "lead back"},
		{name: "another spelling", answers: is(redirect("/x?utm_source=a")), want: "ok", status: 200, asked: "HH"},
		{name: "a redirect to no page", answers: map[string]reply{url: redirect("/y"), "http://out.test/y": status(404)}, want: "broken", status: 404, asked: "HHG"},
		{name: "a redirect without a target", answers: is(status(302)), want: "unknown", status: 302, asked: "H"},
		{name: "robots.txt forbids it", answers: robots(page("User-agent: *\nDisallow: /x")), want: "unknown", why: "robots.txt: Disallow: /x"},
		{name: "robots.txt forbids the target", answers: map[string]reply{
			url: redirect("/y"), "http://out.test/robots.txt": page("User-agent: *\nDisallow: /y"),
		}, want: "unknown", asked: "H", why: "robots.txt: Disallow: /y"},
		{name: "no robots.txt now", answers: robots(status(503)), want: "unknown", why: "status 503"},
		{name: "robots.txt has no answer", answers: robots(reply{broken: errBroken}), want: "unknown", why: "robots.txt: "},
		{name: "the host refuses robots.txt", answers: robots(reply{broken: syscall.ECONNREFUSED}), want: "broken", why: "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net, asked := methods(c.head, c.answers)
				inner := net.answer
				net.answer = func(r *http.Request, u string, try int) (reply, bool) {
					if u == "http://site.test/" {
						return links(url, url+"#again"), true
					}
					return inner(r, u, try)
				}
				w := newWorld(t, net)
				w.crawl(checking(w), "http://site.test/")
				r := w.sink.recordOf(t, url)
				if r.Check != c.want || r.Outcome != "check_"+c.want || r.Status != c.status || !strings.Contains(r.Error, c.why) || (r.Error == "") != (c.want == "ok") {
					t.Errorf("check %q, outcome %q, status %d, error %q, want check %q, status %d, error with %q", r.Check, r.Outcome, r.Status, r.Error, c.want, c.status, c.why)
				}
				got := ""
				for _, request := range asked() {
					if method, u, _ := strings.Cut(request, " "); strings.HasPrefix(u, "http://out.test/") && !strings.HasSuffix(u, "/robots.txt") {
						got += method[:1]
					}
				}
				if got != c.asked {
					t.Errorf("requests %q, want %q", got, c.asked)
				}
				if r.Attempts != 1 || r.Host != "out.test" || r.LinksFound != 0 || r.Bytes != 0 {
					t.Errorf("the record is %+v, want 1 attempt, no links, no body", r)
				}
				stats := w.stats()
				if stats.Pages != 1 || stats.Checks != (frontier.Checks{Added: 1}) || stats.Outcomes[frontier.Outcome(r.Outcome)] != 1 {
					t.Errorf("%d pages, checks %+v, outcomes %v, want 1 page and a check", stats.Pages, stats.Checks, stats.Outcomes)
				}
				judgePace(t, net.log())
			})
		})
	}
}

// judgePace: no two requests to a registrable domain outside the site start within a second. Requests
// for robots.txt count too.
func judgePace(t *testing.T, calls []call) {
	t.Helper()
	last := map[string]call{}
	for _, c := range calls {
		domain := canon.Domain(c.host)
		if domain == "site.test" {
			continue
		}
		if before, is := last[domain]; is && c.start.Sub(before.start) < time.Second-slack {
			t.Errorf("%s started %v after %s, want 1s or more", c.url, c.start.Sub(before.start), before.url)
		}
		last[domain] = c
	}
}

// TestChecksKeepThePace: checks of hosts of one domain share a pace, also with redirects from another
// domain, and with a worker that has no delay. Checks of different domains do not wait for each other.
func TestChecksKeepThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refs []string
		answers := map[string]reply{}
		for n := range 4 {
			refs = append(refs, fmt.Sprintf("http://a.example.test/%d", n), fmt.Sprintf("http://b.example.test/%d", n), fmt.Sprintf("http://far%d.test/", n))
			answers[fmt.Sprintf("http://far%d.test/", n)] = redirect(fmt.Sprintf("http://c.example.test/%d", n))
		}
		answers["http://site.test/"] = links(refs...)
		w := newWorld(t, pages(answers))
		cfg := checking(w)
		cfg.Politeness.Delay, cfg.Politeness.LatencyFactor = 0, 0
		start := time.Now()
		w.crawl(cfg, "http://site.test/")
		judgePace(t, w.wire.log())
		if got := w.stats().Outcomes[frontier.CheckOK]; got != 12 {
			t.Errorf("%d checks are ok, want 12", got)
		}
		// 12 URLs and 3 robots.txt of example.test; nothing else takes as long.
		if took := time.Since(start); took < 14*time.Second || took > 25*time.Second {
			t.Errorf("the crawl took %v, want about 15s", took)
		}
	})
}

// TestChecksKeepTheDelayOfCrawledHosts: a redirect of a check to a host that is crawled waits for the
// delay of that host.
func TestChecksKeepTheDelayOfCrawledHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refs := []string{"http://out.test/1", "http://out.test/2"}
		for n := range 6 {
			refs = append(refs, fmt.Sprintf("/%d", n))
		}
		answers := map[string]reply{"http://site.test/": links(refs...)}
		for _, url := range refs[:2] {
			answers[url] = redirect("http://site.test/from" + url[len(url)-1:])
		}
		w := newWorld(t, pages(answers))
		cfg := checking(w)
		cfg.Politeness.Delay = 3 * time.Second
		w.crawl(cfg, "http://site.test/")
		judgeStarts(t, w.wire.log(), func(string) politeness.Policy { return cfg.Politeness })
		if w.wire.count("http://site.test/from1") != 1 || w.stats().Outcomes[frontier.CheckOK] != 2 {
			t.Errorf("the redirects were not followed: %q", w.wire.urls())
		}
	})
}

// TestCheckWaitsForRetryAfter: after a Retry-After, the domain gets no request until then.
func TestCheckWaitsForRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		later := reply{status: 429, header: map[string]string{"Retry-After": "90"}}
		w := newWorld(t, pages(map[string]reply{"http://site.test/": links("http://a.out.test/", "http://b.out.test/"), "http://a.out.test/": later}))
		w.crawl(checking(w), "http://site.test/")
		var starts []time.Time
		for _, c := range w.wire.log() {
			if strings.HasSuffix(c.host, ".out.test") && !c.robots() {
				starts = append(starts, c.start)
			}
		}
		if len(starts) != 2 || starts[1].Sub(starts[0]) < 90*time.Second {
			t.Errorf("requests at %v, want two, 90s apart", starts)
		}
	})
}

// TestWhatIsChecked: which links are checked, and how often.
func TestWhatIsChecked(t *testing.T) {
	nofollow := page(`<a href="http://out.test/" rel="nofollow">x</a>`)
	deep := map[string]reply{"http://site.test/": links("/1"), "http://site.test/1": links("/2", "http://out.test/deep")}
	for _, c := range []struct {
		name    string
		answers map[string]reply
		change  func(cfg *config)
		want    []string // URLs with a check
		refused map[frontier.Reason]uint64
	}{
		{name: "twice", answers: map[string]reply{"http://site.test/": links("http://out.test/", "/1"), "http://site.test/1": links("http://out.test/")},
			want: []string{"http://out.test/"}},
		{name: "off", answers: map[string]reply{"http://site.test/": links("http://out.test/")},
			change: func(cfg *config) { cfg.CheckExternal = false }, refused: map[frontier.Reason]uint64{frontier.ReasonScope: 1}},
		{name: "nofollow", answers: map[string]reply{"http://site.test/": nofollow}, refused: map[frontier.Reason]uint64{frontier.ReasonNofollow: 1}},
		{name: "excluded", answers: map[string]reply{"http://site.test/": links("http://out.test/a", "http://out.test/b")},
			change: func(cfg *config) {
				cfg.Rules.Exclude, cfg.Rules.Include = []*regexp.Regexp{regexp.MustCompile("/a$")}, []*regexp.Regexp{regexp.MustCompile("^http://site")}
			},
			want: []string{"http://out.test/b"}, refused: map[frontier.Reason]uint64{frontier.ReasonExcluded: 1}},
		{name: "a port of another service", answers: map[string]reply{"http://site.test/": links("http://out.test:25/")},
			refused: map[frontier.Reason]uint64{frontier.ReasonPort: 1}},
		{name: "on the deepest page", answers: deep, change: func(cfg *config) { cfg.Rules.MaxDepth = 1 },
			want: []string{"http://out.test/deep"}, refused: map[frontier.Reason]uint64{frontier.ReasonDepth: 1}},
		{name: "a redirect", answers: map[string]reply{"http://site.test/": links("/1"), "http://site.test/1": redirect("http://out.test/")},
			want: []string{"http://out.test/"}},
		{name: "subdomains", answers: map[string]reply{"http://site.test/": links("http://www.site.test/", "http://out.test/")},
			change: func(cfg *config) { cfg.Rules.Scope = canon.ScopeSubdomains }, want: []string{"http://out.test/"}},
		{name: "any", answers: map[string]reply{"http://site.test/": links("http://out.test/")},
			change: func(cfg *config) { cfg.Rules.Scope = canon.ScopeAny }},
		{name: "all exact", answers: map[string]reply{"http://site.test/": links("http://out.test/")},
			change: func(cfg *config) { cfg.Exact, _ = fetcher.ParseExact("all") }, want: []string{"http://out.test/"}},
		{name: "a maximum", answers: map[string]reply{"http://site.test/": links("http://out.test/1", "http://out.test/2", "http://out.test/3", "/1"),
			"http://site.test/1": links("http://out.test/1", "http://out.test/4")},
			change: func(cfg *config) { cfg.MaxExternal = 2 }, want: []string{"http://out.test/1", "http://out.test/2"},
			refused: map[frontier.Reason]uint64{frontier.ReasonExternal: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, pages(c.answers))
				cfg := checking(w)
				var told []fetcher.Refused
				cfg.OnRefused = func(r fetcher.Refused) { told = append(told, r) }
				cfg.HostConcurrency = 1
				if c.change != nil {
					c.change(&cfg)
				}
				w.crawl(cfg, "http://site.test/")
				var checked []string
				for _, r := range w.sink.records {
					if r.Check != "" {
						checked = append(checked, r.URL)
						if r.Class != "" || r.ReferrerID == "" {
							t.Errorf("the record has class %q and referrer %q, want none and one", r.Class, r.ReferrerID)
						}
					}
				}
				slices.Sort(checked)
				if !slices.Equal(checked, c.want) {
					t.Errorf("checked %q, want %q", checked, c.want)
				}
				got := w.stats().Refused
				if fmt.Sprint(got) != fmt.Sprint(c.refused) && len(got)+len(c.refused) > 0 {
					t.Errorf("refused %v, want %v", got, c.refused)
				}
				for _, r := range told {
					if strings.HasPrefix(r.URL, "check ") {
						t.Errorf("OnRefused was called with %+v", r)
					}
				}
			})
		})
	}
}

// TestCheckedURLIsCrawledLater: a later seed of a URL that was checked is crawled, and so is a link to
// it when its host is in scope.
func TestCheckedURLIsCrawledLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://site.test/":  links("http://out.test/", "http://out.test/page"),
			"http://out.test/":   links("/page", "/new"),
			"http://site.test/2": links("http://out.test/page2"),
		}))
		w.crawl(checking(w), "http://site.test/")
		w.sink = &sink{}
		cfg := checking(w)
		cfg.Sink = w.sink
		c := w.worker(cfg)
		w.seed(c, "http://out.test/")
		if end, err := c.Run(t.Context()); end != fetcher.Empty || err != nil {
			t.Fatal(end, err)
		}
		for _, url := range []string{"http://out.test/", "http://out.test/page", "http://out.test/new"} {
			if r := w.sink.recordOf(t, url); r.Outcome != "ok" || r.Check != "" {
				t.Errorf("%s: outcome %q, check %q, want a page", url, r.Outcome, r.Check)
			}
		}
	})
}

// TestChecksAreNoPages: checks do not count towards MaxPages, and are made after it is reached.
func TestChecksAreNoPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://site.test/":  links("http://out.test/1", "/1", "/2", "/3", "/4"),
			"http://site.test/1": links("http://out.test/2", "http://out.test/3", "http://out.test/4", "http://else.test/"),
		}))
		cfg := checking(w)
		cfg.MaxPages = 2
		w.crawlTo(fetcher.Limit, cfg, "http://site.test/")
		stats := w.stats()
		if stats.Pages != 2 || stats.Checks != (frontier.Checks{Added: 5}) || stats.Outcomes[frontier.CheckOK] != 5 || stats.Queued != 3 {
			t.Errorf("%d pages, checks %+v, outcomes %v, %d queued, want 2 pages and 5 checks", stats.Pages, stats.Checks, stats.Outcomes, stats.Queued)
		}
	})
}

// TestStopDuringCheck: a check that a stop interrupts goes back to the queue, and a later run makes it.
func TestStopDuringCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{"http://site.test/": links("http://out.test/"), "http://out.test/": {status: 404, wait: 3 * time.Second}}))
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // during HEAD, before GET
		defer cancel()
		c := w.worker(checking(w))
		w.seed(c, "http://site.test/")
		if end, err := c.Run(ctx); end != fetcher.Stopped || err != nil {
			t.Fatal(end, err)
		}
		w.balanced()
		if got := w.stats().Checks; got.Queued != 1 {
			t.Fatalf("checks after the stop: %+v, want one queued", got)
		}
		if end, err := w.worker(checking(w)).Run(t.Context()); end != fetcher.Empty || err != nil {
			t.Fatal(end, err)
		}
		w.balanced()
		if r := w.sink.recordOf(t, "http://out.test/"); r.Check != "broken" {
			t.Errorf("the check is %q, want broken", r.Check)
		}
	})
}

// TestPageHasNoChecks: OnPage sees only the links that are crawled.
func TestPageHasNoChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{"http://site.test/": links("http://out.test/", "/1")}))
		cfg := checking(w)
		cfg.OnPage = func(_ context.Context, p *fetcher.Page) error {
			if urls := p.Links(); p.URL.Path() == "/" && !slices.Equal(urls, []string{"http://site.test/1"}) {
				t.Errorf("links %q, want only that of the site", urls)
			}
			p.Drop(func(string) bool { return false })
			return nil
		}
		w.crawl(cfg, "http://site.test/")
		if r := w.sink.recordOf(t, "http://out.test/"); r.Check != "ok" {
			t.Errorf("check %q, want ok", r.Check)
		}
	})
}
