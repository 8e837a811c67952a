package serve_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/serve"
)

// site serves pages /0 to /9, each with a link to the next one, and a page that is missing.
func site(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); err != nil || n > 9 {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<title>%d</title><a href="/%d">next</a>`, n, n+1)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// config returns the Config of a Server whose crawls may request loopback addresses.
func config(t *testing.T) serve.Config {
	s := crawl.DefaultSettings()
	s.Delay, s.Capacity, s.AllowPrivate = 0, 10_000, true
	return serve.Config{Root: t.TempDir(), Settings: s}
}

// service is a Server that runs.
type service struct {
	t    *testing.T
	url  string
	root string
	end  func() // ends the Server and waits
	lost func() // waits until the Server has ended because another one has taken its lease
	auth string
}

// start runs a Server on a loopback address until the test or end ends it.
func start(t *testing.T, cfg serve.Config) *service {
	t.Helper()
	server, err := serve.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- server.Run(ctx, listener) }()
	ended := false
	end := func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(end)
	lost := func() {
		ended = true
		if err := errors.Join(<-ran, server.Close()); !errors.Is(err, serve.ErrLeaseLost) {
			t.Errorf("the Server ended with %v, want ErrLeaseLost", err)
		}
		cancel()
	}
	return &service{t: t, url: "http://" + listener.Addr().String(), root: cfg.Root, end: end, lost: lost}
}

// reply is an answer of a service.
type reply struct {
	status int
	header http.Header
	body   string
}

// ask sends a request. A key of "" sends none.
func (s *service) ask(method, path, key, body string, header ...string) reply {
	s.t.Helper()
	r, err := s.send(method, path, key, strings.NewReader(body), header...)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *service) send(method, path, key string, body io.Reader, header ...string) (reply, error) {
	if body == nil {
		body = http.NoBody
	}
	request, err := http.NewRequest(method, s.url+path, body)
	if err != nil {
		return reply{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	if s.auth != "" {
		request.Header.Set("Authorization", "Bearer "+s.auth)
	}
	for i := 0; i < len(header); i += 2 {
		if request.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			request.Host = header[i+1]
		}
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, string(text)}, err
}

// want fails the test unless a reply has a status, and decodes its body.
func (r reply) want(t *testing.T, status int, into ...any) reply {
	t.Helper()
	if r.status != status {
		t.Fatalf("status %d, want %d: %s", r.status, status, r.body)
	}
	for _, value := range into {
		if err := json.Unmarshal([]byte(r.body), value); err != nil {
			t.Fatalf("%v: %s", err, r.body)
		}
	}
	return r
}

// problem fails the test unless a reply is a problem of a kind.
func (r reply) problem(t *testing.T, kind string) reply {
	t.Helper()
	var p struct{ Type string }
	if _ = json.Unmarshal([]byte(r.body), &p); !strings.HasSuffix(p.Type, "#"+kind) || r.header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("status %d, %s %s, want the problem %s", r.status, r.header.Get("Content-Type"), r.body, kind)
	}
	return r
}

// create creates a crawl with the settings given as JSON strings.
func (s *service) create(name string, settings ...string) {
	s.t.Helper()
	text, _ := json.Marshal(map[string]any{"name": name, "settings": append([]string{}, settings...)})
	s.ask("POST", "/v1/crawls", "create-"+name, string(text)).want(s.t, 201)
}

// status returns the state of a crawl.
func (s *service) status(name string) (status serve.CrawlStatus) {
	s.t.Helper()
	s.ask("GET", "/v1/crawls/"+name, "", "").want(s.t, 200, &status)
	return status
}

// await waits until a crawl is as wanted.
func (s *service) await(name string, wanted func(serve.CrawlStatus) bool) serve.CrawlStatus {
	s.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		status := s.status(name)
		if wanted(status) {
			return status
		}
		if time.Now().After(end) {
			s.t.Fatalf("crawl %s is %+v", name, status)
		}
	}
}

func finished(s serve.CrawlStatus) bool {
	return s.State == serve.Finished && s.Status.Stats.Queued == 0 && s.Status.Stats.Pages > 0
}

// TestCrawlOverHTTP: a crawl is created, gets seeds, crawls, is looked at from all sides, changed, and deleted.
func TestCrawlOverHTTP(t *testing.T) {
	t.Parallel()
	s, web := start(t, config(t)), site(t)
	made := s.ask("POST", "/v1/crawls", "c1", `{"name":"shop","settings":["max-depth=3","max-pages=100"]}`).want(t, 201)
	if made.header.Get("Location") != "/v1/crawls/shop" {
		t.Errorf("Location %q", made.header.Get("Location"))
	}
	var seeds serve.Seeds
	s.ask("POST", "/v1/crawls/shop/seeds", "s1", `{"seeds":["`+web+`/0","`+web+`/missing","ftp://x/","`+web+`/0#again"]}`).want(t, 200, &seeds)
	if seeds.Added != 2 || seeds.Seen != 1 || seeds.Refused != 1 || len(seeds.Answers) != 4 || seeds.Answers[2].Answer != "refused" {
		t.Errorf("seeds: %+v, want 2 added, 1 seen, 1 refused", seeds)
	}
	status := s.await("shop", finished)
	if status.Status.Stats.Pages != 5 { // depth 0 to 3, and the missing one
		t.Errorf("%d pages, want 5", status.Status.Stats.Pages)
	}
	if status.Name != "shop" || status.By != "local" || !status.Run {
		t.Errorf("summary: %+v", status.Summary)
	}
	var records serve.Records
	s.ask("GET", "/v1/crawls/shop/records?limit=3", "", "").want(t, 200, &records)
	first := records
	s.ask("GET", "/v1/crawls/shop/records?cursor="+records.Next, "", "").want(t, 200, &records)
	if len(first.Records) != 3 || len(records.Records) != 2 {
		t.Errorf("%d and %d records, want 3 and 2", len(first.Records), len(records.Records))
	}
	s.ask("GET", "/v1/crawls/shop/records?cursor=9-9", "", "").want(t, 410).problem(t, "cursor-gone")
	s.ask("GET", "/v1/crawls/shop/records?cursor=../../x", "", "").problem(t, "invalid")
	latest := s.ask("GET", "/v1/crawls/shop/records/latest", "", "").want(t, 200)
	if n := strings.Count(latest.body, "\n"); n != 5 || latest.header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("%d latest records as %s, want 5", n, latest.header.Get("Content-Type"))
	}
	var explained struct{ Canonical string }
	s.ask("GET", "/v1/crawls/shop/explain?url="+web+"/3", "", "").want(t, 200, &explained)
	var hosts struct{ Hosts []struct{ Pages uint64 } }
	s.ask("GET", "/v1/crawls/shop/hosts?sort=pages&limit=5", "", "").want(t, 200, &hosts)
	if len(hosts.Hosts) != 1 || hosts.Hosts[0].Pages != 5 {
		t.Errorf("hosts: %+v", hosts)
	}
	if text := s.ask("GET", "/v1/crawls/shop/report", "", "").want(t, 200).body; strings.Contains(text, "/shop.crawl") {
		t.Errorf("the report has a path of this machine: %s", text)
	}
	s.ask("GET", "/v1/crawls", "", "").want(t, 200)

	// The policy.
	var settings serve.PolicySettings
	got := s.ask("GET", "/v1/crawls/shop/settings", "", "").want(t, 200, &settings)
	if settings.Settings["max-depth"] != "3" || settings.Settings["max-pages"] != "100" || got.header.Get("ETag") != `"1"` {
		t.Errorf("settings: %s, version 1 for max-pages", got.body)
	}
	if _, shown := settings.Settings["allow-private"]; shown {
		t.Error("allow-private is shown")
	}
	var change serve.Change
	s.ask("PATCH", "/v1/crawls/shop/settings", "p1", `{"settings":["max-depth=5"],"from":1,"why":"more"}`).want(t, 200, &change)
	if change.Version.Number != 2 || !strings.HasPrefix(change.Version.Who, "local (request ") {
		t.Errorf("changed: %+v", change.Version)
	}
	refused := s.ask("PATCH", "/v1/crawls/shop/settings", "p2", `{"settings":["max-depth=6"],"from":1}`).want(t, 409).problem(t, "conflict")
	if again := s.ask("PATCH", "/v1/crawls/shop/settings", "p2", `{"settings":["max-depth=6"],"from":1}`); again.body != refused.body || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("a refusal that the state decided is not replayed: %+v", again)
	}
	s.ask("PATCH", "/v1/crawls/shop/settings", "p3", `{"settings":["scope=any"]}`).problem(t, "invalid")
	s.ask("PATCH", "/v1/crawls/shop/settings", "p4", `{"settings":["proxy=http://10.0.0.1/"]}`).problem(t, "invalid")
	var versions struct{ Versions []crawl.PolicyVersion }
	s.ask("GET", "/v1/crawls/shop/settings/history", "", "").want(t, 200, &versions)
	if len(versions.Versions) != 2 {
		t.Errorf("%d versions, want 2", len(versions.Versions))
	}
	s.ask("POST", "/v1/crawls/shop/drops", "d1", `{"rule":"match=/nothing/","why":"a test"}`).want(t, 200, &change)
	if change.Version.Number != 3 {
		t.Errorf("drop made version %d, want 3", change.Version.Number)
	}
	s.ask("POST", "/v1/crawls/shop/drops", "d2", `{"rule":"match=("}`).problem(t, "invalid")

	// Failures, and a second round.
	var retried crawl.Retried
	s.ask("POST", "/v1/crawls/shop/retries", "r1", `{}`).want(t, 200, &retried)
	if retried.URLs != 0 { // a 404 is final, not a failure
		t.Errorf("%d URLs retried, want 0", retried.URLs)
	}

	// Pause, stop, resume.
	var run serve.RunState
	s.ask("POST", "/v1/crawls/shop/pause", "run1", "").want(t, 200, &run)
	if !run.Paused || !run.Run {
		t.Errorf("pause: %+v", run)
	}
	s.ask("POST", "/v1/crawls/shop/seeds", "s2", `{"seeds":["`+web+`/8"]}`).want(t, 200, &seeds)
	s.await("shop", func(c serve.CrawlStatus) bool { return c.State == serve.Running && c.Status.Stats.Paused })
	s.ask("POST", "/v1/crawls/shop/stop", "run2", "").want(t, 200, &run)
	s.await("shop", func(c serve.CrawlStatus) bool { return c.State == serve.Stopped && !c.Run })
	s.ask("POST", "/v1/crawls/shop/resume", "run3", "").want(t, 200, &run)
	s.await("shop", finished)

	s.ask("DELETE", "/v1/crawls/shop", "del", "").want(t, 204)
	s.ask("GET", "/v1/crawls/shop", "", "").want(t, 404).problem(t, "no-crawl")
	if again := s.ask("DELETE", "/v1/crawls/shop", "del", "").want(t, 204); again.header.Get("Idempotent-Replayed") != "true" {
		t.Error("the deletion is not replayed")
	}
	s.ask("DELETE", "/v1/crawls/shop", "", "").want(t, 404)
}

// TestSameAnswer: each kind of change has one effect, and a repeat has the same status, body, Content-Type, Location and ETag.
func TestSameAnswer(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	s, web := start(t, cfg), site(t)
	s.create("a", "max-depth=0")
	changes := []struct{ method, path, body string }{
		{"POST", "/v1/crawls", `{"name":"b","run":false}`},
		{"POST", "/v1/crawls/a/seeds", `{"seeds":["` + web + `/1"]}`},
		{"POST", "/v1/crawls/a/uploads", web + "/2\n" + web + "/3"},
		{"PATCH", "/v1/crawls/a/settings", `{"settings":["max-depth=1"]}`},
		{"POST", "/v1/crawls/a/drops", `{"rule":"host=nowhere.test"}`},
		{"POST", "/v1/crawls/a/retries", `{"outcome":"network"}`},
		{"POST", "/v1/crawls/a/pause", ``}, {"POST", "/v1/crawls/a/resume", ``}, {"POST", "/v1/crawls/a/stop", ``},
		{"DELETE", "/v1/crawls/b", ``},
	}
	firsts := make([]reply, len(changes))
	for i, c := range changes {
		firsts[i] = s.ask(c.method, c.path, fmt.Sprintf(`"key %d"`, i), c.body)
		if firsts[i].status != 400 { // a space is not visible
			t.Errorf("%s %s with an invalid key: %d", c.method, c.path, firsts[i].status)
		}
		firsts[i] = s.ask(c.method, c.path, fmt.Sprintf(`"key%d"`, i), c.body)
		if firsts[i].status > 299 {
			t.Fatalf("%s %s: %d %s", c.method, c.path, firsts[i].status, firsts[i].body)
		}
	}
	check := func(s *service) {
		for i, c := range changes {
			again := s.ask(c.method, c.path, fmt.Sprintf("key%d", i), c.body) // the bare form is the same key
			if again.header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("%s %s is not replayed: %d %s", c.method, c.path, again.status, again.body)
			}
			for _, name := range []string{"Content-Type", "Location", "ETag"} {
				if again.header.Get(name) != firsts[i].header.Get(name) {
					t.Errorf("%s %s: %s is %q, and was %q", c.method, c.path, name, again.header.Get(name), firsts[i].header.Get(name))
				}
			}
			if again.status != firsts[i].status || again.body != firsts[i].body {
				t.Errorf("%s %s: %d %q, and was %d %q", c.method, c.path, again.status, again.body, firsts[i].status, firsts[i].body)
			}
			if c.body != "" {
				if other := s.ask(c.method, c.path, fmt.Sprintf("key%d", i), c.body+" \n "); other.status != 422 || !strings.Contains(other.body, "#other-payload") {
					t.Errorf("%s %s with another payload: %d %s, want 422", c.method, c.path, other.status, other.body)
				}
			}
			if c.method != "DELETE" {
				if none := s.ask(c.method, c.path, "", c.body); none.status != 400 {
					t.Errorf("%s %s without a key: %d, want 400", c.method, c.path, none.status)
				}
			}
		}
	}
	check(s)
	s.end()
	check(start(t, cfg))
}

// TestDefaultsOfOperator: the settings of the Config hold for new crawls, also those that a crawl keeps only in its policy, and
// a crawl keeps what it was created with.
func TestDefaultsOfOperator(t *testing.T) {
	t.Parallel()
	cfg, web := config(t), site(t)
	cfg.Settings.MaxPages, cfg.Settings.MaxDepth, cfg.Settings.Exclude = 4, 7, []string{"/nothing/"}
	s := start(t, cfg)
	s.create("a", "exclude=/none/", "field=t=title")
	s.create("b", "max-pages=2")
	s.end()
	cfg.Settings = config(t).Settings
	s = start(t, cfg)
	for name, want := range map[string]map[string]string{
		"a": {"max-pages": "4", "max-depth": "7", "exclude": `["/none/"]`, "field": `[{"URL":"","Fields":["t=title"]}]`}, "b": {"max-pages": "2", "exclude": `["/nothing/"]`},
	} {
		var settings serve.PolicySettings
		s.ask("GET", "/v1/crawls/"+name+"/settings", "", "").want(t, 200, &settings)
		for setting, value := range want {
			if got := settings.Settings[setting]; got != value {
				t.Errorf("%s of crawl %s is %s, want %s", setting, name, got, value)
			}
		}
		s.ask("POST", "/v1/crawls/"+name+"/seeds", "s", `{"seeds":["`+web+`/0"]}`).want(t, 200)
		if c := s.await(name, func(c serve.CrawlStatus) bool { return c.State == serve.Finished && c.Status.Stats.Pages > 0 }); fmt.Sprint(c.Status.Stats.Pages) != want["max-pages"] {
			t.Errorf("crawl %s has %d pages, want %s", name, c.Status.Stats.Pages, want["max-pages"])
		}
	}
}

// TestUploadGoesOn: an upload that is cut off goes on where it ended, its counts are those of one upload, and while it is
// under way a repeat is refused.
func TestUploadGoesOn(t *testing.T) {
	t.Parallel()
	s := start(t, config(t))
	s.ask("POST", "/v1/crawls", "c", `{"name":"up","run":false}`).want(t, 201)
	var lines bytes.Buffer
	for i := range 3500 {
		switch i % 3 {
		case 0:
			fmt.Fprintf(&lines, "http://h%d.test/%d\n", i%7, i)
		case 1:
			fmt.Fprintf(&lines, "{\"url\":\"http://h%d.test/%d\",\"note\":1}\n", i%7, i)
		default:
			fmt.Fprintf(&lines, "\"http://h%d.test/%d\"\r\n", i%7, i/3)
		}
	}
	lines.WriteString("\n{\"uri\":1}\nftp://x/\n" + strings.Repeat("x", 20_000) + "\nhttp://last.test/")
	whole := lines.String()
	half, release := io.Pipe()
	cut := make(chan error, 1)
	go func() {
		request, _ := http.NewRequest("POST", s.url+"/v1/crawls/up/uploads", half)
		request.Header.Set("Idempotency-Key", "u1")
		request.ContentLength = int64(len(whole))
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		cut <- err
	}()
	_, _ = io.WriteString(release, whole[:len(whole)*2/3])
	s.await("up", func(c serve.CrawlStatus) bool { return c.Status.Stats.Added > 1000 })
	busy := s.ask("POST", "/v1/crawls/up/uploads", "u1", whole).want(t, 409).problem(t, "under-way")
	if busy.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	_ = release.CloseWithError(io.ErrUnexpectedEOF)
	<-cut
	var up serve.Upload
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		r := s.ask("POST", "/v1/crawls/up/uploads", "u1", whole)
		if r.status == 409 && time.Now().Before(end) {
			continue
		}
		r.want(t, 200, &up)
		break
	}
	sum := sha256.Sum256([]byte(whole))
	if up.SHA256 != fmt.Sprintf("%x", sum) || up.Lines != 3505 || up.Refused != 3 || len(up.Refusal) != 3 || up.Refusal[0].Line != 3502 {
		t.Errorf("upload: %+v", up)
	}
	status := s.status("up")
	if status.Status.Stats.Added != up.Added || up.Added+up.Seen != 3501 {
		t.Errorf("%d added to the crawl, %d added and %d seen in the answer", status.Status.Stats.Added, up.Added, up.Seen)
	}
	s.ask("POST", "/v1/crawls/up/uploads", "u1", "http://h0.test/other\n"+whole).problem(t, "other-payload")
	s.ask("POST", "/v1/crawls/up/uploads", "u1", whole+"/more").problem(t, "other-payload")
	s.ask("POST", "/v1/crawls/up/uploads", "u1", whole[:len(whole)/2]).problem(t, "other-payload")
	s.ask("POST", "/v1/crawls/up/uploads", "u2", whole, "Content-Digest", "sha-256=:AAAA:").problem(t, "syntax")
	s.ask("POST", "/v1/crawls/up/uploads", "u2", "http://a.test/", "Content-Digest", "sha-256=:"+strings.Repeat("A", 43)+"=:").problem(t, "digest")
	s.ask("POST", "/v1/crawls/up/uploads", "issued-1", whole).problem(t, "key-unknown")
	var issued struct{ Key string }
	s.ask("POST", "/v1/idempotency-keys", "", "").want(t, 201, &issued)
	first := s.ask("POST", "/v1/crawls/up/uploads", issued.Key, whole).want(t, 200)
	again := s.ask("POST", "/v1/crawls/up/uploads", issued.Key, whole).want(t, 200)
	if again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("with an issued key, a replay is %s, want %s", again.body, first.body)
	}
	s.ask("POST", "/v1/crawls/up/seeds", issued.Key, `{"seeds":["http://a.test/"]}`).want(t, 422)
	s.create("up2")
	s.ask("POST", "/v1/crawls/up2/uploads", issued.Key, whole).problem(t, "other-payload")
}
