package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/eventstest"
	"github.com/bloomfrontier/crawler/events/signature"
	"github.com/bloomfrontier/crawler/events/webhook"
)

var seedFlag = flag.Uint64("seed", 0, "run random tests with this seed")

var secret = []byte("a secret of thirty-two bytes....")

// receiver is a webhook server that verifies each request. If it answers a request with 200,
// it keeps the events of the request.
type receiver struct {
	*httptest.Server
	// answer is called for each request. If it returns true, it has answered the request.
	// If it returns false, or if answer is nil, the receiver accepts the request.
	answer func(w http.ResponseWriter, r *http.Request, batch []events.Event) bool

	mu    sync.Mutex
	taken []events.Event
}

func newReceiver(t *testing.T) *receiver {
	re := new(receiver)
	re.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { re.serve(t, w, r) }))
	t.Cleanup(re.Close)
	return re
}

func (re *receiver) serve(t *testing.T, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client gave up
	}
	if err := signature.Verify(r.Header, secret, time.Now(), body); err != nil {
		t.Error(err)
	}
	var batch []events.Event
	switch kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); kind {
	case "application/cloudevents+json":
		batch = make([]events.Event, 1)
		err = json.Unmarshal(body, &batch[0])
		if key := r.Header.Get("Idempotency-Key"); key != batch[0].ID || r.Header.Get(signature.HeaderID) != key {
			t.Errorf("event %s has the header Idempotency-Key: %q and the header %s: %q, want the event's id in both", batch[0].ID, key, signature.HeaderID, r.Header.Get(signature.HeaderID))
		}
	case "application/cloudevents-batch+json":
		err = json.Unmarshal(body, &batch)
	default:
		t.Errorf("content type %q, want one of CloudEvents", kind)
	}
	if err != nil {
		t.Errorf("body %q: %v", body, err)
		return
	}
	if re.answer != nil && re.answer(w, r, batch) {
		return
	}
	re.take(batch)
}

func (re *receiver) take(batch []events.Event) {
	re.mu.Lock()
	defer re.mu.Unlock()
	re.taken = append(re.taken, batch...)
}

func (re *receiver) received() []events.Event {
	re.mu.Lock()
	defer re.mu.Unlock()
	return slices.Clone(re.taken)
}

func open(t *testing.T, cfg webhook.Config) *webhook.Sink {
	t.Helper()
	cfg.Secrets = [][]byte{secret}
	sink, err := webhook.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	return sink
}

func TestContract(t *testing.T) {
	for _, batch := range []bool{false, true} {
		t.Run(fmt.Sprintf("batch=%v", batch), func(t *testing.T) {
			eventstest.RunSink(t, func(t *testing.T) eventstest.SinkUnderTest {
				re := newReceiver(t)
				return eventstest.SinkUnderTest{Sink: open(t, webhook.Config{URL: re.URL, Batch: batch}), Received: re.received}
			})
		})
	}
}

