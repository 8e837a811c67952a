package fetcher

import (
	"bytes"
	"context"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/internal/sitemap"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/internal/budget"
)

// OccupyParsers takes the turns of all parsers until the returned function is called.
func (c *Crawl) OccupyParsers() (release func()) {
	for range cap(c.readers) {
		c.readers <- struct{}{}
	}
	return func() {
		for range cap(c.readers) {
			<-c.readers
		}
	}
}

// SetDocumentTime replaces documentTime. It must be called before Run.
func (c *Crawl) SetDocumentTime(d time.Duration) { c.documentTime = d }

// SetDearTime replaces dearTime. It must be called before Run.
func (c *Crawl) SetDearTime(d time.Duration) { c.dearTime = d }

// OnStep sets a function that is called every few steps of the work on the page at url. It must
// be called before Run.
func (c *Crawl) OnStep(step func(url string)) { c.onStep = step }

// MemoryTaken returns how many bytes of Config.Memory all visits hold.
func (c *Crawl) MemoryTaken() int64 { return c.memory.Taken() }

// RulesTaken returns how many bytes the rules of robots.txt files take.
func (c *Crawl) RulesTaken() int64 {
	c.ruleBook.mu.Lock()
	defer c.ruleBook.mu.Unlock()
	return c.ruleBook.taken
}

// TestLargestSitemapFits: with 128 MiB, which is half of --memory 256MiB, a sitemap of the
// largest size that the protocol allows is read to its end.
func TestLargestSitemapFits(t *testing.T) {
	client, err := get.New(get.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for memory, part := range map[int64]int64{0: 1, 128 << 20: 1, 1 << 30: 1, 64 << 20: 2} {
		cfg := Config{Client: client, Policy: policy.NewLive(&policy.Policy{Sitemaps: true}).Load, Memory: memory}
		h := &holding{Crawl: &Crawl{cfg: cfg, memory: cfg.budget()}}
		request := h.request(frontier.Item{Class: frontier.Sitemap}, get.Request{})
		if request.MaxBody != sitemap.MaxBytes/part || cfg.sitemapMemory(request.MaxBody) > h.memory.Largest() {
			t.Errorf("with %d bytes of memory: %d bytes of a sitemap are read, want %d; at most %d are held",
				memory, request.MaxBody, sitemap.MaxBytes/part, h.memory.Largest())
		}
	}
}

// TestStarvedAnswerIsGivenBack: if an answer does not get its memory before its time is over,
// this is not a failure of the host.
func TestStarvedAnswerIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Crawl{backlog: newBacklog(0)}
		b := budget.New(10, 5)
		first, _ := b.Take(t.Context(), 5)
		second, _ := b.Take(t.Context(), 5)
		third, _ := b.Take(t.Context(), 0)
		for _, share := range []*budget.Share{first, second, third} {
			defer share.Release()
		}
		timeout := &get.Error{Op: get.OpBody, Err: context.DeadlineExceeded}
		for patience, aborted := range map[time.Duration]bool{0: false, time.Second: false, time.Minute: true} {
			g := c.newGrowth(third)
			time.Sleep(10 * time.Second)
			if patience > 0 {
				late, cancel := context.WithTimeout(t.Context(), patience)
				if err := g.grow(late, 1); err == nil {
					t.Fatal("memory was granted, want none")
				}
				cancel()
			}
			if err := g.explain(timeout); get.Classify(err).Aborted != aborted {
				t.Errorf("after 10 s, and %v of waiting for memory: the error is %v; gives back %t, want %t", patience, err, !aborted, aborted)
			}
		}
	})
}

// TestNoPageIsReadAfterTheAbort calls takeReader after requests were aborted, while
// there is a free place for a reader. The abort must win each time.
func TestNoPageIsReadAfterTheAbort(t *testing.T) {
	aborted, abort := context.WithCancel(t.Context())
	c := &Crawl{hard: aborted, readers: make(chan struct{}, 1)}
	if !c.takeReader() {
		t.Fatal("takeReader() = false before the abort")
	}
	<-c.readers
	abort()
	for range 100 {
		if c.takeReader() {
			t.Fatal("takeReader() = true after the abort")
		}
		if len(c.readers) != 0 {
			t.Fatal("the reader was not given back")
		}
	}
}

// TestFeedFitsIntoItsMemory reads feeds with the longest tokens. At no time more than feedMemory is in
// use beside the body.
func TestFeedFitsIntoItsMemory(t *testing.T) {
	const size = 1 << 20
	long := strings.Repeat("x", size-100)
	for name, file := range map[string]string{
		"text":       "<rss><item><link>" + long + "</link></item><item><link>/a</link></item></rss>",
		"CDATA":      "<rss><item><link><![CDATA[" + long + "]]></link></item></rss>",
		"value":      "<feed><entry><link href='" + long + "'/></entry></feed>",
		"base":       "<feed xml:base='" + long + "'><entry><link href='/a'/></entry></feed>",
		"name":       "<rss><" + long + "/><item><link>/a</link></item></rss>",
		"comment":    "<rss><!--" + long + "--><item><link>/a</link></item></rss>",
		"too long":   "<rss><item><link>" + long + long + long + long,
		"one line":   long + long + long + long,
		"elements":   "<rss>" + strings.Repeat("<item>", size/6),
		"references": "<rss><item><link>" + strings.Repeat("&amp;", size/5-50) + "</link></item></rss>",
	} {
		var before runtime.MemStats
		body := []byte(file)
		runtime.GC()
		runtime.ReadMemStats(&before)
		most := int64(0)
		watch := func() {
			var now runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, int64(now.HeapAlloc)-int64(before.HeapAlloc))
		}
		_, err := sitemap.ReadFeed(&watched{from: bytes.NewReader(body), watch: watch}, "", func(sitemap.Entry) bool { watch(); return true })
		if most > feedMemory || most == 0 {
			t.Errorf("%s: %d bytes in use, want at most %d (%v)", name, most, feedMemory, err)
		}
		runtime.KeepAlive(body)
	}
}

// watched is a reader that calls the function watch after every 64 KiB.
type watched struct {
	from  io.Reader
	watch func()
	read  int
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.from.Read(p)
	if w.read += n; w.read >= 64<<10 || err != nil {
		w.watch()
		w.read = 0
	}
	return n, err
}
