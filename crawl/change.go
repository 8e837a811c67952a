package crawl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/bloomfrontier/crawler/crawl/control"
	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/crawl/settings"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/robots"
)

// PolicyVersion is one version of the policy of a crawl: of all settings that can change while it runs.
type PolicyVersion = engine.Version

// Edit is the change of one setting in a PolicyVersion.
type Edit = engine.Edit

// Errors of Handle.Change.
var (
	// ErrRefused reports a change that cannot be made. The error says why, for each setting.
	ErrRefused = control.ErrRefused
	// ErrConflict reports that the policy was changed since the version from which a change was made.
	ErrConflict = control.ErrConflict
)

// Change is a change of the policy of a crawl.
type Change struct {
	// Values are texts NAME=VALUE. Several texts with the name of a list set it to all their values, and
	// NAME+=VALUE adds one. "hosts:PATTERN=VALUE" sets what differs for the hosts that match a pattern: see
	// settings.ParseHost; an empty value removes it.
	Values []string `json:"values"`
	// From is the number of the version from which the change is made; 0 is that of a policy that was never
	// changed. nil means the newest one.
	From *uint64 `json:"from,omitempty"`
	// NewSecrets are names of headers that may be secret, as in a SecretError. The crawl forgets their digests, and the
	// next process that opens the crawl with such a header stores its own. Processes that have another value then stop.
	NewSecrets []string `json:"new_secrets,omitempty"`

	Who string `json:"who"`           // who makes the change, as in user@host
	Why string `json:"why,omitempty"` // for the history
	Dry bool   `json:"dry,omitempty"` // change nothing, only say what the change would do
}

// Changed is the result of a Change.
type Changed struct {
	// Version is the new version. If the policy has these values already, it is the newest one, and Same is
	// set; nil means that the policy was never changed.
	Version *PolicyVersion `json:"version,omitempty"`
	Same    bool           `json:"same,omitempty"`
	// Stricter and Looser are the names of changed settings that decide which URLs are crawled. A setting can be in
	// both. A stricter one holds for URLs that wait, too, and a looser one only for links found from now on.
	Stricter []string `json:"stricter,omitempty"`
	Looser   []string `json:"looser,omitempty"`
	Links    bool     `json:"links,omitempty"` // the crawl keeps links: see Settings.Links
	Reach    *Reach   `json:"reach,omitempty"` // with Change.Dry and Stricter: the URLs that would be dropped
}

// Change changes the policy of the crawl, whether it runs or not, and returns when no crash can lose the
// change. A process that runs the crawl from this directory obeys it at once, and other workers within 5 s. The error
// wraps ErrRefused if a value is not valid or cannot change, and ErrConflict if the newest version is not c.From. A change
// that might have been interrupted can be repeated.
func (h *Handle) Change(ctx context.Context, c Change) (Changed, error) {
	return ask(ctx, h, verbChange, c)
}

// History returns the versions of the policy, oldest first, without their Values.
func (h *Handle) History(ctx context.Context) ([]PolicyVersion, error) {
	return ask(ctx, h, verbHistory, nothing{})
}

// change implements Handle.Change.
func (ses *session) change(ctx context.Context, c Change) (r Changed, err error) {
	ses.changing.Lock()
	defer ses.changing.Unlock()
	newest, err := ses.engine.LastVersion(ctx)
	if err != nil {
		return r, err
	}
	if c.From != nil && *c.From != numberOf(newest) {
		return r, conflict(*c.From, newest)
	}
	before, err := ses.plan.settingsAt(newest)
	if err != nil {
		return r, err
	}
	after, err := ses.plan.settingsAt(newest)
	if err != nil {
		return r, err
	}
	errs := after.Assign(c.Values)
	if errs == nil {
		errs = slices.DeleteFunc(append(after.Check(), ses.plan.unchangeable(&before, &after)...), func(err error) bool { return err == nil })
	}
	if len(errs) > 0 {
		return r, fmt.Errorf("%w: %w", ErrRefused, errors.Join(errs...))
	}
	v := nextVersion(newest, c.Who, c.Why)
	if err := forget(v, newest, c.NewSecrets); err != nil {
		return r, err
	}
	for _, row := range settings.Rows() {
		from, to := row.Value(&before).Stored(), row.Value(&after).Stored()
		if from == to {
			continue
		}
		v.Changes = append(v.Changes, Edit{Name: row.Name, From: from, To: to})
		v.Values[row.Name] = to
		if row.Name == "max-per-host" {
			from, to = strconv.FormatUint(maxPerHost(&before), 10), strconv.FormatUint(maxPerHost(&after), 10)
		}
		stricter, looser := direction(row.Name, from, to)
		if stricter {
			r.Stricter = append(r.Stricter, row.Name)
		}
		if looser {
			r.Looser = append(r.Looser, row.Name)
		}
	}
	r.Version, r.Same, r.Links = v, v.Changes == nil, ses.plan.Settings.Links
	if r.Same {
		r.Version = newest
		return r, ses.adopt(newest)
	}
	if c.Dry {
		if r.Stricter != nil {
			var reached Reach
			reached, err = reach(ctx, ses.engine, "", ses.plan.refuses(policyOf(&before, newest), policyOf(&after, v)))
			r.Reach = &reached
		}
		return r, err
	}
	added, err := ses.engine.AddVersion(ctx, v)
	if err != nil {
		return r, err
	}
	if !added {
		if newest, err = ses.engine.LastVersion(ctx); err != nil {
			return r, err
		}
		return r, conflict(v.Number-1, newest)
	}
	return r, ses.adopt(v)
}

