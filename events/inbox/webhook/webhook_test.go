package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/events/inbox"
	"github.com/bloomfrontier/crawler/events/inbox/internal/adaptertest"
	"github.com/bloomfrontier/crawler/events/inbox/webhook"
	"github.com/bloomfrontier/crawler/events/signature"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

var secret = []byte("a secret of thirty-two bytes....")

func TestMain(m *testing.M) { adaptertest.Main(m, adaptertest.Adapter{Serve: serve}) }

func TestAdapter(t *testing.T) {
	postgres := servers.Postgres(t, servers.PostgresOptions{Config: map[string]string{"max_connections": "300"}})
	t.Run("Suite", func(t *testing.T) {
		t.Parallel()
		adaptertest.Run(t, postgres.DSN(), adaptertest.Adapter{Serve: serve, Open: open})
	})
	t.Run("Answers", func(t *testing.T) {
		t.Parallel()
		testAnswers(t, adaptertest.Open(t, postgres.DSN()))
	})
	t.Run("Binary", func(t *testing.T) {
		t.Parallel()
		testBinary(t, adaptertest.Open(t, postgres.DSN()))
	})
}

// serve listens at address until ctx ends. Then it finishes the requests under way.
func serve(ctx context.Context, address string, box *inbox.Inbox, handle inbox.Handler, _ int) error {
	handler, err := webhook.New(webhook.Config{Inbox: box, Secrets: [][]byte{secret}, Handle: handle, Timeout: adaptertest.Timeout})
	if err != nil {
		return err
	}
	server := &http.Server{Addr: address, Handler: handler}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = server.Shutdown(context.WithoutCancel(ctx))
	})
	defer stop()
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		return err
	}
	<-ended
	return nil
}

// broker is a sender that repeats each request until it is answered with 200.
type broker struct {
	address string
	open    atomic.Int32 // requests that were not answered with 200 yet
	sending sync.WaitGroup
}

func open(t *testing.T) adaptertest.Broker {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, listener.Close())
	b := &broker{address: listener.Addr().String()}
	t.Cleanup(b.sending.Wait)
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *broker) Address() string { return b.address }

func (b *broker) Send(t *testing.T, document []byte, copies int, parallel bool) {
	b.open.Add(int32(copies))
	senders := 1
	if parallel {
		senders = copies
	}
	for range senders {
		b.sending.Go(func() {
			for range copies / senders {
				for b.post(t, document) != http.StatusOK {
					if t.Context().Err() != nil {
						return
					}
					time.Sleep(5 * time.Millisecond)
				}
				b.open.Add(-1)
			}
		})
	}
}

// post sends one request and returns the status of the answer, or 0 if there was none.
func (b *broker) post(t *testing.T, document []byte) int {
	answer, err := http.DefaultClient.Do(signed(t, "http://"+b.address, document))
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

func (b *broker) Settled(*testing.T) bool { return b.open.Load() == 0 }

// signed returns a signed request with the headers that a relay sends.
func signed(t *testing.T, url string, body []byte) *http.Request {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Error(err)
	}
	request.Header.Set("Content-Type", "application/cloudevents+json")
	signature.Sign(request.Header, [][]byte{secret}, "k", time.Now(), body)
	return request
}

