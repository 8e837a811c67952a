package fetcher_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
)

// preferencesText returns preferences in short, without drafts.
func preferencesText(p *record.Preferences) string {
	if p == nil {
		return ""
	}
	texts := []string{p.TrainAI, p.AIUse, p.Search}
	for _, s := range p.Sources {
		texts = append(texts, s.Source+": "+s.Value)
	}
	return strings.Join(texts, " | ")
}

// TestPreferencesOfPages: the record of a page has what its owner says, and the request is made anyway.
func TestPreferencesOfPages(t *testing.T) {
	const usage = "Content-Usage"
	answers := map[string]reply{
		"http://a.test/robots.txt": text("User-agent: *\nContent-Usage: /shop train-ai=n\nContent-Signal: search=yes\nUser-agent: other\nContent-Usage: / search=n"),
		"http://a.test/":           links("/shop/1", "/elements", "/gone", "http://b.test/"),
		"http://a.test/shop/1":     {header: map[string]string{usage: "ai-use=n, x-y=" + strings.Repeat("z", 2000)}},
		"http://a.test/elements": page(`<meta name="tdm-reservation" content="1"><meta name=robots content="noai"><meta name=author content=x>` +
			`<template><meta name=robots content=noai></template><title>t</title>`),
		"http://a.test/gone": {status: 404, header: map[string]string{usage: "ai-use=n"}},
		"http://b.test/":     page("nothing"),
	}
	want := map[string]string{
		"http://a.test/":         "unknown | unknown | allowed | robots_content_signal: / search=yes",
		"http://a.test/shop/1":   "refused | refused | allowed | robots_content_usage: /shop train-ai=n | robots_content_signal: / search=yes | header_content_usage: ai-use=n, x-y=" + strings.Repeat("z", 1024-len("ai-use=n, x-y=")),
		"http://a.test/elements": "refused | refused | allowed | robots_content_signal: / search=yes | meta_robots: noai | meta_tdm_reservation: 1",
		"http://a.test/gone":     "",
		"http://b.test/":         "",
	}
	for name, mode := range map[string]policy.Preferences{"page": policy.PagePreferences, "none": policy.NoPreferences} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, pages(answers))
				cfg := w.config()
				cfg.Preferences, cfg.Rules = mode, anywhere
				w.crawl(cfg, "http://a.test/")
				for url, want := range want {
					if mode == policy.NoPreferences {
						want = ""
					}
					r := w.sink.recordOf(t, url)
					if got := preferencesText(r.Preferences); got != want {
						t.Errorf("%s: preferences %q, want %q", url, got, want)
					}
				}
				if n := len(w.wire.urls()); n != 7 {
					t.Errorf("%d requests, want 5 pages and 2 robots.txt: %q", n, w.wire.urls())
				}
			})
		})
	}
}

