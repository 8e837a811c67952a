package idempotency_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/serve/idempotency"
	"github.com/bloomfrontier/crawler/serve/idempotency/embedded"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openStore(t testing.TB) *embedded.Store {
	t.Helper()
	db, err := pebble.Open("db", &pebble.Options{FS: vfs.NewMem(), Logger: silent{}})
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	store, err := embedded.New(embedded.Config{DB: db})
	must(t, err)
	return store
}

// silent is a logger of pebble that writes nothing.
type silent struct{}

func (silent) Infof(string, ...any)           {}
func (silent) Errorf(string, ...any)          {}
func (silent) Fatalf(format string, _ ...any) { panic(format) }

func oneCaller(*http.Request) string { return "caller" }

func middleware(t testing.TB, change func(*idempotency.Config)) *idempotency.Middleware {
	t.Helper()
	cfg := idempotency.Config{Store: openStore(t), Caller: oneCaller}
	if change != nil {
		change(&cfg)
	}
	m, err := idempotency.New(cfg)
	must(t, err)
	return m
}

// ok is a handler that answers 200 with the body of the request.
var ok = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })

func send(h http.Handler, method string, body io.Reader, keys ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/path", body)
	r.Header["Idempotency-Key"] = keys
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestParseKey(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", idempotency.MaxKeyBytes)
	for _, c := range []struct {
		values []string
		want   string
		err    error
	}{
		{nil, "", idempotency.ErrNoKey},
		{[]string{"k"}, "k", nil},
		{[]string{`"k"`}, "k", nil},
		{[]string{"\t \"k\" "}, "k", nil},
		{[]string{`"a\"b\\c"`}, `a"b\c`, nil},
		{[]string{`a"b\c`}, `a"b\c`, nil},
		{[]string{`"a,b;c"`}, "a,b;c", nil},
		{[]string{long}, long, nil},
		{[]string{`"` + long + `"`}, long, nil},
		{[]string{"8e03978e-40d5-43e8-bc93-6894a57f9324"}, "8e03978e-40d5-43e8-bc93-6894a57f9324", nil},
		{[]string{"k", "k"}, "", idempotency.ErrInvalidKey},
		{[]string{"k, k"}, "", idempotency.ErrInvalidKey},
		{[]string{"k,k"}, "", idempotency.ErrInvalidKey},
		{[]string{`"k", "k"`}, "", idempotency.ErrInvalidKey},
		{[]string{`"k";a=1`}, "", idempotency.ErrInvalidKey},
		{[]string{""}, "", idempotency.ErrInvalidKey},
		{[]string{`""`}, "", idempotency.ErrInvalidKey},
		{[]string{`"`}, "", idempotency.ErrInvalidKey},
		{[]string{`"k`}, "", idempotency.ErrInvalidKey},
		{[]string{`"k\"`}, "", idempotency.ErrInvalidKey},
		{[]string{`"k\`}, "", idempotency.ErrInvalidKey},
		{[]string{`"\k"`}, "", idempotency.ErrInvalidKey},
		{[]string{`"a b"`}, "", idempotency.ErrInvalidKey},
		{[]string{"a b"}, "", idempotency.ErrInvalidKey},
		{[]string{"a\x7f"}, "", idempotency.ErrInvalidKey},
		{[]string{"ä"}, "", idempotency.ErrInvalidKey},
		{[]string{long + "x"}, "", idempotency.ErrInvalidKey},
	} {
		if got, err := idempotency.ParseKey(c.values); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("ParseKey(%q) = %q, %v, want %q, %v", c.values, got, err, c.want, c.err)
		}
	}
}

// FuzzParseKey: each key that is accepted is valid, and its quoted form is the same key.
func FuzzParseKey(f *testing.F) {
	for _, seed := range []string{"k", `"k"`, `"a\"b"`, `"a\\`, "a,b", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, err := idempotency.ParseKey([]string{value})
		if err != nil {
			return
		}
		if len(key) < 1 || len(key) > 255 || strings.ContainsFunc(key, func(r rune) bool { return r < '!' || r > '~' }) {
			t.Fatalf("%q is accepted as the key %q", value, key)
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		if again, err := idempotency.ParseKey([]string{quoted}); again != key || err != nil {
			t.Fatalf("%q is the key %q, but %q is %q (%v)", value, key, quoted, again, err)
		}
	})
}

// problem is the body of a problem.
type problem struct {
	Type, Title, Detail string
	Status              int
}

// TestProblems: each refusal is a problem with its status and type, whose section is in the guide.
func TestProblems(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/guide/idempotency.md")
	must(t, err)
	store := openStore(t)
	new := func(change func(*idempotency.Config)) http.Handler {
		return middleware(t, func(c *idempotency.Config) {
			c.Store, c.MaxBytes, c.MaxAnswerBytes = store, 10, 5
			if change != nil {
				change(c)
			}
		}).Wrap(ok)
	}
	h := new(nil)
	if w := send(h, "POST", strings.NewReader("1234"), "k"); w.Code != http.StatusOK {
		t.Fatalf("the first request gets %d %s", w.Code, w.Body)
	}
	failing := new(func(c *idempotency.Config) { c.Store = failingStore{err: errors.New("down")} })
	busy := new(func(c *idempotency.Config) { c.Store = failingStore{err: idempotency.ErrUnderWay} })
	for _, c := range []struct {
		handler    http.Handler
		method     string
		body       io.Reader
		keys       []string
		status     int
		code       string
		retryAfter string
	}{
		{h, "POST", nil, nil, 400, "key-missing", ""},
		{h, "PATCH", nil, nil, 400, "key-missing", ""},
		{h, "POST", nil, []string{"k", "l"}, 400, "key-invalid", ""},
		{h, "PUT", nil, []string{"k", "l"}, 400, "key-invalid", ""},
		{h, "DELETE", nil, []string{""}, 400, "key-invalid", ""},
		{h, "POST", nil, []string{"issued-1"}, 400, "key-unknown", ""},
		{h, "POST", iotest.ErrReader(io.ErrUnexpectedEOF), []string{"l"}, 400, "body-unreadable", ""},
		{busy, "POST", nil, []string{"l"}, 409, "under-way", "1"},
		{h, "POST", strings.NewReader("12345678901"), []string{"l"}, 413, "body-too-large", ""},
		{h, "POST", strings.NewReader("4321"), []string{"k"}, 422, "other-payload", ""},
		{h, "POST", strings.NewReader("123456"), []string{"l"}, 500, "answer-too-large", ""},
		{failing, "POST", nil, []string{"l"}, 503, "store-failed", "1"},
	} {
		w := send(c.handler, c.method, c.body, c.keys...)
		var p problem
		must(t, json.Unmarshal(w.Body.Bytes(), &p))
		if w.Code != c.status || p.Status != c.status || !strings.HasSuffix(p.Type, "/docs/guide/idempotency.md#"+c.code) || p.Title == "" {
			t.Errorf("%s with keys %q: %d %+v, want %d and the code %s", c.method, c.keys, w.Code, p, c.status, c.code)
		}
		if w.Header().Get("Content-Type") != "application/problem+json" || w.Header().Get("Retry-After") != c.retryAfter {
			t.Errorf("%s: the header is %v, want a problem with Retry-After %q", c.code, w.Header(), c.retryAfter)
		}
		if !bytes.Contains(guide, []byte("\n### "+c.code+"\n")) {
			t.Errorf("the guide has no section %s", c.code)
		}
	}
}

// failingStore is a Store whose calls fail.
type failingStore struct {
	idempotency.Store
	err error
}

func (s failingStore) Do(context.Context, idempotency.Request, func(context.Context) idempotency.Result) (*idempotency.Answer, error) {
	return nil, s.err
}

func (s failingStore) Reserve(context.Context, idempotency.ID, time.Duration) (time.Time, error) {
	return time.Time{}, s.err
}

// TestMethods: which methods need a key, and which pass unchanged.
func TestMethods(t *testing.T) {
	t.Parallel()
	h := middleware(t, nil).Wrap(ok)
	for method, want := range map[string]int{"POST": 400, "PATCH": 400, "PUT": 200, "DELETE": 200, "GET": 200, "HEAD": 200, "OPTIONS": 200, "QUERY": 200} {
		if w := send(h, method, nil); w.Code != want {
			t.Errorf("%s without a key: %d, want %d", method, w.Code, want)
		}
	}
	for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
		for range 2 {
			if w := send(h, method, nil, "k"); w.Code != 200 || w.Header().Get(idempotency.Replayed) != "" {
				t.Errorf("%s with a key: %d %v, want 200 and no replay", method, w.Code, w.Header())
			}
		}
	}
}

// TestHeaders: the first answer has all fields; a replay has those of the guide, and fields of
// handlers around the middleware.
func TestHeaders(t *testing.T) {
	t.Parallel()
	inner := middleware(t, nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if w.Header().Get("X-Outer") != "1" {
			t.Error("the handler does not see the fields of the handler around the middleware")
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Set-Cookie", "secret")
		w.Header().Set("Content-Length", "99")
		w.Header().Del("X-Removed")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "<html>")
		w.WriteHeader(http.StatusTeapot)
	}))
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Outer", "1")
		w.Header().Set("X-Removed", "1")
		inner.ServeHTTP(w, r)
	})
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	for _, replay := range []bool{false, true} {
		r, err := http.NewRequest("POST", server.URL, nil)
		must(t, err)
		r.Header.Set("Idempotency-Key", "k")
		r.Header.Set("Accept-Encoding", "identity")
		answer, err := server.Client().Do(r)
		must(t, err)
		body, err := io.ReadAll(answer.Body)
		must(t, err)
		must(t, answer.Body.Close())
		want := map[string]string{"Content-Encoding": "gzip", "X-Outer": "1", "Content-Type": "text/html; charset=utf-8", "Set-Cookie": "secret", "Idempotent-Replayed": "", "X-Removed": ""}
		if replay {
			want["Set-Cookie"], want["Idempotent-Replayed"], want["X-Removed"] = "", "true", "1"
		}
		for name, value := range want {
			if got := answer.Header.Get(name); got != value {
				t.Errorf("replay %t: %s is %q, want %q", replay, name, got, value)
			}
		}
		if answer.StatusCode != http.StatusAccepted || string(body) != "<html>" {
			t.Errorf("replay %t: %d %q", replay, answer.StatusCode, body)
		}
	}
}

