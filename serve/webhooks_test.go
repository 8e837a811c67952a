package serve_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/events/signature"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/serve"
)

const webhookSecret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// receiver counts the events that a webhook gets, by URL of the page.
func receiver(t *testing.T) (url string, count func() int) {
	secrets, err := signature.ParseSecrets(webhookSecret)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	got := make(map[string]bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = signature.Verify(r.Header, secrets[0], time.Now(), body)
		}
		if err != nil {
			t.Errorf("webhook: %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		got[r.Header.Get("Idempotency-Key")] = true
	}))
	t.Cleanup(server.Close)
	return server.URL, func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(got)
	}
}

// awaitCount waits until a function returns n.
func awaitCount(t *testing.T, n int, count func() int) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); count() != n; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d events, want %d", count(), n)
		}
	}
}

// TestWebhooks: a webhook gets the events of a crawl, goes on after a new start of the Server, and ends when it is deleted.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	s, web := start(t, cfg), site(t)
	to, count := receiver(t)
	s.create("shop", "max-depth=1")
	hook := `{"url":"` + to + `/in?token=hidden","secret":"` + webhookSecret + `"}`
	made := s.ask("PUT", "/v1/crawls/shop/webhooks/main", "", hook).want(t, 200)
	if again := s.ask("PUT", "/v1/crawls/shop/webhooks/main", "", hook).want(t, 200); again.body != made.body {
		t.Errorf("a repeat has %s, want %s", again.body, made.body)
	}
	s.ask("POST", "/v1/crawls/shop/seeds", "s1", `{"seeds":["`+web+`/0"]}`).want(t, 200)
	awaitCount(t, 2, count)
	s.end()
	s = start(t, cfg)
	s.ask("POST", "/v1/crawls/shop/seeds", "s2", `{"seeds":["`+web+`/5"]}`).want(t, 200)
	awaitCount(t, 4, count)
	list := s.ask("GET", "/v1/crawls/shop/webhooks", "", "").want(t, 200)
	if !strings.Contains(list.body, `"to":"`+to+`"`) || strings.Contains(list.body, "hidden") || strings.Contains(list.body, "whsec") {
		t.Errorf("the list is %s", list.body)
	}
	s.ask("DELETE", "/v1/crawls/shop/webhooks/main", "", "").want(t, 204)
	s.ask("DELETE", "/v1/crawls/shop/webhooks/main", "", "").problem(t, "no-webhook")
	s.ask("POST", "/v1/crawls/shop/seeds", "s3", `{"seeds":["`+web+`/8"]}`).want(t, 200)
	s.await("shop", func(c serve.CrawlStatus) bool { return finished(c) && c.Status.Stats.Pages == 6 })
	if count() != 4 {
		t.Errorf("%d events after the webhook was deleted, want 4", count())
	}
	s.ask("PUT", "/v1/crawls/shop/webhooks/main", "", hook).want(t, 200)
	awaitCount(t, 6, count) // it goes on where it was
	other, otherCount := receiver(t)
	s.ask("PUT", "/v1/crawls/shop/webhooks/main", "", strings.Replace(hook, to, other, 1)).want(t, 200)
	s.ask("POST", "/v1/crawls/shop/seeds", "s4", `{"seeds":["`+web+`/missing"]}`).want(t, 200)
	awaitCount(t, 1, otherCount)
	if count() != 6 {
		t.Errorf("%d events at the replaced URL, want 6", count())
	}
	s.ask("DELETE", "/v1/crawls/shop", "gone", "").want(t, 204)
}

// TestWebhooksAreGuarded: a webhook cannot send to addresses that crawls may not request, also if a name has led elsewhere when the
// webhook was stored.
func TestWebhooksAreGuarded(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Settings.AllowPrivate = false
	s := start(t, cfg)
	s.create("shop")
	to, _ := receiver(t)
	for _, url := range []string{to, "http://localhost:1/", "https://127.0.0.1/", "https://[::ffff:10.0.0.1]/", "https://[64:ff9b::7f00:1]/", "https://169.254.169.254/", "http://a.test/", "file:///etc/passwd", "nats://a.test/x"} {
		s.ask("PUT", "/v1/crawls/shop/webhooks/main", "", `{"url":"`+url+`"}`).problem(t, "invalid").want(t, 422)
	}
	err := serve.SendWebhook(t, cfg, strings.Replace(to, "127.0.0.1", "localhost", 1))
	if _, refused := errors.AsType[*get.AddressError](err); !refused {
		t.Errorf("a delivery to a loopback address: %v, want an AddressError", err)
	}
}
