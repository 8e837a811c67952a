package fetcher_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
)

// TestMayNeedJSRecord checks which records have the hint that a page may need JavaScript, and that
// the worker counts the seeds with it. The body of a page decides in TestMayNeedJS of package extract.
func TestMayNeedJSRecord(t *testing.T) {
	const app = `<div id="root"></div><script src="/main.js"></script>`
	server := newRawServer(t, func(path string, _ int) string {
		answer := func(status int, contentType string, body string) string {
			return fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", status, contentType, len(body), body)
		}
		switch path {
		case "/app":
			return rawAnswer(app)
		case "/":
			return rawAnswer(`<a href="/below">x</a>`)
		case "/below":
			return rawAnswer(app)
		case "/created":
			return answer(http.StatusCreated, "text/html", app)
		case "/plain":
			return answer(http.StatusOK, "text/plain", app)
		case "/cut":
			return rawPage + "Content-Length: 9999\r\n\r\n" + app
		case "/long":
			return rawAnswer(app + "<script>" + strings.Repeat("x();", 1<<20) + `</script><a href="/x">x</a>`)
		}
		return "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
	})
	w := newWorldOf(t, &wire{}, frontiertest.MemoryConfig{Delay: time.Millisecond})
	cfg := w.config()
	cfg.Client = clientOf(t, get.Config{ConnectTo: []get.Rule{connectTo(t, "*="+server.addr)}, MaxBodyBytes: 64 << 10})
	cfg.Politeness = impatient(time.Millisecond)
	worker, all := w.worker(cfg), []string{"/app", "/", "/created", "/plain", "/cut", "/long"}
	var seeds []string
	for _, path := range all {
		seeds = append(seeds, "http://a.test"+path)
	}
	w.crawlWith(worker, fetcher.Empty, seeds...)
	for _, path := range append(all, "/below") {
		want := path == "/app" || path == "/below"
		if r := w.sink.recordOf(t, "http://a.test"+path); r.Status < 200 || r.Status > 299 || r.MayNeedJS != want {
			t.Errorf("%s: want a page whose MayNeedJS is %t: %+v", path, want, r)
		}
	}
	want := fetcher.ScriptSeeds{Count: 1, URLs: []string{"http://a.test/app"}}
	if diff := cmp.Diff(want, worker.ScriptSeeds()); diff != "" {
		t.Errorf("seeds that may need scripts (-want +got):\n%s", diff)
	}
	want.Add(want)
	want.Add(fetcher.ScriptSeeds{Count: 20, URLs: []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"}})
	if want.Count != 21 || len(want.URLs) != 10 {
		t.Errorf("the sum is %+v, want 21 seeds, of which ten are named", want)
	}
}
