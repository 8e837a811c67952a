package crawl

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/crawl/settings"
	"github.com/bloomfrontier/crawler/fetcher/botauth"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// setEvery sets each setting that is a default of later runs, to a value other than that of the
// program. The values of guards contain the text "machine", or one of machineTexts.
func setEvery(t *testing.T, c *Config) {
	ca := filepath.Join(t.TempDir(), "machine-ca.pem")
	server := httptest.NewTLSServer(nil)
	server.Close()
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &c.Settings
	s.Agent, s.Contact, s.Text, s.CAFile = "archive/1.0 (test)", "me@a.test", true, ca
	s.RotateBytes, s.Compress, s.Save, s.Links = 1<<20, true, "html", true
	s.Fields = []FieldGroup{{Fields: []string{"price=.price"}}, {URL: "/p/", Fields: []string{"name=h1"}}}
	s.Rate, s.Bandwidth, s.Backoff, s.BackoffMax, s.DeadAfter = 12.5, 1<<20, 2*time.Second, time.Minute, 9
	s.Retries, s.MaxQueued, s.RedisWait = 0, 5000, 1
	s.CheckExternal, s.MaxExternal, s.SkipDuplicates = true, 500, true
	s.Preferences, s.ContentUse = "full", []string{"search"}
	if s.RecrawlEvery, s.PurgeGone = "2h..30d", "9d"; c.Redis == nil {
		s.Recrawl = "80%"
	}
	s.Headers, s.Types, s.Timeout, s.HeaderTimeout = http.Header{"Accept-Language": {"de"}}, []string{"*"}, 5*time.Second, 4*time.Second
	s.MinRate, s.MaxBody = 0, 1<<20
	s.ProxyHTTP = "absolute"
	s.Bind = []netip.Addr{netip.MustParseAddr("127.0.0.98")}
	s.Sign, s.SignatureAgent, s.SignReuse = filepath.Join(t.TempDir(), "machine.key"), "https://bot.test", time.Minute
	s.Cookies, s.Logins = filepath.Join(t.TempDir(), "machine.cookies"), filepath.Join(t.TempDir(), "machine.logins")
	for _, name := range []string{s.Cookies, s.Logins} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.CookieJar, s.CookieJarFile, s.CookieDomains = true, filepath.Join(t.TempDir(), "machine.jar"), []string{"*.shared.test"}
	s.SaveCookies, s.LoggedOut = true, "/login"
	keys, err := botauth.New(time.Now())
	if err == nil {
		err = keys.Write(s.Sign)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.ConnectTo, s.AllowPrivate, s.Proxy, s.DNS = []string{"*.machine.test=127.0.0.1:8080"}, true, "http://proxy.machine.test:3128", "127.0.0.99"
	s.AllowNet, s.AllowPorts, s.InsecureHosts = []netip.Prefix{netip.MustParsePrefix("10.99.0.0/16")}, []uint16{6379}, []string{"*.insecure.machine.test"}
	if c.Redis == nil {
		s.Windows = []string{"seeds=24h"}
	}
}

var machineTexts = []string{"machine", "127.0.0.98", "127.0.0.99", "10.99.0.0", "6379"}

// openOnce opens a crawl and closes it again. It returns the settings with which the crawl was open.
func openOnce(t *testing.T, c Config) (*Settings, []Override) {
	t.Helper()
	opened, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	settings, overrides := opened.ses.plan.Settings, opened.Overrides()
	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
	return &settings, overrides
}

// eachStore calls test for a crawl in each kind of store. The Config names a new crawl.
func eachStore(t *testing.T, test func(t *testing.T, c Config)) {
	fixed := small()
	fixed.Partitions = 2
	t.Run("dir", func(t *testing.T) { test(t, Config{Dir: filepath.Join(t.TempDir(), "a.crawl"), Settings: fixed}) })
	t.Run("redis", func(t *testing.T) {
		redis := &Redis{URL: servers.Redis(t, servers.RedisOptions{}).URL(), Name: "defaults"}
		test(t, Config{Dir: filepath.Join(t.TempDir(), "w"), Redis: redis, Settings: fixed})
	})
	t.Run("postgres", func(t *testing.T) {
		redis := &Redis{URL: servers.Redis(t, servers.RedisOptions{}).URL(), Name: "defaults"}
		rows := fixed
		rows.Sink = sinkPostgres
		postgres := &Postgres{URL: servers.Postgres(t, servers.PostgresOptions{}).DSN()}
		test(t, Config{Dir: filepath.Join(t.TempDir(), "w"), Redis: redis, Postgres: postgres, Settings: rows})
	})
}

// bare returns the config of a run that names only the crawl.
func bare(c Config) Config {
	return Config{Dir: c.Dir, Redis: c.Redis, Postgres: c.Postgres}
}

// TestLaterRunHasDefaults: a run that names only the crawl has every setting that the first run had.
// The values of guards are not stored in Redis or Postgres.
func TestLaterRunHasDefaults(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, c Config) {
		setEvery(t, &c)
		if c.Postgres != nil {
			c.Settings.Links = false // such a crawl keeps none
		}
		openOnce(t, c)
		again, overrides := openOnce(t, bare(c))
		if len(overrides) > 0 {
			t.Errorf("a run without settings overrides %v", overrides)
		}
		for _, row := range kept(c) {
			expected := row.Value(&c.Settings).Stored()
			if row.Name == agentSetting {
				expected = "archive/" + Version() + " (test)"
			}
			if got := row.Value(again).Stored(); got != expected || got == defaultText(row) && row.Name != "links" && row.Name != "recrawl" {
				t.Errorf("%s is %q in the second run, want %q", row.Name, got, expected)
			}
		}
		if c.Redis == nil {
			return
		}
		stored, err := Stored(t.Context(), c.Location())
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range stored {
			for _, text := range machineTexts {
				if strings.Contains(value, text) {
					t.Errorf("the store has %s in %s: %s", text, name, value)
				}
			}
		}

		// A worker in another directory lacks the guards, and has everything else.
		other := bare(c)
		other.Dir = filepath.Join(t.TempDir(), "other")
		_, err = Open(t.Context(), other)
		missing, is := errors.AsType[*MissingError](err)
		own := settings.Names(func(row *settings.Row) bool { return row.Kept == settings.Here })
		if !is || !slices.Equal(missing.Flags, own) {
			t.Fatalf("a worker in another directory: error %v, want a MissingError with %q", err, own)
		}
		if _, err := os.Stat(other.Dir); err == nil {
			t.Error("the worker that was refused has created its directory")
		}
		other.Anyway = true
		second, _ := openOnce(t, other)
		if !second.Text || second.Contact != c.Settings.Contact || second.AllowPrivate || second.DNS != "" {
			t.Errorf("with Anyway: Text %t, Contact %q, AllowPrivate %t, DNS %q", second.Text, second.Contact, second.AllowPrivate, second.DNS)
		}
		// What such a worker is given once is stored in its directory.
		other.Anyway = false
		other.Settings = c.Settings
		openOnce(t, other)
		other.Settings = Settings{}
		if third, _ := openOnce(t, other); !third.AllowPrivate || third.DNS != c.Settings.DNS {
			t.Errorf("the guards that were given once: AllowPrivate %t, DNS %q", third.AllowPrivate, third.DNS)
		}
	})
}

