package dashboard

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bloomfrontier/crawler/crawl/report"
)

// page is what a browser shows.
type page struct {
	title string
	parts []part
}

// part is a section of a page.
type part struct {
	id      string
	title   string // empty for the head of a page
	live    bool   // the stream sends it again when it has changed
	wide    bool   // it takes the whole width of the page
	body    g.Node
	command string // prints the same numbers
}

// view is one request for a page, or one update of its stream.
type view struct {
	d      *Dashboard
	r      *http.Request
	caller Caller
	login  string
	nonce  string // of the page: its forms have keys that begin with it

	crawl  Crawl // empty on pages of several crawls
	handle Handle
	read   reading
	board  *report.Board // of read; never nil on a page of a crawl
}

// page returns the handler of a page.
func (d *Dashboard) page(build func(*view) (*page, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		caller, login, known := d.caller(r)
		if !known {
			if wantsStream(r) {
				w.WriteHeader(http.StatusNoContent) // a browser does not connect again
				return
			}
			http.Redirect(w, r, "/login?to="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
			return
		}
		v := &view{d: d, r: r, caller: caller, login: login, nonce: newNonce()}
		if wantsStream(r) {
			d.stream(w, v, build)
			return
		}
		p, err := build(v)
		if err != nil {
			v.writeFault(w, err)
			return
		}
		v.write(w, http.StatusOK, p)
	}
}

// writeFault writes a page that says what is wrong.
func (v *view) writeFault(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	if fault, is := errors.AsType[*faultError](err); is {
		status = fault.status
	}
	if errors.Is(err, errNoPage) {
		status = http.StatusNotFound
	}
	body := h.Div(h.P(h.Class("bad"), h.Role("alert"), g.Text(sentence(err.Error()))), v.wayBack())
	v.write(w, status, &page{title: "Not possible", parts: []part{{id: "fault", title: "This is not possible", body: body}}})
}

// wayBack returns links to the pages that a person can go on with.
func (v *view) wayBack() g.Node {
	of := g.Node(nil)
	if v.crawl.Name != "" {
		of = g.Group{h.A(h.Href(v.at("")), text(v.crawl.Name)), g.Text(" · ")}
	}
	return h.P(of, h.A(h.Href("/"), g.Text("All crawls")))
}

// faultError is an error with a status of HTTP.
type faultError struct {
	status int
	text   string
}

func (e *faultError) Error() string { return e.text }

// ofCrawl makes a page of one crawl: it opens the crawl and reads its board first.
func ofCrawl(build func(*view) (*page, error)) func(*view) (*page, error) {
	return func(v *view) (*page, error) {
		ctx, cancel := context.WithTimeout(v.r.Context(), answerTime)
		defer cancel()
		if err := v.open(ctx); err != nil {
			return nil, err
		}
		p, err := build(v)
		if err == nil {
			p.parts = append([]part{v.head()}, p.parts...)
		}
		return p, err
	}
}

// open sets the crawl of a view.
func (v *view) open(ctx context.Context) error {
	name := v.r.PathValue("crawl")
	for _, c := range v.d.readings.list(ctx) {
		if c.Name == name {
			v.crawl = c
		}
	}
	if v.crawl.Name == "" {
		return &faultError{http.StatusNotFound, "there is no crawl with this name"}
	}
	v.read = v.d.readings.of(ctx, v.crawl)
	if v.handle = v.read.handle; v.read.board == nil {
		return v.read.err
	}
	v.board = v.read.board
	return nil
}

// at returns the address of a page of the view's crawl, with names and values of its query.
func (v *view) at(path string, query ...string) string {
	values := make(url.Values)
	for i := 0; i < len(query); i += 2 {
		if query[i+1] != "" {
			values.Set(query[i], query[i+1])
		}
	}
	at := "/crawls/" + v.crawl.Name + path
	if len(values) > 0 {
		at += "?" + values.Encode()
	}
	return at
}

// command returns the command that prints what a part shows.
func (v *view) command(what string) string { return v.commandOf(what, "") }

// commandOf returns the command that prints what a part shows of a host or a URL.
func (v *view) commandOf(what, of string) string {
	return v.d.cfg.Crawls.Command(v.crawl.Name, what, of)
}

// node returns a part as an element.
func (p *part) node() g.Node {
	class := "part"
	if p.wide {
		class += " wide"
	}
	if p.title == "" {
		return h.Div(h.Class("head"), h.ID(p.id), g.If(p.live, h.Data("live", p.id)), p.body)
	}
	return h.Section(h.Class(class), h.Aria("labelledby", p.id+"-title"),
		h.H2(h.ID(p.id+"-title"), g.Text(p.title)),
		h.Div(h.ID(p.id), g.If(p.live, h.Data("live", p.id)), p.body),
		g.If(p.command != "", h.Details(h.Class("command"), h.Summary(g.Text("The same as a command"),
			h.Span(h.Class("hidden"), g.Text(" for "+p.title))), h.Code(g.Text(p.command)))))
}

// tabs are the pages of a crawl.
var tabs = [][2]string{
	{"", "Overview"}, {"/hosts", "Hosts"}, {"/errors", "Errors"}, {"/filter", "Filter"}, {"/workers", "Workers"},
	{"/relays", "Relays"}, {"/pages", "Pages"}, {"/explain", "Explain"}, {"/settings", "Settings"},
}

// document returns a page as a document.
func (v *view) document(p *page) g.Node {
	title := p.title + " · crawler"
	if v.crawl.Name != "" {
		title = p.title + " · " + v.crawl.Name + " · crawler"
	}
	var parts []g.Node
	for i := range p.parts {
		parts = append(parts, p.parts[i].node())
	}
	return h.Doctype(h.HTML(h.Lang("en"), h.Head(
		h.Meta(h.Charset("utf-8")), h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
		h.TitleEl(g.Text(title)), h.Link(h.Rel("icon"), h.Href(assetPath("icon.svg"))),
		h.Link(h.Rel("stylesheet"), h.Href(assetPath("uplot.css"))), h.Link(h.Rel("stylesheet"), h.Href(assetPath("style.css"))),
		h.Script(h.Src(assetPath("uplot.js")), h.Defer()), h.Script(h.Src(assetPath("app.js")), h.Defer()),
	), h.Body(
		h.A(h.Class("skip"), h.Href("#main"), g.Text("To the content")),
		h.Header(h.Class("top"),
			h.A(h.Href("/"), h.Class("brand"), g.Text("crawler")),
			h.Span(h.ID("stream"), h.Role("status"), h.Class("note"), g.Text("reload to see the new state")),
			h.Button(h.ID("still"), h.Type("button"), h.Hidden(""), g.Text("Pause updates")),
			v.logoutForm()),
		v.nav(),
		h.Main(h.ID("main"), h.TabIndex("-1"), h.H1(g.Text(v.heading(p))), v.said(), g.Group(parts)),
	)))
}

// heading returns the main heading of a page.
func (v *view) heading(p *page) string {
	if v.crawl.Name == "" {
		return p.title
	}
	return v.crawl.Name + ": " + strings.ToLower(p.title[:1]) + p.title[1:]
}

// nav returns the links to the pages of a crawl.
func (v *view) nav() g.Node {
	if v.crawl.Name == "" {
		return nil
	}
	var links []g.Node
	for _, tab := range tabs {
		here := v.r.URL.Path == v.at(tab[0])
		links = append(links, h.Li(h.A(h.Href(v.at(tab[0])), g.If(here, h.Aria("current", "page")), g.Text(tab[1]))))
	}
	return h.Nav(h.Aria("label", "Pages of the crawl"), h.Ul(g.Group(links)))
}

// logoutForm returns the button that ends a login.
func (v *view) logoutForm() g.Node {
	if v.login == "" {
		return nil
	}
	return h.Form(h.Method("post"), h.Action("/logout"), v.keys("logout"),
		h.Button(h.Type("submit"), g.Text("Log out "+v.caller.Name)))
}

// keys returns the hidden fields that each form needs: its idempotency key and its token.
func (v *view) keys(purpose string) g.Node {
	key := v.nonce + "-" + purpose
	return g.Group{hidden("key", key), hidden("token", v.d.formToken(v.login, key))}
}

// write answers a request with a page.
func (v *view) write(w http.ResponseWriter, status int, p *page) {
	var text bytes.Buffer
	if err := v.document(p).Render(&text); err != nil {
		v.d.cfg.Logger.Error("page not rendered", "err", err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	writeCompressed(w, v.r, status, text.Bytes())
}

// writeCompressed answers a request with a text.
func writeCompressed(w http.ResponseWriter, r *http.Request, status int, text []byte) {
	w.Header().Set("Vary", "Accept, Accept-Encoding")
	if len(text) > 1000 && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		var small bytes.Buffer
		zip := gzip.NewWriter(&small)
		_, _ = zip.Write(text) // a buffer takes all
		_ = zip.Close()
		text = small.Bytes()
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client is gone
}