// testAnswers checks the status of the answer to each kind of request, and that no handler
// runs for a request without a valid signature.
func testAnswers(t *testing.T, box *inbox.Inbox) {
	document := func(id string) []byte {
		return fmt.Appendf(nil, `{"specversion":"1.0","source":"urn:test","id":%q,"type":"x"}`, id)
	}
	handled := map[string]int{}
	handler, err := webhook.New(webhook.Config{
		Inbox: box, Secrets: [][]byte{[]byte("old"), secret}, MaxBytes: 1000,
		Handle: func(_ context.Context, _ pgx.Tx, e inbox.Event) error {
			handled[e.ID]++
			switch e.ID {
			case "urn:test fails":
				return fmt.Errorf("not now")
			case "urn:test refused":
				return fmt.Errorf("never: %w", inbox.ErrPermanent)
			}
			return nil
		},
	})
	must(t, err)
	batch := func(ids ...string) []byte {
		var all []json.RawMessage
		for _, id := range ids {
			all = append(all, document(id))
		}
		body, err := json.Marshal(all)
		must(t, err)
		return body
	}
	for _, test := range []struct {
		name   string
		body   []byte
		change func(r *http.Request)
		status int
		runs   map[string]int // how often the handler has run so far, by event id
	}{
		{"an event", document("a"), nil, 200, map[string]int{"urn:test a": 1}},
		{"its repeat", document("a"), nil, 200, map[string]int{"urn:test a": 1}},
		{"no signature", document("b"), func(r *http.Request) { r.Header.Del(signature.HeaderSignature) }, 401, nil},
		{"another secret", document("b"), func(r *http.Request) {
			signature.Sign(r.Header, [][]byte{[]byte("other")}, "b", time.Now(), document("b"))
		}, 401, nil},
		{"the old secret", document("b"), func(r *http.Request) {
			signature.Sign(r.Header, [][]byte{[]byte("old")}, "b", time.Now(), document("b"))
		}, 200, map[string]int{"urn:test b": 1}},
		{"a replay", document("c"), func(r *http.Request) {
			signature.Sign(r.Header, [][]byte{secret}, "c", time.Now().Add(-time.Hour), document("c"))
		}, 401, nil},
		{"another body", document("c"), func(r *http.Request) {
			signature.Sign(r.Header, [][]byte{secret}, "c", time.Now(), document("d"))
		}, 401, nil},
		{"GET", nil, func(r *http.Request) { r.Method = http.MethodGet }, 405, nil},
		{"too large", document(strings.Repeat("x", 1000)), nil, 413, nil},
		{"no CloudEvent", []byte(`{"id":"a"}`), nil, 400, nil},
		{"a handler that fails", document("fails"), nil, 500, map[string]int{"urn:test fails": 1}},
		{"a handler that refuses", document("refused"), nil, 200, map[string]int{"urn:test refused": 1}},
		{"its repeat", document("refused"), nil, 200, map[string]int{"urn:test refused": 1}},
		{"a batch", batch("a", "fails", "d"), func(r *http.Request) {
			r.Header.Set("Content-Type", "application/cloudevents-batch+json; charset=UTF-8")
		}, 500, map[string]int{"urn:test a": 1, "urn:test fails": 2, "urn:test d": 1}},
		{"a batch sent as JSON", batch("a", "e"), func(r *http.Request) {
			r.Header.Set("Content-Type", "application/json")
		}, 200, map[string]int{"urn:test a": 1, "urn:test e": 1}},
		{"attributes in headers, which the signature does not cover", []byte(`{}`), func(r *http.Request) {
			setAttributes(r.Header)
		}, 400, nil},
		{"one event sent as a batch", document("a"), func(r *http.Request) {
			r.Header.Set("Content-Type", "application/cloudevents-batch+json")
		}, 400, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			request := signed(t, "/", test.body)
			if test.change != nil {
				test.change(request)
			}
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			if answer.Code != test.status {
				t.Errorf("status %d (%s), want %d", answer.Code, answer.Body, test.status)
			}
			for id, want := range test.runs {
				if handled[id] != want {
					t.Errorf("the handler ran %d times for %q, want %d", handled[id], id, want)
				}
			}
		})
	}
	if handled["urn:test c"] > 0 {
		t.Error("the handler ran for a request whose signature is not valid")
	}
}

// setAttributes sets the attributes of an event as the binary mode of CloudEvents has them.
func setAttributes(h http.Header) {
	for name, value := range map[string]string{
		"specversion": "1.0", "id": "1-0", "source": "urn:test", "type": "x", "subject": "http://a.test/100%25?q=%22%C3%BC%22",
	} {
		h.Set("Ce-"+name, value)
	}
}

// testBinary checks that an unsigned handler takes attributes from headers, percent-encoded, and data from the body.
func testBinary(t *testing.T, box *inbox.Inbox) {
	var got []string
	handler, err := webhook.New(webhook.Config{Inbox: box, Unsigned: true, Handle: func(_ context.Context, _ pgx.Tx, e inbox.Event) error {
		got = append(got, e.ID+" "+string(e.Data))
		return nil
	}})
	must(t, err)
	for _, test := range []struct {
		change func(http.Header)
		body   string
		status int
	}{
		{func(http.Header) {}, `{"n":1}`, 200},
		{func(h http.Header) { h.Set("Ce-Subject", "%zz") }, `{}`, 400},
		{func(h http.Header) { h.Del("Ce-Id") }, `{}`, 400},
		{func(h http.Header) { h.Set("Ce-Specversion", "0.3") }, `{}`, 400},
		{func(http.Header) {}, `no JSON`, 400},
	} {
		request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(test.body))
		setAttributes(request.Header)
		test.change(request.Header)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if answer.Code != test.status {
			t.Errorf("%s with %v: status %d (%s), want %d", test.body, request.Header, answer.Code, answer.Body, test.status)
		}
	}
	want := []string{`urn:test 1-0 {"data":{"n":1},"id":"1-0","source":"urn:test","specversion":"1.0","subject":"http://a.test/100%?q=\"ü\"","type":"x"}`}
	if !slices.Equal(got, want) {
		t.Errorf("handled %q, want %q", got, want)
	}
}

// TestConfig: a handler that accepts every request cannot be made by accident.
func TestConfig(t *testing.T) {
	for _, cfg := range []webhook.Config{
		{Inbox: new(inbox.Inbox)}, {Inbox: new(inbox.Inbox), Secrets: [][]byte{{}}},
		{Inbox: new(inbox.Inbox), Secrets: [][]byte{secret}, Unsigned: true}, {Unsigned: true},
		{Inbox: new(inbox.Inbox), Unsigned: true, MaxBytes: -1},
	} {
		if _, err := webhook.New(cfg); err == nil {
			t.Errorf("New(%+v): no error", cfg)
		}
	}
	if _, err := webhook.New(webhook.Config{Inbox: new(inbox.Inbox), Unsigned: true}); err != nil {
		t.Error(err)
	}
}