// TestOverrideDefaults: a run can turn each setting off, and says so. The next run has the stored
// value again. A setting of the policy is the same for all runs.
func TestOverrideDefaults(t *testing.T) {
	t.Parallel()
	c := Config{Dir: filepath.Join(t.TempDir(), "a.crawl"), Settings: small()}
	setEvery(t, &c)
	first, _ := openOnce(t, c)
	for _, row := range kept(c) {
		if row.Name == agentSetting || row.Name == "recrawl" && c.Redis != nil { // one cannot be empty, the other cannot be set
			continue
		}
		off := bare(c)
		off.Given = []string{row.Name}
		if row.Who == settings.Live {
			_, err := Open(t.Context(), off)
			if live, is := errors.AsType[*LiveError](err); !is || len(live.Differ) != 1 || live.Differ[0].Name != row.Name {
				t.Errorf("a run that turns %s off: %v, want a LiveError", row.Name, err)
			}
			continue
		}
		run, overrides := openOnce(t, off)
		if got := row.Value(run).Stored(); got != row.Default {
			t.Errorf("%s is %q although the run turns it off", row.Name, got)
		}
		if len(overrides) != 1 || overrides[0].Name != row.Name || overrides[0].Given != row.Default {
			t.Errorf("%s: overrides %+v, want %q instead of %q", row.Name, overrides, row.Default, row.Value(first).Stored())
		}
		for _, other := range kept(c) {
			if got, want := other.Value(run).Stored(), other.Value(first).Stored(); other != row && got != want && other.Name != agentSetting {
				t.Errorf("turning off %s changes %s to %q", row.Name, other.Name, got)
			}
		}
	}
	last, _ := openOnce(t, bare(c))
	for _, row := range kept(c) {
		if got := row.Value(last).Stored(); got != row.Value(first).Stored() && row.Name != agentSetting {
			t.Errorf("after the runs that turned settings off, %s is %q", row.Name, got)
		}
	}
	other := bare(c)
	other.Settings = DefaultSettings()
	other.Settings.Headers = http.Header{"Cookie": {"me"}}
	run, _ := openOnce(t, other)
	if got := fmt.Sprint(run.Headers); got != "map[Accept-Language:[de] Cookie:[me]]" {
		t.Errorf("with another header, the headers are %s", got)
	}
	if len(other.Settings.Headers) != 1 {
		t.Errorf("the headers of the caller became %v", other.Settings.Headers)
	}
}

