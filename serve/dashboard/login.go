package dashboard

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

const (
	cookieName  = "crawler_session"
	maxSessions = 1000
)

// session is a login.
type session struct {
	caller  Caller
	expires time.Time
}

// local is the caller if no token is needed.
var local = Caller{Name: "local", Change: true}

// caller returns who sent a request, and the name of the login.
func (d *Dashboard) caller(r *http.Request) (caller Caller, login string, known bool) {
	if d.cfg.Login == nil {
		return local, "", true
	}
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return Caller{}, "", false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s, known := d.sessions[cookie.Value]
	if known && time.Now().After(s.expires) {
		delete(d.sessions, cookie.Value)
		known = false
	}
	return s.caller, cookie.Value, known
}

// formToken returns the token of a form with an idempotency key, for one login.
func (d *Dashboard) formToken(login, key string) string {
	mac := hmac.New(sha256.New, d.secret[:])
	mac.Write([]byte(login + "\n" + key))
	return hex.EncodeToString(mac.Sum(nil))
}

// checkForm reports whether this server made the form of a request, for the same login. It reads the form.
func (d *Dashboard) checkForm(w http.ResponseWriter, r *http.Request, login string) bool {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if r.ParseForm() != nil {
		return false
	}
	key, token := r.PostForm.Get("key"), r.PostForm.Get("token")
	return key != "" && subtle.ConstantTimeCompare([]byte(token), []byte(d.formToken(login, key))) == 1
}

// newNonce returns a random text.
func newNonce() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	return hex.EncodeToString(random[:])
}

func (d *Dashboard) showLogin(w http.ResponseWriter, r *http.Request) {
	d.writeLogin(w, r, http.StatusOK, "")
}

// writeLogin writes the page with the form of the login.
func (d *Dashboard) writeLogin(w http.ResponseWriter, r *http.Request, status int, fault string) {
	v := &view{d: d, r: r, nonce: newNonce()}
	form := h.Form(h.Method("post"), h.Action("/login"), h.Class("stack"),
		hidden("key", v.nonce), hidden("token", d.formToken("", v.nonce)), hidden("to", destination(r)),
		g.If(fault != "", h.P(h.Class("bad"), h.Role("alert"), g.Text(fault))),
		h.Label(h.For("secret"), g.Text("Token")),
		h.Input(h.ID("secret"), h.Name("secret"), h.Type("password"), h.AutoComplete("current-password"), h.Required()),
		h.Button(h.Type("submit"), g.Text("Log in")),
		h.P(h.Class("note"), g.Text("It is a secret of the file that --tokens names. The login lasts "+span(d.cfg.SessionTTL)+".")))
	v.write(w, status, &page{title: "Log in", parts: []part{{id: "login", title: "Log in with your token", body: form}}})
}

// destination returns the page to show after the login.
func destination(r *http.Request) string {
	if to := r.FormValue("to"); strings.HasPrefix(to, "/crawls/") {
		return to
	}
	return "/"
}

// login exchanges a token for a cookie.
func (d *Dashboard) login(w http.ResponseWriter, r *http.Request) {
	if d.cfg.Login == nil {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	if !d.checkForm(w, r, "") {
		d.writeLogin(w, r, http.StatusForbidden, "This form is too old. Try again.")
		return
	}
	if !d.logins.Allow() {
		d.writeLogin(w, r, http.StatusTooManyRequests, "There are too many attempts. Wait some seconds.")
		return
	}
	caller, known := d.cfg.Login(strings.TrimSpace(r.PostForm.Get("secret")))
	if !known {
		d.writeLogin(w, r, http.StatusForbidden, "No caller has this token.")
		return
	}
	id := newNonce() + newNonce()
	d.mu.Lock()
	for other, s := range d.sessions {
		if time.Now().After(s.expires) || len(d.sessions) >= maxSessions {
			delete(d.sessions, other)
		}
	}
	d.sessions[id] = session{caller: caller, expires: time.Now().Add(d.cfg.SessionTTL)}
	d.mu.Unlock()
	d.setCookie(w, r, id, int(d.cfg.SessionTTL.Seconds()))
	http.Redirect(w, r, destination(r), http.StatusSeeOther)
}

// setCookie sets the cookie of a login. A proxy in front of the server says with X-Forwarded-Proto whether it does TLS.
func (d *Dashboard) setCookie(w http.ResponseWriter, r *http.Request, id string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: id, Path: "/", MaxAge: seconds, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	})
}

// logout ends a login.
func (d *Dashboard) logout(w http.ResponseWriter, r *http.Request) {
	_, login, known := d.caller(r)
	if known && login != "" && d.checkForm(w, r, login) {
		d.mu.Lock()
		delete(d.sessions, login)
		d.mu.Unlock()
		d.setCookie(w, r, "", -1)
	}
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}
