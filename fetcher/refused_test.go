package fetcher_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
)

// TestOnRefused: OnRefused is called once for each refused link, with the rule and the
// page. The number of calls equals the number of refused links that the crawl counts.
func TestOnRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, pages(map[string]reply{
			"http://a.test/": page(`<a href=/ok>1</a> <a href=/x?b>2</a> <a href=http://b.test/>3</a> <a href="mailto:a">4</a>
				<a href="http://[x/">5</a> <a rel=nofollow href=/n>6</a> <a href=/drop>7</a> <a href=/loop/0>8</a> <a href=/late>9</a>`),
			"http://a.test/ok":     page(`<meta name=robots content=nofollow><a href=/deep/1>x</a>`),
			"http://a.test/late":   links("/1", "/2", "/3", "/4"),
			"http://a.test/loop/0": redirect("/loop/1"),
			"http://a.test/loop/1": redirect("mailto:b"),
		}), frontiertest.MemoryConfig{MaxPerHost: 6})
		cfg := w.config()
		cfg.Rules.Exclude, cfg.Rules.MaxDepth = []*regexp.Regexp{regexp.MustCompile("zz"), regexp.MustCompile(`\?b$`)}, 2
		tries := 0
		cfg.OnPage = func(_ context.Context, p *fetcher.Page) error {
			p.Drop(func(url string) bool { return strings.HasSuffix(url, "drop") })
			if tries++; tries == 1 {
				return errBroken // the refused links of this page are reported when the page is completed
			}
			return nil
		}
		var mu sync.Mutex
		var got []fetcher.Refused
		cfg.OnRefused = func(r fetcher.Refused) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, r)
		}
		w.crawl(cfg, "http://a.test/")
		const root = "http://a.test/"
		want := []fetcher.Refused{
			{"http://[x/", frontier.ReasonMalformed, "", root},
			{"http://a.test/2", frontier.ReasonHostLimit, "--max-per-host", root + "late"},
			{"http://a.test/3", frontier.ReasonHostLimit, "--max-per-host", root + "late"},
			{"http://a.test/4", frontier.ReasonHostLimit, "--max-per-host", root + "late"},
			{"http://a.test/deep/1", frontier.ReasonNofollow, "robots meta tag", root + "ok"},
			{"http://a.test/drop", frontier.ReasonOnPage, "OnPage", root},
			{"http://a.test/n", frontier.ReasonNofollow, "rel=nofollow", root},
			{"http://a.test/x?b", frontier.ReasonExcluded, `--exclude \?b$`, root},
			{"http://b.test/", frontier.ReasonScope, "--scope host", root},
			{"mailto:a", frontier.ReasonScheme, "", root},
			{"mailto:b", frontier.ReasonScheme, "", root + "loop/1"},
		}
		slices.SortFunc(got, func(a, b fetcher.Refused) int { return strings.Compare(a.URL, b.URL) })
		for i := range got {
			if got[i].Reason == frontier.ReasonScheme || got[i].Reason == frontier.ReasonMalformed {
				if got[i].Rule == "" {
					t.Errorf("%s: Rule is empty, want it to say what is wrong with the URL", got[i].URL)
				}
				got[i].Rule = ""
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("refused links (-want +got):\n%s", diff)
		}
		if n := w.stats().RefusedTotal(); n != uint64(len(got)) {
			t.Errorf("OnRefused was called %d times, but the books count %d refused links", len(got), n)
		}
	})
}