// TestContentUse: a page whose owner refuses a use of the crawl is not requested, or nothing of it is kept.
func TestContentUse(t *testing.T) {
	type result struct {
		outcome  frontier.Outcome
		requests int
	}
	body := `<title>secret</title><p>secret text</p><a href="/behind">x</a>`
	answers := map[string]reply{
		"http://a.test/robots.txt": text("User-agent: *\nDisallow: /closed\nContent-Usage: /train train-ai=n\nContent-Usage: /find search=n\nContent-Signal: /input ai-input=no"),
		"http://a.test/":           links("/train", "/find", "/input", "/header", "/meta", "/reserved", "/free", "/closed", "/moved", "/unknown"),
		"http://a.test/train":      page(body),
		"http://a.test/find":       page("found"),
		"http://a.test/input":      page(body),
		"http://a.test/header":     {header: map[string]string{"Content-Usage": "train-ai=n"}, body: body},
		"http://a.test/meta":       page(`<meta name=robots content=noai>` + body),
		"http://a.test/reserved":   {header: map[string]string{"Tdm-Reservation": "1"}, body: body},
		"http://a.test/free":       {header: map[string]string{"Content-Usage": "train-ai=y, ai-use=y, search=n"}, body: "free"},
		"http://a.test/unknown":    {header: map[string]string{"Content-Usage": "train-ai=perhaps"}, body: "unknown"},
		"http://a.test/moved":      {status: 301, header: map[string]string{"Location": "/target", "Content-Usage": "train-ai=n"}},
	}
	for _, mode := range []policy.Preferences{policy.PagePreferences, policy.NoPreferences} {
		t.Run(fmt.Sprint("mode=", mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, pages(answers))
				cfg := w.config()
				cfg.ContentUse, cfg.Text, cfg.Preferences = []string{"train-ai", "ai-use"}, true, mode
				var mu = make(chan struct{}, 1)
				handed, answered := map[string]bool{}, map[string]frontier.Outcome{}
				cfg.OnPage = func(_ context.Context, p *fetcher.Page) error {
					mu <- struct{}{}
					defer func() { <-mu }()
					handed[p.URL.String()] = true
					return nil
				}
				cfg.OnAnswer = func(_ context.Context, a *fetcher.Answer) error {
					mu <- struct{}{}
					defer func() { <-mu }()
					answered[a.URL.String()] = a.Outcome
					return nil
				}
				w.crawl(cfg, "http://a.test/")
				for url, want := range map[string]result{
					"http://a.test/": {frontier.OK, 1}, "http://a.test/train": {frontier.RefusedUse, 0}, "http://a.test/find": {frontier.OK, 1},
					"http://a.test/input": {frontier.RefusedUse, 0}, "http://a.test/header": {frontier.RefusedUse, 1}, "http://a.test/meta": {frontier.RefusedUse, 1},
					"http://a.test/reserved": {frontier.RefusedUse, 1}, "http://a.test/free": {frontier.OK, 1}, "http://a.test/closed": {frontier.Robots, 0},
					"http://a.test/unknown": {frontier.OK, 1}, "http://a.test/moved": {frontier.Redirect, 1}, "http://a.test/target": {frontier.OK, 1},
				} {
					r := w.sink.recordOf(t, url)
					if r.Outcome != string(want.outcome) || w.wire.count(url) != want.requests {
						t.Errorf("%s: outcome %s after %d requests, want %+v", url, r.Outcome, w.wire.count(url), want)
					}
					if want.outcome != frontier.RefusedUse {
						continue
					}
					line, _ := json.Marshal(r)
					if strings.Contains(string(line), "secret") || r.Digest != "" || r.TextDigest != "" || r.Bytes != 0 || r.LinksFound != 0 || !strings.HasPrefix(r.Error, "its owner refuses ") {
						t.Errorf("%s: the record has more than it should, or no reason: %s", url, line)
					}
					if has := r.Preferences != nil; has != (mode != policy.NoPreferences) {
						t.Errorf("%s: preferences %v", url, r.Preferences)
					}
					if handed[url] || want.requests > 0 && answered[url] != frontier.RefusedUse {
						t.Errorf("%s: OnPage called is %v, OnAnswer got %q, want only OnAnswer", url, handed[url], answered[url])
					}
				}
				if got := w.sink.recordOf(t, "http://a.test/train").Error; got != "its owner refuses train-ai: robots_content_usage: /train train-ai=n" {
					t.Errorf("the reason is %q", got)
				}
				if n := w.wire.count("http://a.test/behind"); n > 0 {
					t.Errorf("a link of a refused page was requested")
				}
				if n := w.stats().Outcomes[frontier.RefusedUse]; n != 5 {
					t.Errorf("%d pages were refused, want 5", n)
				}
			})
		})
	}
}

// TestContentUseLater: a change of the policy holds for the next page.
func TestContentUseLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://a.test/robots.txt": text("User-agent: *\nContent-Usage: /p search=n"),
			"http://a.test/":           links("/p/1", "/p/2", "/p/3"),
		}))
		cfg := w.config()
		cfg.Politeness = every(time.Minute)
		w.changing(fetcher.Empty, cfg, []string{"http://a.test/"}, []time.Duration{150 * time.Second}, func(p *policy.Policy) { p.ContentUse = []string{"search"} })
		if got := w.stats().Outcomes; got[frontier.OK] != 2 || got[frontier.RefusedUse] != 2 {
			t.Errorf("outcomes %v, want 2 ok before the change and 2 refused_use after it", got)
		}
	})
}

// TestContentUseManyLinks: no link of a page with very many links is followed if the page refuses the use.
func TestContentUseManyLinks(t *testing.T) {
	var many strings.Builder
	many.WriteString("<meta name=robots content=noai>")
	for i := range 100_000 {
		fmt.Fprintf(&many, `<a href="/behind/%d/%s">x</a>`, i, strings.Repeat("y", 200))
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{"http://a.test/": page(many.String())}))
		cfg := w.config()
		cfg.ContentUse, cfg.Preferences = []string{"train-ai"}, policy.NoPreferences
		cfg.Client = clientOf(t, get.Config{Transport: w.wire, MaxBodyBytes: 64 << 20})
		w.crawl(cfg, "http://a.test/")
		if stats := w.stats(); stats.Outcomes[frontier.RefusedUse] != 1 || stats.Books.Added != 1 {
			t.Errorf("outcomes %v, %d URLs added, want only the page", stats.Outcomes, stats.Books.Added)
		}
	})
}

// TestContentUseSpelling: another spelling of a URL is not requested if robots.txt refuses its use.
func TestContentUseSpelling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://a.test/robots.txt": text("User-agent: *\nContent-Usage: /*utm_source train-ai=n"),
			"http://a.test/p":          redirect("/p?utm_source=x"),
		}))
		cfg := w.config()
		cfg.ContentUse = []string{"train-ai"}
		w.crawl(cfg, "http://a.test/p")
		if r := w.sink.recordOf(t, "http://a.test/p"); r.Outcome != string(frontier.RefusedUse) || len(w.pageCalls()) != 1 {
			t.Errorf("record %+v after %d requests for pages, want refused_use after one", r, len(w.pageCalls()))
		}
	})
}

