package get_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloomfrontier/crawler/fetcher/get"
)

// TestHeaderOnly: with Request.Head, the method is HEAD and the connection is used again. With only
// Request.HeaderOnly, a GET ends after the header, and a long body is not received.
func TestHeaderOnly(t *testing.T) {
	t.Parallel()
	var methods atomic.Value
	var sent atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before, _ := methods.Load().(string)
		methods.Store(before + r.Method + " ")
		w.Header().Set("Content-Type", "text/html")
		for range 1000 {
			n, err := fmt.Fprint(w, strings.Repeat("x", 64<<10))
			if err != nil {
				break
			}
			if r.Method == http.MethodGet {
				sent.Add(int64(n))
			}
		}
	}))
	client, err := get.New(get.Config{AllowPrivate: true, Capture: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, head := range []bool{true, true, false} {
		answer, err := client.Get(t.Context(), get.Request{URL: server.URL, Head: head, HeaderOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		if answer.Status != 200 || answer.ContentType != "text/html" || len(answer.Body) > 0 || answer.Wire != nil {
			t.Errorf("HEAD %t: status %d, type %q, %d bytes, Wire %v", head, answer.Status, answer.ContentType, len(answer.Body), answer.Wire)
		}
	}
	client.Close()
	server.Close() // waits for the handlers
	if got := methods.Load(); got != "HEAD HEAD GET " {
		t.Errorf("requests %q", got)
	}
	if n := sent.Load(); n > 32<<20 {
		t.Errorf("the server sent %d bytes of a body that was not wanted", n)
	}
}
