package crawl

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloomfrontier/crawler/crawl/settings"
	"github.com/bloomfrontier/crawler/fetcher/fields"
	"github.com/bloomfrontier/crawler/frontier"
)

var update = flag.Bool("update", false, "write the golden files anew")

// everySetting returns a value other than the default for each setting that is fixed.
func everySetting() Settings {
	s := DefaultSettings()
	s.Scope, s.Include, s.Exclude, s.MaxDepth, s.MaxPerHost = "domain", []string{"a,b", `"q"`}, []string{"x y"}, 0, 10_000
	s.MaxHostsPerDomain, s.MaxURLBytes, s.MaxPathRepeats, s.MaxParams, s.MaxYearsAhead = 0, 0, 9, 0, 0
	s.Sitemaps, s.Feeds, s.Assets = true, true, true
	s.HostKey, s.Delay, s.MaxCrawlDelay, s.LatencyFactor, s.HostConcurrency, s.Robots = "domain", 90*time.Second, 0, 0.5, 3, "ignore"
	s.Capacity, s.FPR, s.Growth, s.StripParams, s.KeepParams, s.SortQuery = 12_345, 1e-3, false, []string{"-"}, []string{"sid"}, true
	s.Exact, s.Windows, s.Sink, s.CDC, s.Partitions = []string{"gov: host=*.gov", "seeds"}, []string{"gov=24h"}, "postgres", true, 8
	return s
}

// small returns the settings of a small crawl.
func small() Settings {
	s := DefaultSettings()
	s.Capacity = 1000
	return s
}

// planned returns the Plan of a crawl with stored settings, without looking for it.
func planned(t *testing.T, c Config, stored, own frontier.Settings) *Plan {
	t.Helper()
	p := newPlan(c, stored)
	if err := p.complete(own); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestStoredSettings: fixed settings are stored in the same form as in existing crawls.
// With another form, those crawls would be refused, so the form must not change by
// accident.
func TestStoredSettings(t *testing.T) {
	t.Parallel()
	redis, postgres := &Redis{URL: "redis://h", Name: "n"}, &Postgres{URL: "postgres://h/d"}
	hosts := []Host{{Pattern: "*.a.test", Delay: 5 * time.Second, Concurrency: 2, Budget: 7, Robots: "ignore", Headers: map[string]string{"Cookie": "secret"}}}
	withHosts := everySetting()
	withHosts.Hosts = hosts
	for name, c := range map[string]Config{
		"default":          {Dir: "d", Seeds: []string{"http://a.test/"}},
		"every":            {Dir: "d", SeedsText: "--seeds a.txt", Settings: withHosts},
		"redis":            {Redis: redis, Settings: everySetting()},
		"redis-default":    {Redis: redis},
		"postgres":         {Redis: redis, Postgres: postgres, Settings: everySetting()},
		"postgres-default": {Redis: redis, Postgres: postgres},
	} {
		p := planned(t, c, nil, nil)
		got, err := json.MarshalIndent(p.identity(), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", "settings-"+name+".json")
		if *update {
			if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
			t.Errorf("%s: the stored settings changed (-want +got):\n%s", name, diff)
		}
		// A run without settings of its own adopts the stored ones.
		again := c
		again.Settings, again.SeedsText = Settings{}, ""
		q := planned(t, again, p.identity(), nil)
		if err := p.identity().Compare(q.identity()); err != nil {
			t.Errorf("%s: the adopted settings differ from the stored ones: %v", name, err)
		}
		if q.policy.Load().Hosts.Find("x.a.test") == nil && len(c.Settings.Hosts) > 0 {
			t.Errorf("%s: the adopted settings of hosts match no host, want a match for x.a.test", name)
		}
	}
}

// TestSettingAddedLater: a crawl that is older than a setting has the default of the
// setting, and another value is refused.
func TestSettingAddedLater(t *testing.T) {
	t.Parallel()
	stored := planned(t, Config{Dir: "d"}, nil, nil).identity()
	delete(stored, "max-params")
	if err := stored.Compare(planned(t, Config{Dir: "d"}, stored, nil).identity()); err != nil {
		t.Errorf("a crawl that is older than max-params was refused: %v", err)
	}
	s := DefaultSettings()
	s.MaxParams = 7
	if p := planned(t, Config{Dir: "d", Settings: s}, stored, nil); p.differs == nil || stored.Compare(p.identity()) != nil {
		t.Error("a value of max-params other than the default is not refused")
	}
}

// TestOtherSpelling: a stored text that this program would write in another way stays as it is, and is no
// difference.
func TestOtherSpelling(t *testing.T) {
	t.Parallel()
	stored := planned(t, Config{Dir: "d"}, nil, nil).identity()
	stored["exact"], stored["urls"] = `["none"]`, "20000k"
	s := DefaultSettings()
	s.Exact, s.Capacity = nil, 20_000_000
	for _, settings := range []Settings{{}, s} {
		if err := stored.Compare(planned(t, Config{Dir: "d", Settings: settings}, stored, nil).identity()); err != nil {
			t.Error(err)
		}
	}
}

// TestWrongSettings: one error names all settings that have wrong values.
func TestWrongSettings(t *testing.T) {
	t.Parallel()
	s := DefaultSettings()
	s.Types, s.Proxy, s.DNS, s.Fields = []string{"X"}, "gopher://a", "b", []fields.Group{{Fields: []string{"x"}}}
	s.Scope, s.MaxDepth, s.Delay, s.FPR, s.HostConcurrency, s.Include, s.Exact = "world", -7, -5, 2, -1, []string{"("}, []string{"everything"}
	err := Config{Dir: "d", Settings: s}.Validate()
	faults, is := errors.AsType[*ConfigError](err)
	if !is {
		t.Fatalf("error %v, want a ConfigError", err)
	}
	var names []string
	for _, fault := range faults.Faults {
		if of, is := errors.AsType[*settings.Error](fault); is {
			names = append(names, of.Name)
		}
	}
	slices.Sort(names)
	want := []string{"delay", "dns", "exact", "field", "fpr", "host-concurrency", "include", "max-depth", "proxy", "scope", "types"}
	if !slices.Equal(names, want) || len(faults.Faults) != len(want) {
		t.Errorf("the error names %v, want each of %v once: %v", names, want, err)
	}
	if err := (Config{Dir: "d", Settings: Settings{AllowPrivate: true}}).Validate(); err == nil || !strings.Contains(err.Error(), "default") {
		t.Errorf("settings without defaults: error %v, want one that names the defaults", err)
	}
}

// TestWrongHosts: one error names all values of Hosts that are wrong. It does not contain
// the value of a header.
func TestWrongHosts(t *testing.T) {
	t.Parallel()
	s := DefaultSettings()
	s.Hosts = []Host{
		{Pattern: "a.test", Delay: -1, Concurrency: -3}, {Pattern: "b.test", Robots: "Ignore"},
		{Pattern: "c.test", Headers: map[string]string{"bad name": "x", "Cookie": "secret\n"}},
	}
	err := Config{Dir: "d", Settings: s}.Validate()
	for _, text := range []string{`"a.test": Delay`, `"a.test": Concurrency`, `"b.test": Robots`, `"c.test": header name "bad name"`, "Cookie"} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("the error does not contain %s: %v", text, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), "secret") {
		t.Errorf("the error contains the value of a header: %v", err)
	}
}
