package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/bloomfrontier/crawler/crawl/settings"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/name"
)

// Action is a change of a crawl.
type Action struct {
	Kind     ActionKind
	Settings []string // of Set: texts as in crawl.Change.Values
	Rule     string   // of Drop
	Failures frontier.Failures
	Relay    string   // of Discard and Resend
	Letters  []string // of Discard and Resend: ids of events
	Why      string   // for the history
	Key      string   // names the request
}

// ActionKind is what an Action does.
type ActionKind string

// Kinds of actions.
const (
	Pause   ActionKind = "pause"
	Resume  ActionKind = "resume" // also runs a crawl that was stopped
	Stop    ActionKind = "stop"
	Set     ActionKind = "set"   // changes the policy
	Drop    ActionKind = "drop"  // drops the URLs that a rule selects
	Retry   ActionKind = "retry" // queues failed URLs again
	Discard ActionKind = "discard"
	Resend  ActionKind = "resend" // sends dead letters again
)

// plan is an action before it is performed.
type plan struct {
	Action
	title  string
	field  *field   // what the person still has to say; nil for nothing
	effect []string // sentences
	loses  string   // what is lost for ever; empty for nothing
	done   string   // a sentence, after it was performed
	hidden []string // names and values of the form
	path   string   // below that of the crawl, where the person goes afterwards
}

// field is a value that a person types.
type field struct{ label, value, hint string }

const (
	hostsSetting = "hosts"
	maxWhy       = 500 // bytes
)

// planOf returns the plan of a form.
func (v *view) planOf(form url.Values) (*plan, error) {
	p := &plan{Action: Action{Kind: ActionKind(form.Get("do")), Why: strings.TrimSpace(form.Get("why"))}}
	if len(p.Why) > maxWhy || strings.ContainsFunc(p.Why, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil, &faultError{http.StatusUnprocessableEntity, "the reason is too long, or not one line"}
	}
	for _, name := range []string{"do", "host", "name", "value", "outcome", "relay", "ids", "why"} {
		p.hidden = append(p.hidden, name, form.Get(name))
	}
	switch do := form.Get("do"); do {
	case "pause":
		p.title, p.done = "Pause the crawl", "The crawl is paused. Requests under way finish."
	case "resume":
		p.title, p.done = "Resume the crawl", "The crawl goes on."
	case "stop":
		p.title, p.done = "Stop the crawl", "The crawl stops. What is under way finishes."
		p.effect = []string{"What is under way finishes, and nothing is lost. The process of crawler crawl then ends; crawler serve runs the crawl again after Resume."}
	case "set":
		return p, v.planSetting(p, form)
	case "pause-host", "resume-host", "delay", "drop-host":
		return p, v.planHost(p, do, form)
	case "retry":
		return p, v.planRetry(p, form)
	case "discard", "resend":
		return p, planLetters(p, form)
	default:
		return nil, &faultError{http.StatusNotFound, "there is no such change"}
	}
	return p, nil
}

// planSetting plans the change of one setting.
func (v *view) planSetting(p *plan, form url.Values) error {
	of, value := form.Get("name"), form.Get("value")
	row := settings.Find(of)
	if row == nil || row.Who != settings.Live || of == hostsSetting {
		return &faultError{http.StatusUnprocessableEntity, "this setting cannot be changed here"}
	}
	p.title, p.path = "Change "+of, "/settings"
	if !form.Has("value") {
		values, err := v.handle.Settings(v.r.Context())
		p.field = &field{"New value of " + of, strings.Join(row.Assignment(values[of]), "\n"), row.Help}
		p.field.value = strings.ReplaceAll(p.field.value, of+"=", "")
		return err
	}
	for line := range strings.Lines(strings.TrimSpace(value)) {
		p.Settings = append(p.Settings, of+"="+strings.TrimSpace(line))
	}
	if p.Settings == nil {
		p.Settings = []string{of + "="}
	}
	var changed settings.Settings
	if err := errors.Join(changed.Assign(p.Settings)...); err != nil {
		return &faultError{http.StatusUnprocessableEntity, err.Error()}
	}
	p.effect = []string{"Workers obey the new value at once, those on other machines within 5 s. It is a new version of the settings."}
	if of == "delay" {
		hosts := max(v.board.Status.Stats.Hosts, 1)
		words := "About %s with URLs now: at one request per delay, that is at most " + pace(hosts, changed.Delay) + "."
		if changed.Delay <= 0 {
			words = "About %s with URLs now: each of them is asked without a pause, which their owners may take for an attack."
		}
		p.effect = append(p.effect, fmt.Sprintf(words, human.Plural(hosts, "host")))
	}
	if of == "drop" || of == "include" || of == "exclude" {
		p.loses = "If the rule is stricter, URLs that wait and do not pass it end as dropped. To count them first, use crawler set --dry-run."
	}
	p.done = of + " was changed."
	return nil
}

