package crawl

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/crawl/settings"
	"github.com/bloomfrontier/crawler/frontier"
)

// changed makes a change and fails the test after an error.
func changed(t *testing.T, h *Handle, c Change) Changed {
	t.Helper()
	r, err := h.Change(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestChange: a change is a version of the policy, holds for the process that runs the crawl at once, and
// for later runs. A repeated change is no new version. The run has made version 1, with the digests of its secret headers.
func TestChange(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, c Config) {
		c.Settings.MaxPerHost = 1000 // so that Redis counts the URLs of hosts
		c.Settings.Headers = http.Header{"From": {"me"}, "X-Key": {"hush"}}
		c.Settings.Hosts = []Host{{Pattern: "b.test", Headers: map[string]string{"X-Host": "hush"}}}
		run, err := Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		live := run.ses.plan.policy
		attached, err := Attach(t.Context(), c.Location())
		if err != nil {
			t.Fatal(err)
		}
		r := changed(t, attached, Change{Values: []string{
			"delay=5s", "exclude=/a/", "exclude=/b/", "hosts:*.A.test=delay 1m0s, budget 7", "hosts:b.test=concurrency 2", "header=Accept: x", "contact=me@a.test", "max-pages=9",
		}, Who: "a@b", Why: "for a test"})
		if r.Version.Number != 2 || r.Version.Who != "a@b" || r.Version.Why != "for a test" || len(r.Version.Changes) != 6 ||
			!slices.Equal(r.Stricter, []string{"exclude"}) || r.Looser != nil {
			t.Errorf("version %+v, stricter %q", r.Version, r.Stricter)
		}
		p := live.Load()
		a, b := p.Host("x.a.test"), p.Host("b.test")
		if p.Version != 2 || p.Politeness.Delay != 5e9 || len(p.Rules.Exclude) != 2 || p.MaxPages != 9 || a.MaxItems != 7 || b.Concurrency != 2 {
			t.Errorf("the process that runs the crawl has the policy %+v", p)
		}
		if from, sent := p.Header["From"]; !sent || from != nil || p.Header["Accept"][0] != "x" || !strings.Contains(p.Header["User-Agent"][0], "(+me@a.test)") || b.Header["X-Host"][0] != "hush" {
			t.Errorf("the process that runs the crawl sends the headers %v, and to b.test %v", p.Header, b.Header)
		}
		if r := changed(t, attached, Change{Values: []string{"delay=5s"}}); !r.Same || r.Version.Number != 2 {
			t.Errorf("the repeated change is %+v", r)
		}
		if r := changed(t, attached, Change{Values: []string{"exclude+=/c/"}, Dry: true}); len(r.Version.Changes) != 1 || live.Load() != p {
			t.Errorf("the dry change is %+v", r.Version)
		}
		first := uint64(0)
		if _, err := attached.Change(t.Context(), Change{Values: []string{"delay=6s"}, From: &first}); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "a@b made version 2") {
			t.Errorf("a change from version 0: %v, want ErrConflict", err)
		}
		if err := run.Close(); err != nil {
			t.Fatal(err)
		}
		changed(t, attached, Change{Values: []string{"exclude=/b/", "max-depth=3", "hosts:*.a.test="}}) // no process runs the crawl
		again := bare(c)
		again.Settings = DefaultSettings()
		again.Settings.Headers, again.Settings.Hosts = http.Header{"X-Key": {"hush"}}, nil
		again.Anyway = true
		s, _ := openOnce(t, again)
		if s.Delay != 5e9 || !slices.Equal(s.Exclude, []string{"/b/"}) || s.MaxDepth != 3 || len(s.Hosts) != 1 || s.Contact != "me@a.test" || s.MaxPages != 9 || len(s.Headers) != 2 || s.Headers.Get("Accept") != "x" {
			t.Errorf("the next run has the settings %+v", s)
		}
		again.Settings.Delay, again.Settings.MaxPages, again.Settings.Retries = 7e9, 10, 1
		_, err = Open(t.Context(), again)
		differ, is := errors.AsType[*LiveError](err)
		if !is || len(differ.Differ) != 3 {
			t.Errorf("a run with other live settings: %v, want a LiveError with 3", err)
		}
		versions, err := attached.History(t.Context())
		if err != nil || len(versions) != 3 || versions[0].Number != 1 || versions[2].Changes[1].To != "3" || versions[2].Values != nil {
			t.Errorf("the history is %+v, error %v", versions, err)
		}
		if c.Redis == nil {
			text, err := os.ReadFile(filepath.Join(c.Dir, "policy.json"))
			if err != nil || strings.Contains(string(text), "hush") {
				t.Errorf("the file of versions: %s, error %v", text, err)
			}
		}
	})
}

