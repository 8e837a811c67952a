package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/bloomfrontier/crawler/serve/idempotency"
)

// localCaller is the name of the caller if the Server has no tokens.
const localCaller = "local"

type callerKey struct{}

// callerOf returns the token of the caller of a request.
func callerOf(ctx context.Context) Token {
	t, _ := ctx.Value(callerKey{}).(Token)
	return t
}

// kind is how the requests of a route are handled.
type kind int

// Kinds.
const (
	plain  kind = iota // it is answered at once; a change has one effect
	stream             // the answer can take as long as the client likes
	upload             // the body can be of any size, and has one effect
	issue              // it needs no key
)

// route is what the guard knows about a route.
type route struct {
	scope Scope
	kind  kind
}

// limits bound what callers do at once.
type limits struct {
	changes, looks, streams, uploads chan struct{}

	mu   sync.Mutex
	keys map[string]*rate.Limiter // of issued keys, by caller
}

func newLimits() limits {
	return limits{
		changes: make(chan struct{}, 32), looks: make(chan struct{}, 64), streams: make(chan struct{}, 64), uploads: make(chan struct{}, 16),
		keys: make(map[string]*rate.Limiter),
	}
}

// of returns the bound for a request.
func (l *limits) of(r route, method string) chan struct{} {
	switch {
	case r.kind == stream:
		return l.streams
	case r.kind == upload:
		return l.uploads
	case method == http.MethodGet, method == http.MethodHead:
		return l.looks
	}
	return l.changes
}

// mayIssue reports whether a caller may get another key.
func (l *limits) mayIssue(caller string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keys[caller] == nil {
		l.keys[caller] = rate.NewLimiter(10, 50)
	}
	return l.keys[caller].Allow()
}

// checkAddress returns an error if the Server must not listen on an address.
func (s *Server) checkAddress(address net.Addr) error {
	tcp, is := address.(*net.TCPAddr)
	switch {
	case !is || tcp.IP.IsLoopback():
		return nil
	case len(s.cfg.Tokens) == 0:
		return errors.New("serve: " + address.String() + " is not a loopback address, which needs tokens")
	case s.cfg.TLS == nil && !s.cfg.BehindProxy:
		return errors.New("serve: " + address.String() + " is not a loopback address, which needs TLS or a proxy in front")
	}
	return nil
}

// guard returns the handler of all requests. It passes those to the mux that may go on, in this order: the host, the health
// of the Server, requests from other sites, the token, the route, its scope, the bounds.
func (s *Server) guard() http.Handler {
	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { newProblem("cross-origin", "").write(w) }))
	inside := cross.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isPage(r.URL.Path) {
			s.pages.ServeHTTP(w, r) // it finds out itself whose request it is
			return
		}
		s.authenticate(w, r)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if !s.knownHost(r) {
			newProblem("host", "ask for localhost or the IP address, or start the server with --host NAME").write(w)
			return
		}
		switch r.URL.Path {
		case "/livez":
			s.health(w, r, false)
		case "/readyz":
			s.health(w, r, true)
		default:
			inside.ServeHTTP(w, r)
		}
	})
}

// knownHost reports whether the Host header names this Server. The check prevents DNS rebinding, with which a page that a
// browser shows sends requests to this Server under the name of the page's host.
func (s *Server) knownHost(r *http.Request) bool {
	host := hostOf(r.Host)
	if ip, err := netip.ParseAddr(host); err == nil {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if ip.IsLoopback() || local != nil && ip.WithZone("") == local.AddrPort().Addr().Unmap().WithZone("") {
			return true
		}
	}
	return host == "localhost" || host != "" && slices.ContainsFunc(s.cfg.Hosts, func(name string) bool { return host == hostOf(name) })
}

// hostOf returns the host of HOST or HOST:PORT in lower case, without brackets.
func hostOf(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// health answers whether the process works and, with ready, whether it can answer requests.
func (s *Server) health(w http.ResponseWriter, r *http.Request, ready bool) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	_, err := s.answers.Stats(ctx)
	select {
	case <-s.ending:
		if ready {
			err = errors.New("stopping")
		}
	default:
	}
	w.Header().Set("Content-Type", "text/plain")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("not ready\n"))
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

// authenticate finds out whose request it is, and passes it on.
func (s *Server) authenticate(w http.ResponseWriter, r *http.Request) {
	caller, known := s.caller(r)
	if !known {
		w.Header().Set("WWW-Authenticate", `Bearer realm="crawler"`)
		newProblem("token", "send Authorization: Bearer SECRET").write(w)
		return
	}
	s.pass(w, r, caller)
}