// TestTDMFile: with FullPreferences, tdmrep.json is requested once for each origin, after robots.txt, with the
// delay of the host, and its rules count.
func TestTDMFile(t *testing.T) {
	const file = `[{"location": "/own", "tdm-reservation": 1, "tdm-policy": "https://a.test/policy"}, {"location": "/", "tdm-reservation": 0}]`
	answers := map[string]reply{
		"http://a.test/.well-known/tdmrep.json": {body: file, contents: "application/json"},
		"http://a.test/":                        links("/own/1", "/own/2", "/other", "http://b.test/own", "http://c.test/own", "http://d.test/own", "http://e.test/own"),
		"http://a.test/own/2":                   {header: map[string]string{"Tdm-Reservation": "0"}},
		"http://b.test/robots.txt":              text("User-agent: *\nDisallow: /.well-known"),
		"http://b.test/.well-known/tdmrep.json": {body: file},
		"http://c.test/.well-known/tdmrep.json": status(404),
		"http://d.test/.well-known/tdmrep.json": page("<html>no such page"),
		"http://e.test/.well-known/tdmrep.json": status(503),
	}
	want := map[string]string{
		"http://a.test/":      "unknown | unknown | unknown | file_tdm_reservation: 0",
		"http://a.test/own/1": "refused | refused | unknown | file_tdm_reservation: 1 | file_tdm_policy: https://a.test/policy",
		"http://a.test/own/2": "unknown | unknown | unknown | header_tdm_reservation: 0 | file_tdm_reservation: 1 | file_tdm_policy: https://a.test/policy",
		"http://a.test/other": "unknown | unknown | unknown | file_tdm_reservation: 0",
		"http://b.test/own":   "", "http://c.test/own": "", "http://d.test/own": "", "http://e.test/own": "",
	}
	for name, use := range map[string][]string{"no use": nil, "ai-use": {"ai-use"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, pages(answers))
				cfg := w.config()
				cfg.Preferences, cfg.ContentUse, cfg.Rules = policy.FullPreferences, use, anywhere
				w.crawl(cfg, "http://a.test/")
				for url, want := range want {
					r := w.sink.recordOf(t, url)
					if got := preferencesText(r.Preferences); got != want && (use == nil || url != "http://a.test/own/2") {
						t.Errorf("%s: preferences %q, want %q", url, got, want)
					}
				}
				if got := w.sink.recordOf(t, "http://a.test/own/1"); (got.Outcome == string(frontier.RefusedUse)) != (use != nil) {
					t.Errorf("with the uses %q, the outcome of a reserved page is %s", use, got.Outcome)
				}
				for host, n := range map[string]int{"a": 1, "b": 0, "c": 1, "d": 1, "e": 1} {
					if got := w.wire.count("http://" + host + ".test/.well-known/tdmrep.json"); got != n {
						t.Errorf("%s.test: %d requests for tdmrep.json, want %d", host, got, n)
					}
				}
				judgeStarts(t, w.wire.log(), same(calm()))
			})
		})
	}
}

// TestTDMFileIsRemembered: a later lease of the host does not request tdmrep.json again, unless a day has passed or
// the file is too large for the state of the host.
func TestTDMFileIsRemembered(t *testing.T) {
	for _, test := range []struct {
		name  string
		after time.Duration
		file  string
		want  int
	}{
		{"soon", time.Hour, `[{"location": "/", "tdm-reservation": 1}]`, 1},
		{"after a day", 25 * time.Hour, `[{"location": "/", "tdm-reservation": 1}]`, 2},
		{"large", time.Hour, `[{"location": "/", "tdm-reservation": 1}` + strings.Repeat(" ", 3000) + "]", 2},
		{"too large", time.Hour, `[{"location": "/", "tdm-reservation": 1}` + strings.Repeat(" ", 17000) + "]", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, &wire{answer: func(_ *http.Request, url string, _ int) (reply, bool) {
					return reply{body: test.file}, strings.HasSuffix(url, "tdmrep.json")
				}})
				cfg := w.config()
				cfg.Preferences = policy.FullPreferences
				w.crawl(cfg, "http://a.test/1")
				time.Sleep(test.after)
				w.crawl(cfg, "http://a.test/2")
				if got := w.wire.count("http://a.test/.well-known/tdmrep.json"); got != test.want {
					t.Errorf("%d requests for tdmrep.json, want %d", got, test.want)
				}
				r := w.sink.recordOf(t, "http://a.test/2")
				if reserved := r.Preferences != nil; reserved != (test.name != "too large") {
					t.Errorf("preferences of the second page: %+v", r.Preferences)
				}
			})
		})
	}
}
