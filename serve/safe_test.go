package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/serve"
)

var update = flag.Bool("update", false, "write testdata/openapi.json again")

// TestOpenAPI: the document is that of testdata/openapi.json, and of version 3.1.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	document := start(t, config(t)).ask("GET", "/openapi.json", "", "").want(t, 200).body
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, []byte(document), "", " "); err != nil {
		t.Fatal(err)
	}
	pretty.WriteByte('\n')
	name := filepath.Join("testdata", "openapi.json")
	if *update {
		if err := os.WriteFile(name, pretty.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(want, pretty.Bytes()) {
		t.Errorf("the OpenAPI document has changed (%v): go test ./serve -run TestOpenAPI -update", err)
	}
	if !strings.Contains(document, `"openapi":"3.1.0"`) {
		t.Error("the document is not of version 3.1.0")
	}
}

// TestAPIPage: docs/reference/api.md lists every operation with its scope, and every kind of problem.
func TestAPIPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "docs", "reference", "api.md"))
	if err != nil {
		t.Fatal(err)
	}
	for method, paths := range operations(t) {
		for _, op := range paths {
			line := fmt.Sprintf("| `%s %s` | %s | %s |", method, op.path, op.scope, op.summary)
			if !strings.Contains(string(page), line) {
				t.Errorf("docs/reference/api.md lacks the line\n%s", line)
			}
		}
	}
	for kind, status := range serve.ProblemKinds() {
		if !strings.Contains(string(page), fmt.Sprintf("\n### %s\n\n%d: ", kind, status)) {
			t.Errorf("docs/reference/api.md lacks the section %q of a problem with the status %d", kind, status)
		}
	}
}

// operation is an operation of the OpenAPI document.
type operation struct {
	path, scope, summary string
	query                []string
	body                 bool
}

// operations reads testdata/openapi.json.
func operations(t *testing.T) map[string][]operation {
	t.Helper()
	var document struct {
		Paths map[string]map[string]struct {
			Summary    string
			Security   []map[string][]string
			Parameters []struct{ Name, In string }
			Request    *struct{} `json:"requestBody"`
		}
	}
	text, err := os.ReadFile(filepath.Join("testdata", "openapi.json"))
	if err == nil {
		err = json.Unmarshal(text, &document)
	}
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]operation)
	for path, methods := range document.Paths {
		for method, op := range methods {
			method = strings.ToUpper(method)
			o := operation{path, op.Security[0]["token"][0], op.Summary, nil, op.Request != nil}
			for _, p := range op.Parameters {
				if p.In == "query" {
					o.query = append(o.query, p.Name)
				}
			}
			all[method] = append(all[method], o)
		}
	}
	if len(all["POST"]) < 9 || len(all["GET"]) < 11 {
		t.Fatalf("%d operations with POST and %d with GET", len(all["POST"]), len(all["GET"]))
	}
	return all
}

