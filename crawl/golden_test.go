package crawl

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// everySetting has a value other than the default for each setting.
var everySetting = Fixed{
	Scope: "domain", Include: []string{"a,b", `"q"`}, Exclude: []string{"x y"}, MaxDepth: SeedsOnly, MaxPerHost: 10_000,
	MaxHostsPerDomain: NoLimit, MaxURLBytes: NoLimit, MaxPathRepeats: 9, MaxParams: NoLimit, MaxYearsAhead: ThisYear,
	Sitemaps: On, Feeds: On, Assets: On,
	HostKey: "domain", Delay: 90 * time.Second, MaxCrawlDelay: NoDelay, LatencyFactor: 0.5, HostConcurrency: 3, Robots: "ignore",
	FilterCapacity: 12_345, FPR: 1e-3, Growth: Off, StripParams: []string{"-"}, KeepParams: []string{"sid"}, SortQuery: On,
	Exact: []string{"gov: host=*.gov", "seeds"}, Windows: []string{"gov=24h"}, Sink: "postgres", CDC: On, Partitions: 8,
}

// TestStoredSettings: fixed settings are stored in the same form as in existing crawls.
// With another form, those crawls would be refused, so the form must not change by
// accident.
func TestStoredSettings(t *testing.T) {
	redis, postgres := &Redis{URL: "redis://h", Name: "n"}, &Postgres{URL: "postgres://h/d"}
	hosts := []Host{{Pattern: "*.a.test", Delay: 5 * time.Second, Concurrency: 2, Budget: 7, Robots: "ignore", Headers: map[string]string{"Cookie": "secret"}}}
	for name, c := range map[string]Config{
		"default":          {Dir: "d", Seeds: []string{"http://a.test/"}},
		"every":            {Dir: "d", SeedsText: "--seeds a.txt", Fixed: everySetting, Hosts: hosts},
		"redis":            {Redis: redis, Fixed: everySetting},
		"redis-default":    {Redis: redis},
		"postgres":         {Redis: redis, Postgres: postgres, Fixed: everySetting},
		"postgres-default": {Redis: redis, Postgres: postgres},
	} {
		p, err := c.prepare(nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.MarshalIndent(p.settings(), "", "  ")
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
		again.Fixed, again.Hosts, again.SeedsText = Fixed{}, nil, ""
		q, err := again.prepare(p.settings())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := p.settings().Compare(q.settings()); err != nil {
			t.Errorf("%s: the adopted settings differ from the stored ones: %v", name, err)
		}
		if q.policy.Hosts.Find("x.a.test") == nil && len(c.Hosts) > 0 {
			t.Errorf("%s: the adopted settings of hosts match no host, want a match for x.a.test", name)
		}
	}
}

// TestSettingAddedLater: a crawl that is older than a setting has the default of the
// setting, and another value is refused.
func TestSettingAddedLater(t *testing.T) {
	p, err := (Config{Dir: "d"}).prepare(nil)
	if err != nil {
		t.Fatal(err)
	}
	stored := p.settings()
	delete(stored, "max-params")
	if p, err = (Config{Dir: "d"}).prepare(stored); err != nil {
		t.Fatal(err)
	}
	if err := stored.Compare(p.settings()); err != nil {
		t.Errorf("a crawl that is older than max-params was refused: %v", err)
	}
	if p, err = (Config{Dir: "d", Fixed: Fixed{MaxParams: 7}}).prepare(stored); err != nil {
		t.Fatal(err)
	}
	if err := stored.Compare(p.settings()); err == nil {
		t.Error("a value of max-params other than the default is not refused")
	}
}

// TestWrongFixed: one error names all settings that have wrong values.
func TestWrongFixed(t *testing.T) {
	err := Config{Dir: "d", Fixed: Fixed{
		Scope: "world", MaxDepth: -7, Delay: -5, FPR: 2, HostConcurrency: -1, Include: []string{"("}, Exact: []string{"everything"},
	}}.Validate()
	for _, name := range []string{"scope", "max-depth", "delay", "fpr", "host-concurrency", "Include", "Exact"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name %s: %v", name, err)
		}
	}
}

// TestWrongHosts: one error names all values of Hosts that are wrong. It does not contain
// the value of a header.
func TestWrongHosts(t *testing.T) {
	err := Config{Dir: "d", Hosts: []Host{
		{Pattern: "a.test", Delay: NoDelay, Concurrency: -3}, {Pattern: "b.test", Robots: "Ignore"},
		{Pattern: "c.test", Headers: map[string]string{"bad name": "x", "Cookie": "secret\n"}},
	}}.Validate()
	for _, text := range []string{`"a.test": Delay`, `"a.test": Concurrency`, `"b.test": Robots`, `"c.test": header name "bad name"`, "Cookie"} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("the error does not contain %s: %v", text, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), "secret") {
		t.Errorf("the error contains the value of a header: %v", err)
	}
}

// TestWrongSave: Validate accepts only the documented values of Records.Save.
func TestWrongSave(t *testing.T) {
	for save, valid := range map[string]bool{"": true, "none": true, "html": true, "all": true, "All": false} {
		if err := (Config{Dir: "d", Records: Records{Save: save}}).Validate(); (err == nil) != valid {
			t.Errorf("Save %q: error %v, want it valid: %t", save, err, valid)
		}
	}
}

// TestSetRefusesEmptyNumber: an empty text is neither a number nor NoLimit.
func TestSetRefusesEmptyNumber(t *testing.T) {
	for _, name := range []string{"partitions", "host-concurrency", "max-per-host", "max-depth"} {
		f := Fixed{}
		if err := f.Set(name, ""); err == nil || f.Text(name) != "" {
			t.Errorf("Set(%q, \"\"): value %q, error %v; want no value and an error", name, f.Text(name), err)
		}
	}
}