// TestAnswers checks the meaning of each status, and the pause that the answer asks
// for.
func TestAnswers(t *testing.T) {
	date := func(in time.Duration) string { return time.Now().Add(in).UTC().Format(http.TimeFormat) }
	for _, tc := range []struct {
		status    int
		after     string // Retry-After
		body      string
		refused   string // reason of the refusal
		away      string
		low, high time.Duration // limits of the pause
	}{
		{status: 200}, {status: 202}, {status: 204},
		{status: 400, body: "no such field\n", refused: "the receiver answers 400 Bad Request: no such field"},
		{status: 413, refused: "the receiver answers 413 Request Entity Too Large"},
		{status: 422, after: "7", body: strings.Repeat("ü", 4000), refused: "the receiver answers 422 Unprocessable Entity: " + strings.Repeat("ü", 100)},
		{status: 401, away: "401 Unauthorized: check the secret"},
		{status: 302, away: "redirects are not followed"},
		{status: 404, away: "404 Not Found"}, {status: 409, away: "409"}, {status: 410, away: "410"}, {status: 500, away: "500"},
		{status: 429, after: "7", away: "429 Too Many Requests", low: 7 * time.Second, high: 7 * time.Second},
		{status: 503, after: date(90 * time.Second), away: "503", low: 80 * time.Second, high: 91 * time.Second},
		{status: 503, after: date(-90 * time.Second), away: "503"},
		{status: 503, after: "99999999999", away: "503", low: time.Hour, high: time.Hour},
		{status: 503, after: "soon", away: "503"},
	} {
		re := newReceiver(t)
		re.answer = func(w http.ResponseWriter, r *http.Request, _ []events.Event) bool {
			w.Header().Set("Location", "/elsewhere")
			if tc.after != "" {
				w.Header().Set("Retry-After", tc.after)
			}
			w.WriteHeader(tc.status)
			_, _ = io.WriteString(w, tc.body)
			return true
		}
		err := open(t, webhook.Config{URL: re.URL}).Send(t.Context(), []events.Event{eventstest.Event(0, 1)})[0]
		refusal, _ := errors.AsType[*events.RefusedError](err)
		away, _ := errors.AsType[*events.AwayError](err)
		switch {
		case tc.refused != "":
			if refusal == nil || refusal.Reason != tc.refused {
				t.Errorf("status %d: error %v, want a RefusedError with reason %s", tc.status, err, tc.refused)
			}
		case tc.away != "":
			if away == nil || refusal != nil || !strings.Contains(err.Error(), tc.away) || away.After < tc.low || away.After > tc.high {
				t.Errorf("status %d with Retry-After %q: error %v, want an AwayError with %s and a pause from %v to %v", tc.status, tc.after, err, tc.away, tc.low, tc.high)
			}
		case err != nil:
			t.Errorf("status %d: error %v, want none", tc.status, err)
		}
	}
}

// TestRefusedBatch: if a batch has an event that is refused, the other events arrive.
func TestRefusedBatch(t *testing.T) {
	re := newReceiver(t)
	bad := eventstest.Event(2, 5)
	re.answer = func(w http.ResponseWriter, _ *http.Request, batch []events.Event) bool {
		if slices.ContainsFunc(batch, func(e events.Event) bool { return e.ID == bad.ID }) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return true
		}
		return false
	}
	var batch []events.Event
	for n := range 5 {
		batch = append(batch, eventstest.Event(n, 5))
	}
	for i, err := range open(t, webhook.Config{URL: re.URL, Batch: true}).Send(t.Context(), batch) {
		if _, refused := errors.AsType[*events.RefusedError](err); refused != (i == 2) || !refused && err != nil {
			t.Errorf("event %d: error %v, want a RefusedError for event 2 and none for others", i, err)
		}
	}
	if got := len(re.received()); got != 4 {
		t.Errorf("%d events arrived, want 4", got)
	}
}

// TestMoodyReceiver: the receiver hangs, refuses, breaks connections and answers after the
// client has given up. All events still arrive, except those that it refuses with a final
// status. The events of each host arrive in order.
func TestMoodyReceiver(t *testing.T) {
	for _, batch := range []bool{false, true} {
		t.Run(fmt.Sprintf("batch=%v", batch), func(t *testing.T) {
			t.Parallel()
			moody(t, batch)
		})
	}
}