// TestUnchangeable: a change that cannot be made honestly is refused by name, and all faults are named.
func TestUnchangeable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(*Settings)
		shared bool
		text   string
		want   string // empty means that the change is made
	}{
		"identity":   {text: "scope=any", want: "setting scope: it is part of the identity"},
		"run":        {text: "timeout=5s", want: "setting timeout: each run"},
		"unknown":    {text: "dely=5s", want: "setting dely: there is no such"},
		"no value":   {text: "delay", want: `"delay" is no change`},
		"bad value":  {text: "delay=x", want: "want a time of 0 or more"},
		"no list":    {text: "delay+=5s", want: "it is no list"},
		"bad RE":     {text: "exclude=(", want: "want a regular expression"},
		"bad host":   {text: "hosts:a.test=delay x", want: "delay is \"x\""},
		"no host":    {text: "hosts:a.test=", want: "no settings of hosts with the pattern"},
		"secret":     {text: "header+=Cookie: a=b", want: "Cookie may be secret"},
		"token":      {text: "header+=User-Agent: other/1", want: "the first word of User-Agent"},
		"agent":      {text: "header+=User-Agent: crawler/1 (more)"},
		"hosts off":  {before: func(s *Settings) { s.Scope, s.MaxHostsPerDomain = "domain", 0 }, text: "max-hosts-per-domain=5", want: "max-hosts-per-domain: without a limit"},
		"hosts less": {before: func(s *Settings) { s.Scope = "domain" }, text: "max-hosts-per-domain=5"},
		"external":   {before: func(s *Settings) { s.CheckExternal, s.MaxExternal = true, 0 }, text: "max-external=5", want: "max-external: without a limit"},
		"auto":       {before: func(s *Settings) { s.Scope, s.MaxPerHost = "any", 5 }, text: "max-per-host=auto", want: "the hosts of seeds"},
		"from auto":  {before: func(s *Settings) { s.Scope = "any" }, text: "max-per-host=5"},
		"uncounted":  {shared: true, text: "max-per-host=5", want: "max-per-host: without a limit"},
		"counted":    {text: "max-per-host=5"},
		"budget":     {shared: true, text: "hosts:a.test=budget 5", want: "hosts: a.test: budget: without a limit"},
		"rate off":   {shared: true, before: func(s *Settings) { s.DomainRate = 0 }, text: "domain-rate=4", want: "domain-rate: the crawl was created without one"},
		"host rate":  {shared: true, before: func(s *Settings) { s.DomainRate = 0 }, text: "hosts:*.a.test=domain-rate 2", want: "domain-rate: the crawl was created without one"},
		"rate":       {shared: true, text: "domain-rate=0"},
		"rate again": {shared: true, before: func(s *Settings) {
			s.DomainRate, s.Hosts = 0, []Host{{Pattern: "*.b.test", DomainRate: new(2.0)}}
		}, text: "domain-rate=4"},
		"own visits": {before: func(s *Settings) { s.Recrawl = "30d" }, text: "hosts:a.test=recrawl 1h, weight 5"},
		"none":       {text: "hosts:a.test=recrawl off"},
		"all off":    {text: "hosts:a.test=recrawl 1h", want: "Recrawl is \"1h\", but Settings.Recrawl is off"},
		"bad visits": {text: "hosts:a.test=recrawl often", want: "recrawl is \"often\", want off, a time"},
		"bad weight": {text: "hosts:a.test=weight 0", want: "weight is \"0\", want 0.01 to 1000"},
		"own rate":   {before: func(s *Settings) { s.DomainRate = 0 }, text: "domain-rate=4"},
		"own budget": {text: "hosts:a.test=budget 5"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlan(Config{Dir: "d", Settings: DefaultSettings()}, nil)
			if c.shared {
				p.Redis = &Redis{}
			}
			if c.before != nil {
				c.before(&p.Settings)
			}
			before, _ := p.settingsAt(nil)
			after, _ := p.settingsAt(nil)
			errs := after.Assign([]string{c.text})
			if errs == nil {
				errs = p.unchangeable(&before, &after)
			}
			err := errors.Join(errs...)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s: %v, want %q", c.text, err, c.want)
			}
		})
	}
}