// TestInvalidStatus: a status that net/http refuses is refused before anything is committed.
func TestInvalidStatus(t *testing.T) {
	t.Parallel()
	m := middleware(t, nil)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the status 99 is no panic")
			}
		}()
		send(m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(99) })), "POST", nil, "k")
	}()
	if w := send(m.Wrap(ok), "POST", nil, "k"); w.Code != 200 || w.Header().Get(idempotency.Replayed) != "" {
		t.Errorf("the repeat gets %d %v, want a first answer", w.Code, w.Header())
	}
}

// TestTimeout: the context of the handler ends.
func TestTimeout(t *testing.T) {
	t.Parallel()
	h := middleware(t, func(c *idempotency.Config) { c.Timeout = time.Millisecond }).
		Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			w.WriteHeader(http.StatusGatewayTimeout)
		}))
	if w := send(h, "POST", nil, "k"); w.Code != http.StatusGatewayTimeout {
		t.Errorf("the answer is %d, want 504", w.Code)
	}
}

// TestIssuer: the handler issues a key with an expiry.
func TestIssuer(t *testing.T) {
	t.Parallel()
	m := middleware(t, nil)
	w := send(m.Issuer(), "POST", nil)
	var got struct {
		Key     string
		Expires time.Time
	}
	must(t, json.Unmarshal(w.Body.Bytes(), &got))
	if left := time.Until(got.Expires); w.Code != http.StatusCreated || left < 59*time.Minute || left > time.Hour {
		t.Errorf("the answer is %d %s, want 201 and an expiry in 1 h", w.Code, w.Body)
	}
	for _, replay := range []string{"", "true"} {
		if w := send(m.Wrap(ok), "POST", nil, `"`+got.Key+`"`); w.Code != 200 || w.Header().Get(idempotency.Replayed) != replay {
			t.Errorf("a request with the issued key gets %d %v, want 200, replayed %q", w.Code, w.Header(), replay)
		}
	}
	if w := send(m.Issuer(), "GET", nil); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("GET gets %d, want 405", w.Code)
	}
	failing := middleware(t, func(c *idempotency.Config) { c.Store = failingStore{err: errors.New("down")} })
	if w := send(failing.Issuer(), "POST", nil); w.Code != http.StatusServiceUnavailable {
		t.Errorf("with a store that fails, the answer is %d, want 503", w.Code)
	}
}