// TestSecretsAreNotStored: a run without a secret of the first run names it and stops. No file of
// the crawl has the secret.
func TestSecretsAreNotStored(t *testing.T) {
	t.Parallel()
	c := Config{Dir: filepath.Join(t.TempDir(), "a.crawl"), Settings: small()}
	c.Settings.Proxy, c.Settings.Headers = "http://me:hush@proxy.test:1", http.Header{"Cookie": {"hush"}, "X-Key": {"hush"}}
	c.Settings.Hosts = []Host{{Pattern: "*.a.test", Headers: map[string]string{"Authorization": "hush"}}}
	openOnce(t, c)
	_, err := Open(t.Context(), bare(c))
	missing, is := errors.AsType[*MissingError](err)
	if !is || !slices.Equal(missing.Flags, []string{"proxy"}) || !slices.Equal(missing.Headers, []string{"*.a.test: Authorization", "Cookie", "X-Key"}) {
		t.Errorf("error %v, want a MissingError with the proxy and three headers", err)
	}
	for _, name := range []string{engineFile, ownFile} {
		text, err := os.ReadFile(filepath.Join(c.Dir, name))
		if err != nil || strings.Contains(string(text), "hush") {
			t.Errorf("%s: %s, error %v; want no secret", name, text, err)
		}
	}
	anyway := bare(c)
	anyway.Anyway = true
	openOnce(t, anyway)
	openOnce(t, c)
}

// engineFile is the name of the file with the settings of a crawl in a directory.
const engineFile = "crawl.json"

// TestDefaultsOfOldCrawls: a crawl of an early version, which stored ports with its other settings
// and no defaults, goes on. In Redis, the ports are not taken from the store.
func TestDefaultsOfOldCrawls(t *testing.T) {
	t.Parallel()
	old := map[string]string{portsSetting: `["25"]`, tokenSetting: "archive"}
	p := planned(t, Config{Dir: "d"}, old, nil)
	if !slices.Equal(p.Settings.AllowPorts, []uint16{25}) || p.Settings.Agent != "archive/"+Version() || len(p.overrides) > 0 || p.missing != nil {
		t.Errorf("ports %v, agent %q, overrides %v, missing %v", p.Settings.AllowPorts, p.Settings.Agent, p.overrides, p.missing)
	}
	p = planned(t, Config{Redis: &Redis{URL: "redis://h", Name: "n"}}, old, nil)
	missing, is := errors.AsType[*MissingError](p.missing)
	if !is || !slices.Equal(missing.Flags, []string{portsSetting}) || p.Settings.AllowPorts != nil {
		t.Errorf("in Redis: ports %v, error %v; want a MissingError", p.Settings.AllowPorts, p.missing)
	}
}

// kept returns the rows of the settings that are defaults of later runs.
func kept(c Config) (rows []*settings.Row) {
	for _, row := range settings.Rows() {
		if in := row.In(c.Redis != nil, c.Postgres != nil); in == settings.Later || in == settings.Here {
			rows = append(rows, row)
		}
	}
	return rows
}