// numberOf returns the number of a version; nil means a policy that was never changed.
func numberOf(v *PolicyVersion) uint64 {
	if v == nil {
		return 0
	}
	return v.Number
}

// conflict returns the error of a change that was not made from the newest version.
func conflict(from uint64, newest *PolicyVersion) error {
	if newest == nil {
		return fmt.Errorf("%w: it was made from version %d, but the policy was never changed", ErrConflict, from)
	}
	return fmt.Errorf("%w: it was made from version %d, but %s made version %d at %s", ErrConflict,
		from, newest.Who, newest.Number, newest.Time.Format(time.RFC3339))
}

// adopt makes this process obey a version, unless it obeys a later one. If the server has lost a version, another
// can have its number.
func (ses *session) adopt(v *PolicyVersion) error {
	ses.adopting.Lock()
	defer ses.adopting.Unlock()
	if known := ses.plan.version; numberOf(v) < numberOf(known) || reflect.DeepEqual(v, known) {
		return nil
	}
	s, err := ses.plan.settingsAt(v)
	if err != nil {
		return err
	}
	secret, err := secretsOf(v)
	if err == nil {
		_, err = ses.checkSecrets(&secret)
	}
	if err != nil {
		return err
	}
	p := policyOf(&s, v)
	p.Header, p.Block.Hash = ses.plan.headerAt(&s), ses.engine.Hasher().Fingerprint
	if err := p.Validate(); err != nil {
		return err
	}
	ses.plan.policy.Store(p)
	ses.plan.version = v
	if ses.worker != nil {
		ses.worker.Wake()
	}
	return nil
}

// settingsAt returns the settings of this process under a version of the policy. The headers of hosts are
// those of this process, and so are private headers.
func (p *Plan) settingsAt(v *PolicyVersion) (Settings, error) {
	s := p.Settings
	s.Headers = s.Headers.Clone()
	if s.Headers == nil {
		s.Headers = make(http.Header)
	}
	if v == nil {
		return s, nil
	}
	for name, text := range v.Values {
		if name == secretsSetting {
			continue
		}
		row := settings.Find(name)
		if row == nil || row.Who != settings.Live {
			return s, &settings.Error{Name: name, Err: fmt.Errorf("version %d of the policy has it, but this program cannot change it", v.Number)}
		}
		if name == settings.HeaderName {
			maps.DeleteFunc(s.Headers, func(name string, _ []string) bool { return !get.PrivateHeader(name) })
		}
		if err := row.Value(&s).Adopt(text); err != nil {
			return s, &settings.Error{Name: name, Err: fmt.Errorf("version %d of the policy has %q: %w", v.Number, text, err)}
		}
	}
	for i := range s.Hosts {
		own := slices.IndexFunc(p.Settings.Hosts, func(h Host) bool { return h.Pattern == s.Hosts[i].Pattern })
		if own >= 0 {
			s.Hosts[i].Headers = p.Settings.Hosts[own].Headers
		}
	}
	return s, nil
}

// headerAt returns what the requests of this process have in place of the headers of its client, so that they have
// those of s.
func (p *Plan) headerAt(s *Settings) map[string][]string {
	header := make(map[string][]string)
	for name, values := range s.Headers {
		if !get.PrivateHeader(name) && !slices.Equal(values, p.Settings.Headers[name]) {
			header[name] = values
		}
	}
	for name := range p.Settings.Headers {
		if _, kept := s.Headers[name]; !kept {
			header[name] = nil
		}
	}
	delete(header, "User-Agent")
	if agent := agentOf(s); agent != p.userAgent() {
		header["User-Agent"] = []string{agent}
	}
	if len(header) == 0 {
		return nil
	}
	return header
}