// TestHostileInputs sends generated inputs to every operation of the description: wrong types, huge, hostile and truncated
// ones. Each answer is a problem with a status of 4xx, unless the input happened to be valid, no crawl changes, and the
// memory does not grow.
func TestHostileInputs(t *testing.T) {
	t.Parallel()
	s := start(t, config(t))
	s.create("a", "max-depth=0")
	before := s.status("a")
	random := rand.New(rand.NewPCG(1, 2))
	values := []string{
		"", "null", "0", "-1", "1e999", "true", `"x"`, "[]", "{}", "[[[[[]]]]]", `{"a":{"a":{"a":1}}}`, `{"name":1}`, `{"name":"../../etc"}`,
		`{"name":".."}`, `{"name":"a\u0000b"}`, `{"seeds":"http://a.test/"}`, `{"seeds":[]}`, `{"seeds":[1,null,{}]}`, `{"seeds":null}`,
		`{"settings":["proxy=http://10.1.2.3/"]}`, `{"settings":["ca=/etc/passwd"]}`, `{"settings":["x"]}`, `{"settings":["include=("]}`,
		`{"settings":["delay=-1s"]}`, `{"settings":[` + strings.Repeat(`"delay=1s",`, 500) + `"delay=1s"]}`, `{"name":"b","settings":["urls=1e12"]}`,
		`{"settings":["allow-private=true"]}`, `{"rule":"match=("}`, `{"rule":"` + strings.Repeat("a", 5000) + `"}`, `{"rule":"host=*\u001b[31m"}`,
		`{"outcome":"../x"}`, `{"within_seconds":-1}`, `{"unknown":1}`, strings.Repeat("[", 100_000), `{"name":"` + strings.Repeat("a", 1<<20) + `"}`,
		"\xff\xfe\x00", `{"name":"`, "<html>", strings.Repeat("x", 5<<20), "{\"url\":5}", `"` + "\\ud800" + `"`,
	}
	runtime.GC()
	var begun, end runtime.MemStats
	runtime.ReadMemStats(&begun)
	n := 0
	ask := func(method, path, body string, header ...string) {
		t.Helper()
		n++
		r, err := s.send(method, path, fmt.Sprintf("k%d", n), strings.NewReader(body), header...)
		if err != nil { // the server closes the connection if it does not want the rest of the body
			return
		}
		switch {
		case r.status >= 500:
			t.Errorf("%s %.100s %.100q: %d %s", method, path, body, r.status, r.body)
		case r.status >= 400 && !strings.HasPrefix(r.header.Get("Content-Type"), "application/problem+json"):
			t.Errorf("%s %.100s %.100q: %d as %q, want a problem", method, path, body, r.status, r.header.Get("Content-Type"))
		}
	}
	for method, all := range operations(t) {
		for _, op := range all {
			path := strings.ReplaceAll(op.path, "{crawl}", "a")
			if method == "DELETE" || strings.HasSuffix(path, "/stream") || strings.HasSuffix(path, "/stop") || strings.HasSuffix(path, "/pause") {
				path = strings.ReplaceAll(op.path, "{crawl}", "none")
			}
			for _, value := range values {
				if method == "GET" || strings.HasSuffix(path, "/uploads") { // any text is a line of an upload
					break
				}
				ask(method, path, value)
				ask(method, path, value[:random.IntN(len(value)+1)])
			}
			for _, name := range append(op.query, "unknown") {
				for _, value := range []string{"-1", "1e9", "%00", "%ff", "../..", strings.Repeat("9", 10_000), "%1b%5b31m", "a%20b", "true", "''"} {
					ask(method, path+"?"+name+"="+value, "{")
				}
			}
			for _, crawl := range []string{"..", "%2e%2e", "a%2fb", "%00", strings.Repeat("a", 1000), "a;b", "%61"} {
				ask(method, strings.ReplaceAll(op.path, "{crawl}", crawl)+"?x=1", "{")
			}
		}
	}
	for _, key := range []string{" ", `"`, "a,b", strings.Repeat("k", 256), `"a"b`, "ä"} {
		if r, err := s.send("POST", "/v1/crawls/a/seeds", key, strings.NewReader(`{"seeds":["http://a.test/"]}`)); err == nil && r.status != 400 {
			t.Errorf("key %.20q: %d, want 400", key, r.status)
		}
	}
	after := s.status("a")
	if after.Status.Stats.Added != before.Status.Stats.Added || len(s.list()) != 1 {
		t.Errorf("something changed: %d added, before %d; crawls %v", after.Status.Stats.Added, before.Status.Stats.Added, s.list())
	}
	http.DefaultClient.CloseIdleConnections()
	runtime.GC()
	runtime.ReadMemStats(&end)
	if grown := int64(end.HeapAlloc) - int64(begun.HeapAlloc); grown > 64<<20 {
		t.Errorf("the heap grew by %d MiB in %d requests", grown>>20, n)
	}
	if entries, err := os.ReadDir(filepath.Dir(s.root)); err != nil || len(entries) != 1 {
		t.Errorf("beside the root are %v, %v", entries, err)
	}
	t.Logf("%d requests", n)
}

// list returns the names of the crawls.
func (s *service) list() (names []string) {
	var list struct{ Crawls []serve.Summary }
	s.ask("GET", "/v1/crawls", "", "").want(s.t, 200, &list)
	for _, c := range list.Crawls {
		names = append(names, c.Name)
	}
	return names
}

