package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/crawl/settings"
	"github.com/bloomfrontier/crawler/serve/dashboard"
	"github.com/bloomfrontier/crawler/serve/idempotency"
)

// pages are the crawls of a Server for its dashboard. What the dashboard changes is a request of the API.
type pages struct{ s *Server }

var _ dashboard.Crawls = pages{}

// newDashboard returns the dashboard. Its streams end with ctx.
func (s *Server) newDashboard(ctx context.Context) *dashboard.Dashboard {
	cfg := dashboard.Config{Crawls: pages{s}, Logger: s.cfg.Logger}
	if len(s.cfg.Tokens) > 0 {
		cfg.Login = func(secret string) (dashboard.Caller, bool) {
			token, known := s.tokenOf(secret)
			return dashboard.Caller{Name: token.Name, Change: token.Scope.permits(Write)}, known
		}
	}
	return dashboard.New(ctx, cfg)
}

// isPage reports whether a path is one of the dashboard.
func isPage(path string) bool {
	return path == "/" || path == "/login" || path == "/logout" || strings.HasPrefix(path, "/crawls/") || strings.HasPrefix(path, "/-/")
}

// List implements dashboard.Crawls.
func (p pages) List(ctx context.Context) (all []dashboard.Crawl) {
	for _, c := range p.s.fleet.summaries(ctx) {
		all = append(all, dashboard.Crawl{Name: c.Name, State: string(c.State), Fault: c.Fault})
	}
	return all
}

// Open implements dashboard.Crawls.
func (p pages) Open(ctx context.Context, name string) (dashboard.Handle, error) {
	_, h, err := p.s.fleet.open(ctx, name)
	if err != nil {
		return nil, p.s.problemOf(ctx, err)
	}
	return shown{h, p.s}, nil
}

// Command implements dashboard.Crawls.
func (p pages) Command(name, what, of string) string {
	path := map[string]string{
		"status": "", "report": "/report", "hosts": "/hosts", "trouble": "/hosts?trouble=true", "explain": "/explain?url=URL", "relays": "", "letters": "", "records": "/records",
		"settings": "/settings", "history": "/settings/history",
	}[what]
	if of != "" {
		path = map[string]string{"hosts": "/hosts?host=", "explain": "/explain?url="}[what] + url.QueryEscape(of)
	}
	if name != "" {
		name = "/" + name
	}
	auth := ""
	if len(p.s.cfg.Tokens) > 0 {
		auth = `-H "Authorization: Bearer $TOKEN" `
	}
	return fmt.Sprintf("curl -s %s\"$SERVER/v1/crawls%s%s\"", auth, name, path)
}

// shown is a crawl as callers see it: without paths of this machine, and with the settings of callers only.
type shown struct {
	*crawl.Handle
	s *Server
}

// Board implements dashboard.Handle.
func (c shown) Board(ctx context.Context) (report.Board, error) {
	b, err := c.Handle.Board(ctx)
	for i := range b.Status.Relays {
		b.Status.Relays[i].Dir, b.Status.Relays[i].Send = "", ""
	}
	return b, c.fault(err)
}

// Settings implements dashboard.Handle.
func (c shown) Settings(ctx context.Context) (map[string]string, error) {
	values, err := c.Handle.Settings(ctx)
	maps.DeleteFunc(values, func(name, _ string) bool { return !open(settings.Find(name)) })
	return values, c.fault(err)
}

// fault removes paths of this machine from an error.
func (c shown) fault(err error) error {
	if err != nil {
		return fmt.Errorf("%s", c.s.cfg.hide(err.Error()))
	}
	return nil
}

// Do implements dashboard.Crawls. It makes the request of the API that has the same effect.
func (p pages) Do(ctx context.Context, caller dashboard.Caller, name string, a dashboard.Action) error {
	method, path, body := http.MethodPost, "/v1/crawls/"+name, any(nil)
	switch a.Kind {
	case dashboard.Pause, dashboard.Resume, dashboard.Stop:
		path += "/" + string(a.Kind)
	case dashboard.Set:
		method, path, body = http.MethodPatch, path+"/settings", map[string]any{"settings": a.Settings, "why": a.Why}
	case dashboard.Drop:
		path, body = path+"/drops", map[string]any{"rule": a.Rule, "why": a.Why}
	case dashboard.Retry:
		path, body = path+"/retries", map[string]any{"host": a.Failures.Host, "outcome": a.Failures.Outcome}
	case dashboard.Discard, dashboard.Resend:
		path, body = path+"/relays/"+a.Relay+"/"+string(a.Kind)+"s", map[string]any{"ids": a.Letters}
	}
	var text []byte
	if body != nil {
		text, _ = json.Marshal(body) // texts always can
	}
	r, err := http.NewRequestWithContext(ctx, method, path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.RemoteAddr = "dashboard"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(idempotency.Header, a.Key)
	token := Token{Name: localCaller, Scope: Admin}
	for _, t := range p.s.cfg.Tokens {
		if t.Name == caller.Name {
			token = t
		}
	}
	answer := &answerText{header: make(http.Header)}
	p.s.pass(answer, r, token)
	if answer.status < 300 {
		return nil
	}
	refused := &problem{Title: "the request failed"}
	_ = json.Unmarshal(answer.body.Bytes(), refused) // the title is the one above otherwise
	words := refused.Title
	for _, more := range append([]fault{{Message: refused.Detail}}, refused.Errors...) {
		if more.Message != "" {
			words += ": " + more.Message
		}
	}
	return fmt.Errorf("%s", words)
}

// answerText is an http.ResponseWriter that keeps the answer.
type answerText struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answerText) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answerText) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements http.ResponseWriter.
func (a *answerText) Write(text []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(text)
}
