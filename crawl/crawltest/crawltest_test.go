package crawltest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/crawltest"
	"github.com/bloomfrontier/crawler/fetcher"
)

// html answers with a page.
func html(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, text)
	}
}

func shop() crawltest.Web {
	a := http.NewServeMux()
	a.HandleFunc("/{$}", html(`<title>start</title><a href="/item/1">1</a><a href="/item/2">2</a><a href="//b.test/">b</a><a href="/private">p</a>`))
	a.HandleFunc("/item/{n}", html(`<title>item</title><a href="/">start</a>`))
	a.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "User-agent: *\nDisallow: /private\nCrawl-delay: 20\n")
	})
	b := http.NewServeMux()
	b.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/gone", http.StatusFound) })
	return crawltest.Web{"a.test": a, "b.test": b}
}

// TestRun: a crawl in memory does what a crawl does, and takes less than 20 ms.
func TestRun(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var pages, answers, refused []string
	settings := crawl.DefaultSettings()
	settings.Scope, settings.Exclude = "any", []string{"/item/2"}
	begun := time.Now()
	result, err := crawltest.Run(t.Context(), crawl.Config{
		Seeds: []string{"http://a.test/"}, Settings: settings,
		OnPage: func(_ context.Context, page *crawl.Page) error {
			mu.Lock()
			defer mu.Unlock()
			pages = append(pages, page.URL.String()+" "+page.Document().Find("title").Text())
			return nil
		},
		OnAnswer: func(_ context.Context, answer *crawl.Answer) error {
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, fmt.Sprint(answer.Item.URL, " ", answer.Outcome))
			return nil
		},
		OnRefused: func(r fetcher.Refused) {
			mu.Lock()
			defer mu.Unlock()
			refused = append(refused, r.URL+" "+string(r.Reason))
		},
	}, shop())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the crawl took %v", time.Since(begun))
	slices.Sort(pages)
	slices.Sort(answers)
	for _, c := range []struct {
		what      string
		got, want []string
	}{
		{"pages", pages, []string{"http://a.test/ start", "http://a.test/item/1 item"}},
		{"answers", answers, []string{"http://b.test/ redirect", "http://b.test/gone client_error"}},
		{"refused", refused, []string{"http://a.test/item/2 excluded"}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s %q, want %q", c.what, c.got, c.want)
		}
	}
	var outcomes []string
	for _, r := range result.Records {
		outcomes = append(outcomes, r.URL+" "+r.Outcome)
	}
	slices.Sort(outcomes)
	if want := []string{"http://a.test/ ok", "http://a.test/item/1 ok", "http://a.test/private robots", "http://b.test/ redirect", "http://b.test/gone client_error"}; !slices.Equal(outcomes, want) {
		t.Errorf("records %q, want %q", outcomes, want)
	}
	if result.End != fetcher.Empty || result.Stats.Queued+result.Stats.Leased > 0 || result.Report == nil {
		t.Errorf("result %+v, want that of a crawl with nothing left", result.Result)
	}
}