// TestTokens: each token permits what its scope says, and nothing is permitted without one.
func TestTokens(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	tokens, err := serve.ParseTokens(strings.NewReader("# people\n\nrex read  reads-and-reads-1\nwil write writes-and-writes\n  ada admin admin-of-all-of-it\n"))
	if err != nil || len(tokens) != 3 || tokens[0].Hash != sha256.Sum256([]byte("reads-and-reads-1")) {
		t.Fatal(tokens, err)
	}
	var audit lockedBuffer
	cfg.Tokens, cfg.Audit = tokens, &audit
	s := start(t, cfg)
	for _, secret := range []string{"", "wrong-wrong-wrong-wrong", "reads-and-reads-12", "reads-and-reads-"} {
		s.auth = secret
		if r := s.ask("GET", "/v1/crawls", "", "").problem(t, "token"); r.status != 401 || r.header.Get("WWW-Authenticate") == "" {
			t.Errorf("with %q: %d", secret, r.status)
		}
	}
	s.auth = ""
	s.ask("GET", "/v1/crawls", "", "", "Authorization", "Basic reads-and-reads-1").want(t, 401)
	s.auth = "admin-of-all-of-it"
	s.create("a", "max-depth=0")
	for _, c := range []struct {
		secret              string
		read, write, create int
	}{{"reads-and-reads-1", 200, 403, 403}, {"writes-and-writes", 200, 200, 403}, {"admin-of-all-of-it", 200, 200, 409}} {
		s.auth = c.secret
		s.ask("GET", "/v1/crawls/a", "", "").want(t, c.read)
		s.ask("POST", "/v1/crawls/a/pause", "k", "").want(t, c.write) // the same key of another caller is another key
		s.ask("POST", "/v1/crawls", "k", `{"name":"a"}`).want(t, c.create)
		s.ask("POST", "/v1/idempotency-keys", "", "").want(t, map[bool]int{true: 201, false: 403}[c.write == 200])
	}
	lines := strings.Split(strings.TrimSpace(audit.String()), "\n")
	var last struct {
		Caller, Key, Method, Path string
		Status                    int
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-2]), &last); err != nil || last.Caller != "ada" || last.Key != "k" || last.Path != "/v1/crawls" || last.Status != 409 {
		t.Errorf("audit: %+v, %v", last, err)
	}
	if len(lines) != 1+9 || strings.Contains(audit.String(), "admin-of-all") {
		t.Errorf("%d lines of audit, want 10, and no secret", len(lines))
	}
	for text, fault := range map[string]string{
		"a read short": "line 1", "a b c d": "line 1", "a boss 0123456789abcdef": "boss", "local read 0123456789abcdef": "local",
		"a/b read 0123456789abcdef": "name", "a read 0123456789abcdef\na write 0123456789abcdef2": "another one", "": "has none",
	} {
		if _, err := serve.ParseTokens(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), fault) || strings.Contains(err.Error(), "0123456789") {
			t.Errorf("tokens %q: %v, want a fault with %q", text, err, fault)
		}
	}
}

// lockedBuffer is a bytes.Buffer for several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestGuard: requests under other names, from pages of other sites, and for what does not exist are refused.
func TestGuard(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Hosts = []string{"Crawls.Example.org:8080"}
	s := start(t, cfg)
	s.ask("GET", "/v1/crawls", "", "", "Host", "attacker.example").want(t, 421).problem(t, "host")
	s.ask("GET", "/v1/crawls", "", "", "Host", "crawls.example.org").want(t, 200)
	s.ask("GET", "/v1/crawls", "", "", "Host", "localhost:1").want(t, 200)
	s.ask("POST", "/v1/crawls", "k", `{"name":"x"}`, "Origin", "https://attacker.example").want(t, 403).problem(t, "cross-origin")
	s.ask("POST", "/v1/crawls", "k", `{"name":"x"}`, "Sec-Fetch-Site", "cross-site").want(t, 403).problem(t, "cross-origin")
	s.ask("GET", "/v1/nothing", "", "").want(t, 404).problem(t, "no-route")
	if r := s.ask("PUT", "/v1/crawls", "", "").want(t, 405).problem(t, "method"); r.header.Get("Allow") != "GET, POST" {
		t.Errorf("Allow: %q", r.header.Get("Allow"))
	}
	if len(s.list()) != 0 {
		t.Errorf("crawls: %v", s.list())
	}
	for _, path := range []string{"/livez", "/readyz"} {
		if r := s.ask("GET", path, "", "").want(t, 200); r.body != "ok\n" {
			t.Errorf("%s: %q", path, r.body)
		}
	}
	if text := s.ask("GET", "/metrics", "", "").want(t, 200).body; !strings.Contains(text, `crawler_serve_changes_total{replayed="false",status="405"} 1`) ||
		!strings.Contains(text, `crawler_serve_crawls{state="running"} 0`) || !strings.Contains(text, "crawler_serve_sweep_lag_seconds 0") {
		t.Errorf("metrics: %s", text)
	}
	public, err := serve.New(t.Context(), config(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = public.Close() }()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := public.Run(t.Context(), elsewhere{listener}); err == nil || !strings.Contains(err.Error(), "needs tokens") {
		t.Errorf("Run on an address that is not loopback: %v", err)
	}
}

// elsewhere is a Listener that pretends to have an address that is not loopback.
type elsewhere struct{ net.Listener }

func (elsewhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80} }