// pace returns the requests per second of hosts with one delay.
func pace(hosts uint64, delay time.Duration) string {
	if delay <= 0 {
		return "no limit"
	}
	return human.PerSecond(float64(hosts)/delay.Seconds()) + " requests/s"
}

// planHost plans a change of one host.
func (v *view) planHost(p *plan, do string, form url.Values) error {
	name := strings.ToLower(form.Get("host"))
	if name == "" || len(name) > 300 || strings.ContainsAny(name, " *,=") {
		return &faultError{http.StatusUnprocessableEntity, "the host is not a host key"}
	}
	host, err := v.host(name)
	if err != nil {
		return err
	}
	if host == nil {
		return &faultError{http.StatusNotFound, "the crawl knows no host " + name}
	}
	p.Kind, p.path = Set, "/hosts?host="+url.QueryEscape(name)
	waiting := human.Plural(host.Queued+host.Leased, "URL")
	switch do {
	case "pause-host":
		p.title, p.done, p.Settings = "Pause "+name, name+" is paused.", []string{"pause+=host=" + name}
		p.effect = []string{"Its " + waiting + " wait until it is resumed, and use up no attempts. Requests under way finish."}
	case "resume-host":
		p.title, p.done, p.Settings = "Resume "+name, name+" is not paused any more.", []string{"pause-=host=" + name}
		p.effect = []string{"Its " + waiting + " can be requested again."}
	case "drop-host":
		p.Kind, p.title, p.done, p.Rule = Drop, "Drop "+name, "URLs of "+name+" are being dropped.", "host="+name
		p.loses = fmt.Sprintf("About %s of %s end as dropped without a request, and later links to it are refused. Records of what was fetched stay. crawler retry --outcome dropped brings the URLs back.",
			waiting, name)
	default:
		return v.planDelay(p, name, host.Queued+host.Leased, time.Duration(host.Delay), form)
	}
	return nil
}

// planDelay plans another delay of a host. Its other settings stay.
func (v *view) planDelay(p *plan, name string, urls uint64, now time.Duration, form url.Values) error {
	p.title, p.done = "Change the delay of "+name, "The delay of "+name+" was changed."
	if !form.Has("value") {
		p.field = &field{"Delay between two requests to " + name, now.String(), "a duration such as 500ms or 5s"}
		return nil
	}
	delay, err := time.ParseDuration(strings.TrimSpace(form.Get("value")))
	if err != nil || delay <= 0 {
		return &faultError{http.StatusUnprocessableEntity, "the delay is not a duration of more than 0, such as 5s"}
	}
	values, err := v.handle.Settings(v.r.Context())
	if err != nil {
		return err
	}
	var all settings.Settings
	if err := settings.Find(hostsSetting).Value(&all).Adopt(values[hostsSetting]); err != nil {
		return err
	}
	of := settings.Host{Pattern: name}
	for _, has := range all.Hosts {
		if has.Pattern == name {
			of = has
		}
	}
	of.Delay = delay
	p.Settings = []string{"hosts:" + name + "=" + strings.TrimPrefix(of.String(), name+", ")}
	took := func(delay time.Duration) string { return span(time.Duration(urls) * delay) }
	p.effect = []string{fmt.Sprintf("Its %s take about %s with one request every %s. Now they take about %s, with one every %s.",
		human.Plural(urls, "URL"), took(delay), delay, took(now), now),
		"A longer Crawl-delay in its robots.txt, or a slow host, makes the delay longer."}
	return nil
}