// TestErrors: the errors are those of crawl.Run, and a page whose handler fails is tried again without a wait.
func TestErrors(t *testing.T) {
	t.Parallel()
	boom, tries := errors.New("boom"), 0
	failing := &crawl.HandlerError{}
	result, err := crawltest.Run(t.Context(), crawl.Config{Seeds: []string{"http://a.test/"}, OnPage: func(_ context.Context, page *crawl.Page) error {
		if page.Record.URL == "http://a.test/" {
			tries++ // one page at a time
			return boom
		}
		return nil
	}}, shop())
	if !errors.As(err, &failing) || !errors.Is(err, boom) || tries != 4 || result == nil {
		t.Errorf("after %d tries: %v, want a *HandlerError after 4", tries, err)
	}
	if _, err := crawltest.Run(t.Context(), crawl.Config{Seeds: []string{"http://nowhere.test/"}}, shop()); !errors.Is(err, crawl.ErrUnreached) {
		t.Errorf("a host without a handler: %v, want ErrUnreached", err)
	}
	if _, err := crawltest.Run(t.Context(), crawl.Config{Seeds: []string{"ftp://a.test/"}}, shop()); !errors.Is(err, crawl.ErrNoSeed) {
		t.Errorf("a refused seed: %v, want ErrNoSeed", err)
	}
	for _, config := range []crawl.Config{{Dir: "x"}, {Redis: &crawl.Redis{}}, {Postgres: &crawl.Postgres{}}} {
		if _, err := crawltest.Run(t.Context(), config, nil); err == nil {
			t.Errorf("Run(%+v) = nil, want an error", config)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	_, err = crawltest.Run(ctx, crawl.Config{Seeds: []string{"http://a.test/"}, OnPage: func(context.Context, *crawl.Page) error {
		cancel(enough)
		return nil
	}}, shop())
	if !errors.Is(err, context.Canceled) && !errors.Is(err, enough) {
		t.Errorf("a cancelled run: %v, want the context's error", err)
	}
}

// TestWeb: a handler that panics or aborts is a connection that ends, a host's port and scheme are a part of it, and
// WrapTransport wraps the web.
func TestWeb(t *testing.T) {
	t.Parallel()
	settings := crawl.DefaultSettings()
	settings.Scope, settings.Retries, settings.Robots = "any", 0, "ignore"
	var signed []string
	web := crawltest.Web{
		"a.test:8080": html(`<a href="https://tls.test/">s</a><a href="http://aborts.test/">a</a><a href="http://panics.test/">p</a><a href="http://any.other.test/">o</a>`),
		"tls.test": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			html(fmt.Sprintf("<title>%t %s %s</title>", r.TLS != nil, r.Host, r.RequestURI))(w, r)
		}),
		"aborts.test": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
		"panics.test": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oops") }),
		"*":           html("<title>other</title>"),
	}
	var mu sync.Mutex
	result, err := crawltest.Run(t.Context(), crawl.Config{
		Seeds: []string{"http://a.test:8080/"}, Settings: settings,
		WrapTransport: func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				mu.Lock()
				signed = append(signed, r.URL.Host)
				mu.Unlock()
				return next.RoundTrip(r)
			})
		},
	}, web)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, r := range result.Records {
		got[r.URL] = r.Outcome + " " + r.Title
	}
	for url, want := range map[string]string{
		"https://tls.test/": "ok true tls.test /", "http://aborts.test/": "network ", "http://panics.test/": "network ", "http://any.other.test/": "ok other",
	} {
		if got[url] != want {
			t.Errorf("%s: %q, want %q", url, got[url], want)
		}
	}
	if len(signed) != 5 {
		t.Errorf("WrapTransport saw requests to %q, want 5", signed)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		if _, err := crawltest.Run(b.Context(), crawl.Config{Seeds: []string{"http://a.test/"}}, shop()); err != nil {
			b.Fatal(err)
		}
	}
}

// TestPage: a page is as the worker builds it: decoded, with its canonical links, its record and its fields.
func TestPage(t *testing.T) {
	t.Parallel()
	settings := crawl.DefaultSettings()
	settings.Fields = []crawl.FieldGroup{{Fields: []string{"price=.price"}}}
	settings.Text = true
	header := http.Header{"Content-Type": {"text/html; charset=iso-8859-1"}}
	body := "<html lang=fr><title>Th\xe9</title><base href=/shop/><p class=price>3 \xa3</p><a href=b#x>b</a><a href=http://other.test/>o</a>"
	page := crawltest.Page(t, crawl.Config{Settings: settings}, "HTTP://A.test:80/item/./1", 200, header, []byte(body))
	if page.URL.String() != "http://a.test/item/1" || page.Record.Title != "Thé" || page.Record.Status != 200 {
		t.Errorf("page %s, record %+v, want the canonical URL and the decoded title", page.URL, page.Record)
	}
	if got := page.Document().Find("p").Text(); got != "3 £" {
		t.Errorf("document %q", got)
	}
	if got := string(page.Record.Fields); got != `{"price":"3 £"}` {
		t.Errorf("fields %s", got)
	}
	if got, want := page.Links(), []string{"http://a.test/shop/b"}; !slices.Equal(got, want) {
		t.Errorf("links %q, want %q", got, want)
	}
	page.Drop(func(string) bool { return true })
	if err := page.Add("c"); err != nil || !slices.Equal(page.Links(), []string{"http://a.test/item/c"}) {
		t.Errorf("after Drop and Add: links %q, %v", page.Links(), err)
	}
}

// TestNoPage: an answer for which no OnPage is called fails the test.
func TestNoPage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status int
		kind   string
		want   string
	}{
		{404, "", `its outcome is "client_error", its status 404`}, {302, "", `"redirect"`}, {200, "image/png", `"type"`},
	} {
		fake := &failing{TB: t}
		func() {
			defer func() { _ = recover() }()
			header := http.Header{}
			if tc.kind != "" {
				header.Set("Content-Type", tc.kind)
			}
			crawltest.Page(fake, crawl.Config{}, "http://a.test/", tc.status, header, nil)
		}()
		if !strings.Contains(fake.said, tc.want) {
			t.Errorf("%d %s: the test failed with %q, want %s", tc.status, tc.kind, fake.said, tc.want)
		}
	}
}

// failing is a test whose failure is noted.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	panic(f)
}
