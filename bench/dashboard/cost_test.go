package dashboard_test

import (
	"bufio"
	"context"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestCost measures what 20 open dashboards cost a crawl that is as fast as this machine allows: its pages per second with
// them and without them, in pairs of windows of one crawl. It also measures the first page, with all that it loads.
func TestCost(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes minutes")
	}
	base, requests := crawl(t, "--delay", "0")
	time.Sleep(5 * time.Second)
	const window, pairs = 8 * time.Second, 8
	rate := func() float64 {
		before, begun := requests.Load(), time.Now()
		time.Sleep(window)
		return float64(requests.Load()-before) / time.Since(begun).Seconds()
	}
	var sum float64
	for pair := range pairs {
		var with, without float64
		watched := func() {
			ctx, cancel := context.WithCancel(t.Context())
			var tabs sync.WaitGroup
			for range 20 {
				tabs.Go(func() { watch(ctx, base+"/crawls/web") })
			}
			time.Sleep(time.Second)
			with = rate()
			cancel()
			tabs.Wait()
		}
		if pair%2 == 0 {
			watched()
			without = rate()
		} else {
			without = rate()
			watched()
		}
		t.Logf("with 20 dashboards %.0f pages/s, without %.0f: %.3f", with, without, with/without)
		sum += math.Log(with / without)
	}
	t.Logf("ratio of the pages per second, geometric mean of %d pairs: %.3f", pairs, math.Exp(sum/pairs))
	for _, page := range []string{"/", "/crawls/web"} {
		t.Logf("%s with its style, scripts and history: %d bytes over the wire", page, wire(t, base, page))
	}
}

// watch reads the stream of a page until ctx ends.
func watch(ctx context.Context, url string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return
	}
	request.Header.Set("Accept", "text/event-stream")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body) // it ends with ctx
}

// wire returns the bytes of the bodies of a page and all that it loads.
func wire(t *testing.T, base, path string) (sum int) {
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	get := func(path string, text io.Writer) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if text == nil {
			request.Header.Set("Accept-Encoding", "gzip")
			text = io.Discard
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		n, err := io.Copy(text, response.Body)
		if err != nil {
			t.Fatal(err)
		}
		if request.Header.Get("Accept-Encoding") != "" {
			sum += int(n)
		}
	}
	var page strings.Builder
	get(path, &page)
	get(path, nil)
	words := bufio.NewScanner(strings.NewReader(page.String()))
	words.Split(bufio.ScanWords)
	for words.Scan() {
		for _, name := range []string{`href="`, `src="`, `data-timeline="`} {
			if found, is := strings.CutPrefix(words.Text(), name); is && (strings.HasPrefix(found, "/-/") || strings.HasSuffix(found, `/timeline"><figure`)) {
				get(found[:strings.Index(found, `"`)], nil)
			}
		}
	}
	return sum
}