// planRetry plans another attempt for failed URLs.
func (v *view) planRetry(p *plan, form url.Values) error {
	p.Failures = frontier.Failures{Host: strings.ToLower(form.Get("host")), Outcome: frontier.Outcome(form.Get("outcome"))}
	p.title, p.done, p.path = "Try failed URLs again", "Failed URLs are queued again.", "/errors"
	s := &v.board.Status.Stats
	switch {
	case p.Failures.Host != "":
		host, err := v.host(p.Failures.Host)
		if err != nil || host == nil {
			return &faultError{http.StatusNotFound, "the crawl knows no host " + p.Failures.Host}
		}
		p.title = "Try failed URLs of " + p.Failures.Host + " again"
		p.effect = []string{"About " + human.Plural(host.Failed, "URL") + " are queued again, in a new round."}
	case p.Failures.Outcome != "":
		p.title = "Try URLs with the outcome " + string(p.Failures.Outcome) + " again"
		p.effect = []string{"About " + human.Plural(s.Outcomes[p.Failures.Outcome], "URL") + " of all rounds have this outcome. Those for which it is the last one are queued again."}
	default:
		p.effect = []string{human.Plural(s.Failed, "URL") + " have failed, and are queued again."}
	}
	return nil
}

// planLetters plans to discard dead letters, or to send them again.
func planLetters(p *plan, form url.Values) error {
	p.Relay, p.Letters = form.Get("relay"), strings.Fields(form.Get("ids"))
	if n := len(p.Letters); n == 0 || n > mostLetters || !name.Valid(p.Relay) {
		return &faultError{http.StatusUnprocessableEntity, "the form names no dead letters"}
	}
	p.path = "/relays?relay=" + url.QueryEscape(p.Relay)
	if p.Kind == Resend {
		p.title, p.done = "Send dead letters of "+p.Relay+" again", "The relay sends the dead letters again."
		p.effect = []string{"The relay sends " + human.Plural(uint64(len(p.Letters)), "dead letter") +
			" again, within seconds if it runs, and otherwise when it runs next. They arrive after newer events of their hosts. " +
			"What the other program refuses again stays here, with the new reason."}
		return nil
	}
	p.title = "Discard dead letters of " + p.Relay
	p.loses = human.Plural(len(p.Letters), "dead letter") + " will not be sent any more: " + strings.Join(p.Letters, ", ") +
		". The records stay in the output of the crawl."
	p.done = "The dead letters were discarded."
	return nil
}

// actPage shows a change before it is made: first the field for its value, if it needs one, and then its effect.
func actPage(v *view) (*page, error) {
	if !v.caller.Change {
		return nil, &faultError{http.StatusForbidden, "your token permits you only to look"}
	}
	p, err := v.planOf(v.r.URL.Query())
	if err != nil {
		return nil, err
	}
	if f := p.field; f != nil {
		input := h.Input(h.ID("value"), h.Name("value"), h.Type("text"), h.Value(f.value), h.AutoComplete("off"))
		if strings.Contains(f.value, "\n") {
			input = h.Textarea(h.ID("value"), h.Name("value"), h.Rows("6"), g.Text(f.value))
		}
		body := h.Form(h.Method("get"), h.Action(v.at("/act")), h.Class("stack"), hiddenAll(p.hidden...),
			h.Label(h.For("value"), text(f.label)), input, h.P(h.Class("note"), text(f.hint)),
			h.Label(h.For("why"), g.Text("Why (for the history)")), h.Input(h.ID("why"), h.Name("why"), h.Type("text"), h.MaxLength("500")),
			h.Button(h.Type("submit"), g.Text("Show what it would do")))
		return &page{title: human.Printable(p.title), parts: []part{{id: "act", title: "New value", wide: true, body: body}}}, nil
	}
	var effect g.Group
	for _, line := range p.effect {
		effect = append(effect, h.P(text(line)))
	}
	label := "Do it"
	if p.loses != "" {
		effect = append(effect, h.P(h.Class("bad"), text(p.loses)))
		label = "Do it, and lose this"
	}
	body := h.Form(h.Method("post"), h.Action(v.at("/act")), h.Class("stack"), v.keys("act"), hiddenAll(p.hidden...), effect,
		g.If(p.Settings != nil, h.P(g.Text("New setting: "), h.Code(text(strings.Join(p.Settings, ", "))))),
		h.Div(h.Class("row"), h.Button(h.Type("submit"), g.Text(label)), button("Cancel", v.at(p.path))))
	return &page{title: human.Printable(p.title), parts: []part{{id: "act", title: "What it would do", wide: true, body: body}}}, nil
}