func moody(t *testing.T, batched bool) {
	seed := *seedFlag
	for seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("run it again with -seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const all, hosts, faults = 200, 10, 12
	left := faults
	re := newReceiver(t)
	var lates sync.WaitGroup
	re.answer = func(w http.ResponseWriter, r *http.Request, batch []events.Event) bool {
		if slices.ContainsFunc(batch, refuses) {
			w.WriteHeader(http.StatusBadRequest)
			return true
		}
		re.mu.Lock()
		fault := -1
		// Each request fails with a probability of one half, until 12 requests have failed.
		// There are at least 50 requests. The chance that fewer than 12 of 50 fail is about 1
		// in 20,000.
		if left > 0 && random.IntN(2) == 0 {
			left--
			fault = left % 6
		}
		re.mu.Unlock()
		switch fault {
		case 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 1:
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
		case 2:
			w.WriteHeader(http.StatusUnauthorized)
		case 3: // hangs until the client gives up
			<-r.Context().Done()
		case 4: // accepts the events after the client has given up
			lates.Add(1)
			defer lates.Done()
			<-r.Context().Done()
			re.take(batch)
		case 5: // accepts the events and resets the connection
			re.take(batch)
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return true
			}
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		default:
			return false
		}
		return true
	}
	outbox, progress := new(eventstest.Outbox), new(eventstest.Progress)
	for n := range all {
		outbox.Append(eventstest.Event(n, hosts))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sink := open(t, webhook.Config{URL: re.URL, Batch: batched, Timeout: 300 * time.Millisecond})
	if err := events.Run(ctx, events.Config{Name: "r", Outbox: outbox, Sink: sink, Progress: progress, Batch: 4}, true); err != nil || ctx.Err() != nil {
		t.Fatal(err, ctx.Err())
	}
	lates.Wait()
	dead, err := progress.Dead(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	refused := make(map[string]bool)
	for _, letter := range dead {
		refused[letter.Event.ID] = true
	}
	received, last := make(map[string]bool), make(map[string]time.Time)
	for _, e := range re.received() {
		if first := !received[e.ID]; first && !e.Time.After(last[e.Host]) {
			t.Errorf("event %s of %s first came after a later event of this host", e.ID, e.Host)
		} else if first {
			last[e.Host] = e.Time
		}
		received[e.ID] = true
	}
	for n := range all {
		e := eventstest.Event(n, hosts)
		if refused[e.ID] != refuses(e) || received[e.ID] == refuses(e) {
			t.Errorf("event %d: received %v, dead letter %v; want one of them", n, received[e.ID], refused[e.ID])
		}
	}
	if left > 0 {
		t.Errorf("%d of %d faults did not happen", left, faults)
	}
}

// refuses reports whether the moody receiver refuses an event with a final status.
func refuses(e events.Event) bool { return strings.Contains(e.Subject, "n=17&") }

func TestNew(t *testing.T) {
	for _, tc := range []struct{ url, want string }{
		{"https://hooks.example.org/x?token=abc", ""},
		{"http://127.0.0.1:8080/x", ""},
		{"http://[::1]:8080/x", ""},
		{"http://localhost/x", ""},
		{"http://user:abc@hooks.example.org/x", "http to hooks.example.org is readable by others"},
		{"http://127.0.0.1.example.org/abc", "readable by others"},
		{"ftp://127.0.0.1/abc", `scheme is "ftp"`},
		{"https:///abc", "malformed"},
		{"https://us er:abc@h/", "malformed"},
	} {
		_, err := webhook.New(webhook.Config{URL: tc.url})
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("New of %s: error %v, want none", tc.url, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "abc")):
			t.Errorf("New of %s: error %v, want one with %q and without the secret", tc.url, err, tc.want)
		}
	}
}

// TestModes: binary requests cannot be signed or have several events, and the content type is one of JSON.
func TestModes(t *testing.T) {
	for _, tc := range []struct {
		config webhook.Config
		want   string
	}{
		{webhook.Config{Binary: true}, ""},
		{webhook.Config{ContentType: "application/json"}, ""},
		{webhook.Config{ContentType: "application/vnd.x+json; charset=utf-8", Batch: true}, ""},
		{webhook.Config{Binary: true, Secrets: [][]byte{secret}}, "cannot be signed"},
		{webhook.Config{Binary: true, Batch: true}, "one event"},
		{webhook.Config{Binary: true, ContentType: "application/json"}, "the content type of its data"},
		{webhook.Config{ContentType: "text/plain"}, "want a type of JSON"},
		{webhook.Config{ContentType: "application/json\r\nX: y"}, "want a type of JSON"},
		{webhook.Config{ContentType: "json"}, "want a type of JSON"},
	} {
		tc.config.URL = "http://127.0.0.1:1/"
		_, err := webhook.New(tc.config)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("New(%+v): %v, want %q", tc.config, err, tc.want)
		}
	}
}

// TestErrorsHaveNoSecrets: the log messages about a receiver that cannot be reached do not
// contain the URL, which can have a token.
func TestErrorsHaveNoSecrets(t *testing.T) {
	re := newReceiver(t)
	re.Close()
	err := open(t, webhook.Config{URL: re.URL + "/hook?token=abc"}).Send(t.Context(), []events.Event{eventstest.Event(0, 1)})[0]
	if _, away := errors.AsType[*events.AwayError](err); !away || strings.Contains(err.Error(), "abc") {
		t.Errorf("%v, want an AwayError without the URL", err)
	}
}