// pass passes on the request of a caller. It writes a line about a request that wants to change something.
func (s *Server) pass(w http.ResponseWriter, r *http.Request, caller Token) {
	r = r.WithContext(context.WithValue(r.Context(), callerKey{}, caller))
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		s.admit(w, r)
		return
	}
	key, _ := idempotency.ParseKey(r.Header.Values(idempotency.Header)) // the Middleware answers if it is not valid
	r = r.WithContext(context.WithValue(r.Context(), keyKey{}, key))
	answer := &answered{ResponseWriter: w}
	defer func() { s.audit(answer, r, caller.Name) }() // also if the handler panics
	s.admit(answer, r)
}

// caller returns the token of a request.
func (s *Server) caller(r *http.Request) (caller Token, known bool) {
	if len(s.cfg.Tokens) == 0 {
		return Token{Name: localCaller, Scope: Admin}, true
	}
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	caller, known = s.tokenOf(secret)
	return caller, known && strings.EqualFold(scheme, "Bearer")
}

// tokenOf returns the token with a secret. It compares all tokens in constant time.
func (s *Server) tokenOf(secret string) (caller Token, known bool) {
	hash := sha256.Sum256([]byte(secret))
	for _, t := range s.cfg.Tokens {
		if subtle.ConstantTimeCompare(hash[:], t.Hash[:]) == 1 {
			caller, known = t, true
		}
	}
	return caller, known
}

// admit passes a request to its route, within the bounds.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) {
	_, pattern := s.mux.Handler(r)
	route, found := s.routes[pattern]
	escaped := r.URL.EscapedPath() != r.URL.Path // names need no escapes, and each resource has one path
	switch {
	case !found || escaped || r.Method == http.MethodHead && route.kind == stream:
		s.refuseRoute(w, r)
		return
	case !callerOf(r.Context()).Scope.permits(route.scope):
		newProblem("scope", "it needs the scope "+string(route.scope)).write(w)
		return
	}
	bound := s.limits.of(route, r.Method)
	select {
	case bound <- struct{}{}:
		defer func() { <-bound }()
	default:
		newProblem("too-many", "too many requests are under way").write(w)
		return
	}
	control, now := http.NewResponseController(w), time.Now()
	if route.kind == plain || route.kind == issue {
		_ = control.SetReadDeadline(now.Add(readTime)) // a handler without a connection has no deadlines
		_ = control.SetWriteDeadline(now.Add(writeTime))
	}
	switch {
	case route.kind == plain:
		s.changes.ServeHTTP(w, r)
	case route.kind == issue && !s.limits.mayIssue(callerOf(r.Context()).Name):
		newProblem("too-many", "a caller gets 10 keys a second").write(w)
	default:
		s.mux.ServeHTTP(w, r)
	}
}

// refuseRoute answers a request for a resource or a method that does not exist.
func (s *Server) refuseRoute(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := s.mux.Handler(other); s.routes[pattern].scope != "" {
			allowed = append(allowed, method)
		}
	}
	if allowed == nil || r.URL.EscapedPath() != r.URL.Path {
		newProblem("no-route", "").write(w)
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	newProblem("method", "").write(w)
}

// answered is a ResponseWriter that knows the status of the answer.
type answered struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (a *answered) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController find the connection.
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// audit counts, and writes a line about, a request that wanted to change something.
func (s *Server) audit(w *answered, r *http.Request, caller string) {
	replayed := w.Header().Get(idempotency.Replayed) != ""
	s.metrics.count(w.status, replayed)
	if s.cfg.Audit == nil {
		return
	}
	var line bytes.Buffer
	err := json.NewEncoder(&line).Encode(struct {
		Time     time.Time `json:"time"`
		Caller   string    `json:"caller"`
		Key      string    `json:"key,omitempty"`
		Method   string    `json:"method"`
		Path     string    `json:"path"`
		Status   int       `json:"status"` // 0 if there was no answer
		Replayed bool      `json:"replayed,omitempty"`
		Remote   string    `json:"remote"`
	}{time.Now().UTC(), caller, keyOf(r.Context()), r.Method, r.URL.EscapedPath(), w.status, replayed, r.RemoteAddr})
	if err == nil {
		s.limits.mu.Lock() // one line at a time
		defer s.limits.mu.Unlock()
		_, err = s.cfg.Audit.Write(line.Bytes())
	}
	if err != nil {
		s.cfg.Logger.Error("audit log failed", "err", err)
	}
}
