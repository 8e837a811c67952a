package serve_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/serve"
)

// browser asks a service for pages, with the cookie of a login.
type browser struct {
	*service
	cookie string
}

func (b *browser) get(t *testing.T, path string, header ...string) reply {
	t.Helper()
	return b.do(t, http.MethodGet, path, nil, header...)
}

func (b *browser) do(t *testing.T, method, path string, form url.Values, header ...string) reply {
	t.Helper()
	header = append(header, "Content-Type", "application/x-www-form-urlencoded")
	if b.cookie != "" {
		header = append(header, "Cookie", b.cookie)
	}
	before := http.DefaultClient.CheckRedirect
	http.DefaultClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	defer func() { http.DefaultClient.CheckRedirect = before }()
	r, err := b.send(method, path, "", strings.NewReader(form.Encode()), header...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)">`)

// form returns the hidden fields of the form of a page whose field do has a value.
func form(t *testing.T, page, do string) url.Values {
	t.Helper()
	for _, part := range strings.Split(page, "<form")[1:] {
		fields := make(url.Values)
		for _, found := range hiddenField.FindAllStringSubmatch(strings.Split(part, "</form>")[0], -1) {
			fields.Set(found[1], strings.ReplaceAll(found[2], "&amp;", "&"))
		}
		if fields.Get("do") == do {
			return fields
		}
	}
	t.Fatalf("the page has no form that does %q:\n%s", do, page)
	return nil
}

// login returns a browser with the login of a secret.
func (s *service) login(t *testing.T, secret string) *browser {
	t.Helper()
	b := &browser{service: s}
	fields := form(t, b.get(t, "/login").want(t, 200).body, "")
	fields.Set("secret", secret)
	set := b.do(t, http.MethodPost, "/login", fields).want(t, 303).header.Get("Set-Cookie")
	if !strings.Contains(set, "HttpOnly") || !strings.Contains(set, "SameSite=Strict") {
		t.Fatalf("Set-Cookie: %s, want HttpOnly and SameSite=Strict", set)
	}
	b.cookie, _, _ = strings.Cut(set, ";")
	return b
}

const reader, writer = "secret-of-the-reader", "secret-of-the-writer"

// paged starts a service with two callers and a crawl that has run.
func paged(t *testing.T, audit *bytes.Buffer) *service {
	cfg := config(t)
	cfg.Tokens = []serve.Token{
		{Name: "ann", Scope: serve.Read, Hash: sha256.Sum256([]byte(reader))}, {Name: "bob", Scope: serve.Admin, Hash: sha256.Sum256([]byte(writer))},
	}
	if audit != nil {
		cfg.Audit = audit
	}
	s := start(t, cfg)
	s.auth = writer
	s.ask(http.MethodPost, "/v1/crawls", "c1", `{"name":"c"}`).want(t, 201)
	s.ask(http.MethodPost, "/v1/crawls/c/seeds", "s1", fmt.Sprintf(`{"seeds":[%q]}`, hostile(t))).want(t, 200)
	for begun := time.Now(); ; {
		body := s.ask(http.MethodGet, "/v1/crawls/c", "", "").want(t, 200).body
		if strings.Contains(body, `"state":"finished"`) {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatal(body)
		}
	}
	s.auth = ""
	return s
}

// hostile serves a page whose title is markup with escape sequences.
func hostile(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>&lt;img src=x onerror=alert(1)&gt;\x1b[31m</title>")
	}))
	t.Cleanup(server.Close)
	return server.URL + "/%3Cb%3E"
}

