// Package dashboard shows crawls in a browser, and changes them.
//
// It owns the pages, their updates, the cookies of logins and the tokens of forms. It does not run crawls, and it decides
// neither who may do what nor what a change does: the program that mounts it implements Crawls.
//
//	/                        all crawls, those in trouble first      home.go
//	/crawls/NAME             one crawl, and why it is not faster     overview.go, advice.go
//	/crawls/NAME/hosts       hosts: largest, slowest, in trouble     hosts.go
//	/crawls/NAME/errors      errors by cause, outcomes               errors.go
//	/crawls/NAME/filter      the filter and its error rates          filter.go
//	/crawls/NAME/workers     workers, exact URLs                     workers.go
//	/crawls/NAME/relays      relays, dead letters                    relays.go
//	/crawls/NAME/pages       the pages of the last moments           pages.go
//	/crawls/NAME/explain     why a URL was crawled or not            explain.go
//	/crawls/NAME/settings    settings, and who changed them          settings.go
//	/crawls/NAME/act         a change: its effect, then itself       act.go
//	/login                   a token becomes a cookie                login.go
//
// Each page consists of parts (page.go). A request for a page with "Accept: text/event-stream" gets the same parts as they
// change (stream.go). Without JavaScript, a reload shows the new state. All that sites sent is text: only this package's own
// code makes elements.
//
// A page reads counters, sketches of bounded size and samples of hosts. All tabs share what was read in the last second
// (readings.go).
package dashboard

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/report"
)

// Config configures a Dashboard. Crawls is required.
type Config struct {
	Crawls Crawls
	// Login returns the caller with a secret, and false if there is none. It is nil if callers need no token. Then only
	// requests from this machine are answered, under the names localhost, 127.0.0.1 and [::1].
	Login func(secret string) (Caller, bool)
	// SessionTTL is how long a login lasts; 0 means 12 hours.
	SessionTTL time.Duration
	// Logger gets errors of the crawls. nil discards them.
	Logger *slog.Logger
}

// Caller is who looks at a page.
type Caller struct {
	Name   string
	Change bool // the caller may change crawls
}

// Crawls are the crawls that a Dashboard shows. Its methods are called by several goroutines.
type Crawls interface {
	// List returns the crawls by name.
	List(ctx context.Context) []Crawl
	// Open returns a crawl. The error is for people.
	Open(ctx context.Context, name string) (Handle, error)
	// Do performs an action. Action.Key names the request: a repeat has no second effect. The error is for people.
	Do(ctx context.Context, caller Caller, name string, a Action) error
	// Command returns the command that prints what a page shows: "status", "report", "hosts", "trouble", "explain",
	// "relays", "letters", "records", "settings" or "history". Of "hosts" and "explain", of is the host or the URL; it
	// can be empty.
	Command(name, what, of string) string
}

// Crawl is a crawl in the list.
type Crawl struct {
	Name  string
	State string // in a word, such as running
	Fault string // the error of the last run
}

// Handle is what a Dashboard needs of a crawl. A *crawl.Handle implements it.
type Handle interface {
	Board(ctx context.Context) (report.Board, error)
	Hosts(ctx context.Context, query crawl.HostQuery) (report.Hosts, error)
	Explain(ctx context.Context, url string) (*crawl.Explanation, error)
	Settings(ctx context.Context) (map[string]string, error)
	History(ctx context.Context) ([]crawl.PolicyVersion, error)
	Outboxes(ctx context.Context) (*crawl.Outboxes, error)
}

var _ Handle = (*crawl.Handle)(nil)

const (
	maxStreams = 64
	maxForm    = 64 << 10 // bytes
	answerTime = 5 * time.Second
)

// Dashboard is the handler of the pages. It is safe for concurrent use.
type Dashboard struct {
	cfg      Config
	mux      *http.ServeMux
	secret   [32]byte // of the tokens of forms
	logins   *rate.Limiter
	streams  chan struct{}
	readings readings
	ending   <-chan struct{}

	mu       sync.Mutex
	sessions map[string]session // by the cookie
	done     map[string]*effect // of actions, by their keys
}

// New returns a Dashboard. Its streams end when ctx ends.
func New(ctx context.Context, cfg Config) *Dashboard {
	if cfg.SessionTTL == 0 {
		cfg.SessionTTL = 12 * time.Hour
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Dashboard{
		cfg: cfg, mux: http.NewServeMux(), logins: rate.NewLimiter(2, 10), streams: make(chan struct{}, maxStreams),
		sessions: make(map[string]session), done: make(map[string]*effect), ending: ctx.Done(),
	}
	_, _ = rand.Read(d.secret[:]) // it never fails
	d.readings.crawls = cfg.Crawls
	d.mux.HandleFunc("GET /-/{file}", serveAsset)
	d.mux.HandleFunc("GET /login", d.showLogin)
	d.mux.HandleFunc("POST /login", d.login)
	d.mux.HandleFunc("POST /logout", d.logout)
	d.mux.HandleFunc("GET /{$}", d.page(home))
	for path, build := range map[string]func(*view) (*page, error){
		"": overview, "/hosts": hosts, "/errors": failures, "/filter": filter, "/workers": workers, "/relays": relays,
		"/pages": pages, "/explain": explain, "/settings": settingsPage, "/act": actPage,
	} {
		d.mux.HandleFunc("GET /crawls/{crawl}"+path, d.page(ofCrawl(build)))
	}
	d.mux.HandleFunc("GET /crawls/{crawl}/timeline", d.timeline)
	d.mux.HandleFunc("POST /crawls/{crawl}/act", d.act)
	d.mux.HandleFunc("/", d.page(func(*view) (*page, error) { return nil, errNoPage }))
	return d
}

var errNoPage = errors.New("there is no such page")

// policy is the Content-Security-Policy of all pages.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if d.cfg.Login == nil && !isLocal(r) {
		http.Error(w, "without tokens the dashboard answers only this machine, under the names localhost, 127.0.0.1 and [::1]",
			http.StatusMisdirectedRequest)
		return
	}
	d.mux.ServeHTTP(w, r)
}

// isLocal reports whether a request comes from this machine and names it. A page of another site, whose name was made to
// point to this machine, has another name.
func isLocal(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	switch strings.ToLower(strings.Trim(host, "[]")) {
	case "localhost", "127.0.0.1", "::1":
	default:
		return false
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && from.Addr().Unmap().IsLoopback()
}