// effect is the result of an action. Another request with its key waits for it.
type effect struct {
	done chan struct{}
	said string
	err  error
}

// mostEffects is the number of results that are kept.
const mostEffects = 1000

// act performs an action.
func (d *Dashboard) act(w http.ResponseWriter, r *http.Request) {
	caller, login, known := d.caller(r)
	v := &view{d: d, r: r, caller: caller, login: login, nonce: newNonce()}
	switch {
	case !known:
		http.Redirect(w, r, "/login", http.StatusSeeOther)
		return
	case !d.checkForm(w, r, login):
		v.writeFault(w, &faultError{http.StatusForbidden, "this form is too old, or another site made it: go back, load the page again and repeat"})
		return
	case !caller.Change:
		v.writeFault(w, &faultError{http.StatusForbidden, "your token permits you only to look"})
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 2*time.Minute)
	defer cancel()
	if err := v.open(ctx); err != nil {
		v.writeFault(w, err)
		return
	}
	key := r.PostForm.Get("key")
	p, err := v.planOf(r.PostForm)
	if err == nil && p.field != nil {
		err = &faultError{http.StatusUnprocessableEntity, "the form has no value"}
	}
	if err != nil {
		v.writeFault(w, err)
		return
	}
	e := d.once(v.crawl.Name+" "+key, func() (string, error) {
		p.Key = key
		return p.done, d.cfg.Crawls.Do(ctx, caller, v.crawl.Name, p.Action)
	})
	d.readings.forget(v.crawl.Name)
	if e.err != nil {
		v.writeFault(w, &faultError{http.StatusConflict, e.err.Error()})
		return
	}
	to := v.at(p.path)
	if back := r.PostForm.Get("back"); strings.HasPrefix(back, v.at("")) {
		to = back
	}
	at, err := url.Parse(to)
	if err != nil {
		at = &url.URL{Path: v.at("")}
	}
	query := at.Query()
	query.Set("said", key)
	at.RawQuery = query.Encode()
	http.Redirect(w, r, at.RequestURI(), http.StatusSeeOther)
}

// once calls a function unless it was called with this key before, and returns its result. An error of a call is not kept,
// so that the call can be repeated.
func (d *Dashboard) once(key string, do func() (string, error)) *effect {
	d.mu.Lock()
	e, known := d.done[key]
	if !known {
		for other, old := range d.done {
			if len(d.done) < mostEffects {
				break
			}
			select {
			case <-old.done:
				delete(d.done, other)
			default: // it is under way
			}
		}
		e = &effect{done: make(chan struct{})}
		d.done[key] = e
	}
	d.mu.Unlock()
	if known {
		<-e.done
		return e
	}
	e.said, e.err = do()
	if e.err != nil {
		d.mu.Lock()
		delete(d.done, key)
		d.mu.Unlock()
	}
	close(e.done)
	return e
}

// said returns the result of the action after which the page is shown.
func (v *view) said() g.Node {
	key := v.r.URL.Query().Get("said")
	if key == "" {
		return nil
	}
	v.d.mu.Lock()
	e := v.d.done[v.crawl.Name+" "+key]
	v.d.mu.Unlock()
	if e == nil {
		return nil
	}
	return h.P(h.Class("said"), h.Role("status"), text(e.said))
}