// TestNoSecrets: neither problems nor logs contain keys, payloads or callers.
func TestNoSecrets(t *testing.T) {
	t.Parallel()
	var logs bytes.Buffer
	m := middleware(t, func(c *idempotency.Config) {
		c.Store, c.MaxBytes = failingStore{err: errors.New("down")}, 100
		c.Logger = slog.New(slog.NewTextHandler(&logs, nil))
		c.Caller = func(*http.Request) string { return "s3cret-caller" }
	})
	for _, key := range []string{"s3cret", `"s3cret`, `"s3cret" x`, "s3cret s3cret", `"s3cret\x"`, "s3cret,s3cret", strings.Repeat("s3cret", 99), "issued-s3cret"} {
		for _, body := range []string{"s3cret", strings.Repeat("s3cret", 99)} {
			if w := send(m.Wrap(ok), "POST", strings.NewReader(body), key); strings.Contains(w.Body.String(), "s3cret") || w.Code < 400 {
				t.Errorf("with the key %q: %d %s", key, w.Code, w.Body)
			}
		}
	}
	if strings.Contains(logs.String(), "s3cret") || !strings.Contains(logs.String(), "down") {
		t.Errorf("the log is %s, want the error and no secret", logs.String())
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	_, err := idempotency.New(idempotency.Config{TTL: -1})
	for _, want := range []string{"Store", "Caller", "negative"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one that names %s", err, want)
		}
	}
}

// sweptStore is a Store with expired rows.
type sweptStore struct {
	idempotency.Store
	rows, calls int
	err         error
}

func (s *sweptStore) Sweep(_ context.Context, limit int) (int, error) {
	s.calls++
	deleted := min(limit, s.rows)
	s.rows -= deleted
	return deleted, s.err
}

// TestSweep: Sweep deletes all expired rows at once, in batches, and waits when there are none.
func TestSweep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &sweptStore{rows: 1200}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour+time.Second)
		defer cancel()
		must(t, idempotency.Sweep(ctx, store, 30*time.Minute))
		if store.rows != 0 || store.calls != 5 {
			t.Errorf("within 1 h, %d calls left %d rows, want 5 calls and none", store.calls, store.rows)
		}
		store.err = errors.New("down")
		if err := idempotency.Sweep(t.Context(), store, 0); !errors.Is(err, store.err) {
			t.Errorf("Sweep returns %v, want the error of the store", err)
		}
	})
}
