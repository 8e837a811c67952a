package fetcher_test

import (
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/internal/testweb"
)

// TestOddAnswers crawls the answers of the test web that break a rule of HTTP, HTML or XML, over
// sockets. The judge of the test web knows which pages are found, how often each URL is requested
// and what the records say.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]testweb.Hardships{
		"answers": testweb.OddAnswers,
		"markup":  testweb.OddMarkup,
		"roles":   testweb.OddAnswers | testweb.Sitemaps,
		"feeds":   testweb.Feeds,
		"both":    testweb.Feeds | testweb.Sitemaps,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			web := corners(t, set, 0)
			server, names := serve(t, web, nil)
			w := newWorldOf(t, &wire{}, frontiertest.MemoryConfig{Delay: time.Millisecond})
			cfg := w.config()
			cfg.Client = clientOf(t, get.Config{
				MaxBodyBytes: 256 << 10, DNS: names, ConnectTo: []get.Rule{connectTo(t, "*.test="+server), connectTo(t, "*.example="+server)},
			})
			cfg.Rules, cfg.Sitemaps, cfg.Text = anywhere, set&testweb.Sitemaps != 0, set&testweb.OddMarkup != 0
			cfg.Feeds = set&testweb.Feeds != 0
			cfg.Politeness = impatient(time.Millisecond)
			w.crawl(cfg, web.Seeds()...)
			judge(t, w, web, testweb.Manners{})
		})
	}
}