// TestDashboardLogin: a token becomes a cookie, which pages accept and the API does not.
func TestDashboardLogin(t *testing.T) {
	s := paged(t, nil)
	nobody := &browser{service: s}
	if to := nobody.get(t, "/crawls/c/hosts").want(t, 303).header.Get("Location"); to != "/login?to=%2Fcrawls%2Fc%2Fhosts" {
		t.Errorf("without a login: Location %q", to)
	}
	nobody.get(t, "/", "Accept", "text/event-stream").want(t, 204)
	fields := form(t, nobody.get(t, "/login").body, "")
	fields.Set("secret", "another-secret-than-theirs")
	nobody.do(t, http.MethodPost, "/login", fields).want(t, 403)
	fields.Set("token", "0")
	fields.Set("secret", reader)
	nobody.do(t, http.MethodPost, "/login", fields).want(t, 403)
	ann := s.login(t, reader)
	for _, path := range []string{"/", "/crawls/c", "/crawls/c/hosts", "/crawls/c/hosts?view=oldest", "/crawls/c/errors", "/crawls/c/filter",
		"/crawls/c/workers", "/crawls/c/relays", "/crawls/c/pages", "/crawls/c/explain?url=http://x/", "/crawls/c/settings", "/crawls/c/timeline"} {
		got := ann.get(t, path).want(t, 200)
		if policy := got.header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: Content-Security-Policy %q", path, policy)
		}
		if strings.Contains(got.body, " style=") || strings.Contains(got.body, "<script>") || strings.Contains(got.body, s.root) {
			t.Errorf("%s has an inline style, an inline script or a path of this machine:\n%s", path, got.body)
		}
	}
	if strings.Contains(ann.get(t, "/crawls/c").body, `value="resume"`) {
		t.Error("a caller with the scope read sees a button that changes the crawl")
	}
	ann.get(t, "/crawls/c/act?do=stop").want(t, 403)
	ann.get(t, "/v1/crawls").want(t, 401)
	ann.get(t, "/crawls/none").want(t, 404)
	ann.get(t, "/none").want(t, 401) // not a page, so the API answers
	ann.do(t, http.MethodPost, "/logout", form(t, ann.get(t, "/").body, "")).want(t, 303)
	ann.get(t, "/").want(t, 303)
}

// TestDashboardChanges: a change needs the token of its page, has one effect, and is a request of the API.
func TestDashboardChanges(t *testing.T) {
	var audit bytes.Buffer
	s := paged(t, &audit)
	bob := s.login(t, writer)
	fields := form(t, bob.get(t, "/crawls/c/act?do=set&name=delay&value=2s&why=ask").want(t, 200).body, "set")
	for name, value := range map[string]string{"token": "x", "key": "another"} {
		wrong := make(url.Values)
		for field := range fields {
			wrong.Set(field, fields.Get(field))
		}
		wrong.Set(name, value)
		bob.do(t, http.MethodPost, "/crawls/c/act", wrong).want(t, 403)
	}
	s.login(t, writer).do(t, http.MethodPost, "/crawls/c/act", fields).want(t, 403) // the form of another login
	bob.do(t, http.MethodPost, "/crawls/c/act", fields, "Origin", "http://evil.test", "Sec-Fetch-Site", "cross-site").want(t, 403)
	for range 2 {
		to := bob.do(t, http.MethodPost, "/crawls/c/act", fields).want(t, 303).header.Get("Location")
		if page := bob.get(t, to).want(t, 200).body; !strings.Contains(page, "delay was changed.") || strings.Count(page, "bob (request ") != 1 {
			t.Errorf("after the change, %s shows\n%s", to, page)
		}
	}
	if n := strings.Count(audit.String(), `"caller":"bob","key":"`+fields.Get("key")); n != 1 {
		t.Errorf("%d lines in the audit log, want 1:\n%s", n, audit.String())
	}
	resume := form(t, bob.get(t, "/crawls/c").body, "resume")
	bob.do(t, http.MethodPost, "/crawls/c/act", resume).want(t, 303)
	if page := bob.get(t, "/crawls/c/act?do=set&name=delay&value=soon").want(t, 422).body; !strings.Contains(page, "soon") {
		t.Error(page)
	}
	bob.get(t, "/crawls/c/act?do=set&name=proxy&value=x").want(t, 422)
	bob.get(t, "/crawls/c/act?do=drop-host&host=none.test").want(t, 404)
}