// TestReach: a dry change counts the waiting URLs that it would drop, by host and with examples.
func TestReach(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, c Config) {
		run, err := Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		var offers []frontier.Offer
		for i := range 30 {
			host := fmt.Sprintf("h%d.test", i%3)
			offers = append(offers, frontier.Offer{URL: fmt.Sprintf("http://%s/%d", host, i), Host: host, Depth: uint16(i), Priority: frontier.PriorityPage})
		}
		offers[0].Priority = frontier.PrioritySeed // of h0.test, at depth 0
		if _, err := run.ses.engine.Add(t.Context(), offers); err != nil {
			t.Fatal(err)
		}
		if _, err := run.ses.engine.Lease(t.Context(), frontier.LeaseRequest{IDs: make([]frontier.LeaseID, 1)}); err != nil {
			t.Fatal(err) // leased URLs count, too
		}
		for change, want := range map[string]string{
			"exclude+=/[0-9]$":                       "9: h1.test 3 h2.test 3 h0.test 3", // not the seed
			"drop+=host=h0.test":                     "10: h0.test 10",
			"drop+=host=h1.test depth=20..":          "3: h1.test 3",
			"drop+=class=bulk match=/2[0-9]$":        "10: h2.test 4 h0.test 3 h1.test 3",
			"drop+=class=seeds match=/2[0-9]$":       "0:",
			"max-depth=28":                           "1: h2.test 1",
			"drop+=host=*.test match=^http://h1.*7$": "1: h1.test 1",
		} {
			r := changed(t, run.Handle, Change{Values: []string{change}, Dry: true}).Reach
			if r == nil {
				t.Errorf("%s: the change counts nothing", change)
				continue
			}
			counted, found := 0, map[string]bool{}
			for _, h := range r.Hosts {
				counted += int(h.URLs)
				found[fmt.Sprint(h.Host, " ", h.URLs)] = true
				if n := len(h.Examples); n != min(3, int(h.URLs)) || !strings.HasPrefix(h.Examples[0], "http://"+h.Host) {
					t.Errorf("%s: the examples are %q", change, h.Examples)
				}
			}
			total, hosts, _ := strings.Cut(want, ":")
			words := strings.Fields(hosts)
			for i := 0; i < len(words); i += 2 {
				if !found[words[i]+" "+words[i+1]] {
					t.Errorf("%s reaches %+v, want %s", change, r.Hosts, want)
				}
			}
			if fmt.Sprint(r.URLs) != total || uint64(counted) != r.URLs {
				t.Errorf("%s reaches %d URLs, %d of the hosts, want %s", change, r.URLs, counted, want)
			}
		}
		_, err = run.Change(t.Context(), Change{Values: []string{"drop+=class=nothing"}})
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "no class of this name") {
			t.Errorf("a rule with a class that the crawl does not have: %v", err)
		}
	})
}

// TestDirection: which changes make the crawl follow more, and which fewer links.
func TestDirection(t *testing.T) {
	for _, c := range []struct {
		name, from, to   string
		stricter, looser bool
	}{
		{"exclude", "[]", `["a"]`, true, false}, {"exclude", `["a"]`, `["b"]`, true, true}, {"exclude", `["a","b"]`, `["b"]`, false, true},
		{"include", "[]", `["a"]`, true, false}, {"include", `["a"]`, "[]", false, true}, {"include", `["a"]`, `["a","b"]`, false, true},
		{"include", `["a"]`, `["b"]`, true, true}, {"max-depth", "-1", "0", true, false}, {"max-depth", "0", "3", false, true},
		{"max-params", "0", "3", true, false}, {"max-params", "30", "3", true, false}, {"max-hosts-per-domain", "10k", "0", false, true},
		{"assets", "true", "false", true, false}, {"robots", "obey", "ignore", false, true}, {"delay", "1s", "2s", false, false},
	} {
		if stricter, looser := direction(c.name, c.from, c.to); stricter != c.stricter || looser != c.looser {
			t.Errorf("%s from %s to %s: stricter %t, looser %t", c.name, c.from, c.to, stricter, looser)
		}
	}
}

// TestAssignment: the texts that a message proposes set a setting to the value that they are made of.
func TestAssignment(t *testing.T) {
	every := Config{Settings: DefaultSettings()}
	setEvery(t, &every)
	every.Settings.Exclude, every.Settings.Hosts = []string{"a,b", "c"}, []Host{{Pattern: "a.test", Delay: 5e9, Robots: "ignore"}}
	for _, row := range settings.Rows() {
		if row.Who != settings.Live {
			continue
		}
		for _, s := range []Settings{every.Settings, DefaultSettings()} {
			stored := row.Value(&s).Stored()
			other := Settings{Exclude: []string{"x"}, Headers: http.Header{}}
			if errs := other.Assign(row.Assignment(stored)); errs != nil || row.Value(&other).Stored() != stored {
				t.Errorf("%q sets %s to %s, want %s (%v)", row.Assignment(stored), row.Name, row.Value(&other).Stored(), stored, errs)
			}
		}
	}
}