// TestEventStream: a stream has each event once, also for a client that comes back with the last id.
func TestEventStream(t *testing.T) {
	t.Parallel()
	s, web := start(t, config(t)), site(t)
	s.create("a")
	s.ask("POST", "/v1/crawls/a/seeds", "s", `{"seeds":["`+web+`/0"]}`).want(t, 200)
	var ids, subjects []string
	follow := func(last string, most int) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		request, _ := http.NewRequestWithContext(ctx, "GET", s.url+"/v1/crawls/a/events/stream", nil)
		if last != "" {
			request.Header.Set("Last-Event-ID", last)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%s %s", response.Status, response.Header)
		}
		lines := bufio.NewScanner(response.Body)
		for most > 0 && lines.Scan() {
			if id, is := strings.CutPrefix(lines.Text(), "id: "); is {
				ids = append(ids, id)
			}
			if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
				var event struct{ Subject, Type string }
				if err := json.Unmarshal([]byte(data), &event); err != nil {
					t.Fatal(err, data)
				}
				subjects = append(subjects, event.Subject)
				most--
			}
		}
		if most > 0 {
			t.Fatalf("the stream ended: %v, %v", subjects, lines.Err())
		}
	}
	follow("", 4)
	follow(ids[len(ids)-1], 7)
	slices.Sort(subjects)
	if len(slices.Compact(subjects)) != 11 { // /0 to /9, and /10, which is missing
		t.Errorf("%d events, want 11 different ones: %v", len(subjects), subjects)
	}
	s.ask("GET", "/v1/crawls/a/events/stream", "", "", "Last-Event-ID", "x").problem(t, "invalid")
	var page serve.Events
	s.ask("GET", "/v1/crawls/a/events?limit=11", "", "").want(t, 200, &page)
	if len(page.Events) != 11 {
		t.Errorf("%d events in the page, want 11", len(page.Events))
	}
}

// TestRace: of requests that race under one key, one has an effect, and the others get its answer or are told to wait. Of
// requests that race under different keys to create one crawl, one succeeds.
func TestRace(t *testing.T) {
	t.Parallel()
	s := start(t, config(t))
	s.create("a")
	race := func(n int, key func(i int) string, path, body string) (statuses []int, bodies []string) {
		var mu sync.Mutex
		var group sync.WaitGroup
		for i := range n {
			group.Go(func() {
				for {
					r, err := s.send("POST", path, key(i), strings.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					if r.status == 409 && r.header.Get("Retry-After") != "" {
						time.Sleep(10 * time.Millisecond)
						continue
					}
					mu.Lock()
					statuses, bodies = append(statuses, r.status), append(bodies, r.body)
					mu.Unlock()
					return
				}
			})
		}
		group.Wait()
		slices.Sort(statuses)
		slices.Sort(bodies)
		return statuses, slices.Compact(bodies)
	}
	statuses, bodies := race(8, func(int) string { return "one" }, "/v1/crawls/a/seeds", `{"seeds":["http://x.test/1","http://x.test/2"]}`)
	if statuses[7] != 200 || len(bodies) != 1 || !strings.Contains(bodies[0], `"added":2`) {
		t.Errorf("seeds: %v %v", statuses, bodies)
	}
	statuses, bodies = race(8, func(int) string { return "two" }, "/v1/crawls/a/uploads", "http://y.test/1\nhttp://y.test/2\n")
	if statuses[7] != 200 || len(bodies) != 1 || !strings.Contains(bodies[0], `"added":2`) {
		t.Errorf("upload: %v %v", statuses, bodies)
	}
	statuses, _ = race(8, func(i int) string { return fmt.Sprint("c", i) }, "/v1/crawls", `{"name":"b","run":false}`)
	if statuses[0] != 201 || statuses[1] != 409 {
		t.Errorf("creations: %v", statuses)
	}
}

// TestSlowClients: clients that send their request slowly, or not at all, are cut off, and others are answered meanwhile.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	s := start(t, config(t))
	for range 50 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "POST /v1/crawls HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: a\r\nContent-Length: 100\r\n\r\n{")
	}
	saw := map[int]int{}
	for i := range 40 { // 32 of the slow requests are admitted
		saw[s.ask("POST", "/v1/crawls", fmt.Sprint(i), `{"name":"x"}`).status]++
		s.ask("GET", "/v1/crawls", "", "").want(t, 200)
	}
	if saw[429] != 40 {
		t.Errorf("answers beside slow requests: %v, want 429, because there is a bound", saw)
	}
	// The server closes the connection, which can hide its answer.
	if header, err := s.send("GET", "/v1/crawls", "", nil, "X-Long", strings.Repeat("x", 100_000)); err == nil && header.status != 431 {
		t.Errorf("a long header: %d, want 431", header.status)
	}
}