// TestDashboardLocal: without tokens, only this machine is answered, under three names.
func TestDashboardLocal(t *testing.T) {
	cfg := config(t)
	cfg.Hosts = []string{"crawls.example.org"}
	s := &browser{service: start(t, cfg)}
	for host, status := range map[string]int{"localhost": 200, "127.0.0.1": 200, "[::1]:80": 200, "crawls.example.org": 421, "127.0.0.2": 421, "evil.test": 421} {
		s.get(t, "/", "Host", host).want(t, status)
	}
}

// TestDashboardText: what a site or a query has is text.
func TestDashboardText(t *testing.T) {
	ann := paged(t, nil).login(t, reader)
	page := ann.get(t, "/crawls/c/explain?url=%3Cb%3E%1B%5B31m").want(t, 200).body
	if strings.Contains(page, "<b>") || strings.Contains(page, "\x1b") {
		t.Errorf("markup or an escape sequence of the query is in the page:\n%s", page)
	}
}

// TestDashboardCommands: the command of a part asks for the same host or URL, and values of settings are what people read.
func TestDashboardCommands(t *testing.T) {
	s := paged(t, nil)
	bob := s.login(t, writer)
	for path, want := range map[string]string{
		"/hosts?host=127.0.0.1": "/v1/crawls/c/hosts?host=127.0.0.1", "/hosts?view=trouble": "/v1/crawls/c/hosts?trouble=true",
		"/explain?url=http%3A%2F%2Fa.test%2F%3Fx%3D1%26y": "/v1/crawls/c/explain?url=http%3A%2F%2Fa.test%2F%3Fx%3D1%26y",
		"/settings": "/v1/crawls/c/settings/history",
	} {
		if page := bob.get(t, "/crawls/c"+path).want(t, 200).body; !strings.Contains(html.UnescapeString(page), want+`"</code>`) {
			t.Errorf("the page %s has no command with %s:\n%s", path, want, page)
		}
	}
	s.auth = writer
	s.ask("PATCH", "/v1/crawls/c/settings", "p1", `{"settings":["hosts:a.test=delay 8s"],"why":"its owner wrote"}`).want(t, 200)
	if page := html.UnescapeString(bob.get(t, "/crawls/c/settings").want(t, 200).body); strings.Contains(page, "8000000000") || !strings.Contains(page, `"delay":"8s"`) {
		t.Errorf("the settings show no delay of 8s:\n%s", page)
	}
	if page := bob.get(t, "/crawls/c/hosts?host=www.127.0.0.1").want(t, 200).body; !strings.Contains(page, "but it knows") {
		t.Errorf("the page of an unknown host does not name the known one:\n%s", page)
	}
}

// TestDashboardStream: the stream has all live parts once, and a client that comes back with the last id gets none again.
func TestDashboardStream(t *testing.T) {
	ann := paged(t, nil).login(t, reader)
	read := func(last string, most time.Duration) (events int, id string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, ann.url+"/crawls/c/errors", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept", "text/event-stream")
		request.Header.Set("Cookie", ann.cookie)
		request.Header.Set("Last-Event-ID", last)
		response, err := (&http.Client{Timeout: most}).Do(request)
		if err != nil {
			return 0, "" // no event, so there is no header either
		}
		defer response.Body.Close()
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			if found, is := strings.CutPrefix(lines.Text(), "id: "); is {
				events, id = events+1, found
			}
		}
		return events, id
	}
	events, id := read("", 3*time.Second)
	if events != 4 || id == "" {
		t.Errorf("%d events with the id %q, want one for each of four parts", events, id)
	}
	if again, _ := read(id, 3*time.Second); again != 0 {
		t.Errorf("%d events after the last id, want none", again)
	}
}