// unchangeable returns why a change of the policy cannot be made.
func (p *Plan) unchangeable(from, to *Settings) (errs []error) {
	refuse := func(is bool, name, why string) {
		if is {
			errs = append(errs, &settings.Error{Name: name, Err: errors.New(why)})
		}
	}
	errs = append(errs, checkHosts(to.Hosts, to.Recrawl), p.checkRecrawl(to))
	for name, values := range to.Headers {
		if get.PrivateHeader(name) && !slices.Equal(values, from.Headers[name]) {
			refuse(true, settings.HeaderName, name+" may be secret, and secrets are not stored: each worker has them from its own --header; NewSecrets accepts another value")
		}
	}
	refuse(robots.ProductToken(agentOf(to)) != robots.ProductToken(agentOf(from)), settings.HeaderName,
		"the first word of User-Agent is part of the identity of the crawl: robots.txt matches it")
	uncounted := "without a limit they were not counted, so a limit cannot begin now"
	for _, rule := range targetsOf(to.Drop) {
		_, known := p.exact.ClassOf(rule.Class())
		refuse(!known && rule.Class() != "" && rule.Class() != p.exact.Name(frontier.Bulk), "drop",
			fmt.Sprintf("%q: the crawl has no class of this name", &rule))
	}
	wide := to.Scope != canon.ScopeHost.String()
	refuse(wide && from.MaxHostsPerDomain == 0 && to.MaxHostsPerDomain > 0, "max-hosts-per-domain", uncounted)
	refuse(from.CheckExternal && from.MaxExternal == 0 && to.MaxExternal > 0, "max-external", uncounted)
	refuse(wide && from.MaxPerHost != settings.Auto && to.MaxPerHost == settings.Auto, "max-per-host",
		"the hosts of seeds, which auto does not limit, were not stored, so auto cannot begin now")
	if p.Redis == nil {
		return errs
	}
	refuse(limitsSites(to) && !limitsSites(&p.Settings), "domain-rate",
		"the crawl was created without one, so the hosts of a domain are in several partitions of Redis, and a limit cannot begin now")
	if maxPerHost(from) > 0 {
		return errs
	}
	refuse(maxPerHost(to) > 0, "max-per-host", uncounted+" in Redis")
	for _, h := range to.Hosts {
		had := slices.ContainsFunc(from.Hosts, func(f Host) bool { return f.Pattern == h.Pattern && f.Budget > 0 })
		refuse(h.Budget > 0 && !had, "hosts", h.Pattern+": budget: "+uncounted+" in Redis")
	}
	return errs
}

// limitsSites reports whether some hosts have a domain rate.
func limitsSites(s *Settings) bool { return policyOf(s, nil).LimitsSites() }

// direction reports whether a change of a setting, from and to a stored form, refuses URLs that were crawled before
// (stricter), and whether it lets the crawl follow links that were refused before (looser). Both are false
// for a setting that does not decide this.
func direction(name, from, to string) (stricter, looser bool) {
	switch name {
	case "exclude", "include", "drop", "block":
		before, after := textList(from), textList(to)
		more := slices.ContainsFunc(after, func(re string) bool { return !slices.Contains(before, re) })
		less := slices.ContainsFunc(before, func(re string) bool { return !slices.Contains(after, re) })
		switch {
		case name != "include":
			return more, less
		case len(before)*len(after) == 0: // without any, all URLs match
			return len(before) == 0, len(after) == 0
		}
		return less, more
	case "sitemaps", "feeds", "assets", "check-external":
		return to == "false", to == "true"
	case "robots":
		return to == "obey", to == "ignore"
	case "max-depth", "max-years-ahead", "max-url-bytes", "max-path-repeats", "max-params", "max-per-host", "max-hosts-per-domain",
		"max-external", "max-queued":
		before, after := limitOf(name, from), limitOf(name, to)
		return after < before, after > before
	}
	return false, false
}

// limitOf returns a stored limit as a number. No limit is a large number.
func limitOf(name, text string) float64 {
	n, err := human.ParseNumber(text)
	zeroIsLimit := name == "max-depth" || name == "max-years-ahead"
	if err != nil || n < 0 || n == 0 && !zeroIsLimit {
		return math.Inf(1)
	}
	return n
}
