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

	"github.com/bloomfrontier/crawler/fetcher/get"
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
	rule, err := get.ParseConnectTo("*.machine.test=127.0.0.1:8080")
	if err != nil {
		t.Fatal(err)
	}
	c.Agent, c.Contact, c.Text, c.CAFile = "archive/1.0 (test)", "me@a.test", true, ca
	c.Records = Records{RotateBytes: 1 << 20, Compress: true, Save: "html", Links: true}
	c.Fields = []FieldGroup{{Fields: []string{"price=.price"}}, {URL: "/p/", Fields: []string{"name=h1"}}}
	c.Rate, c.Bandwidth, c.Backoff, c.BackoffMax, c.DeadAfter = 12.5, 1<<20, 2*time.Second, time.Minute, 9
	c.Retries, c.MaxQueued, c.Wait = -1, 5000, 1
	c.CheckExternal, c.MaxExternal = true, 500
	c.Requests = get.Config{
		Headers: http.Header{"Accept-Language": {"de"}}, Types: []string{"*"}, Timeout: 5 * time.Second, HeaderTimeout: 4 * time.Second,
		MinRate: get.NoMinRate, MaxBodyBytes: 1 << 20,
		ConnectTo: []get.Rule{rule}, AllowPrivate: true, Proxy: "http://proxy.machine.test:3128", DNS: "127.0.0.99",
		AllowNet: []netip.Prefix{netip.MustParsePrefix("10.99.0.0/16")}, AllowPorts: []uint16{6379}, InsecureHosts: []string{"*.insecure.machine.test"},
	}
	if c.Redis == nil {
		c.Fixed.Windows = []string{"seeds=24h"}
	}
}

var machineTexts = []string{"machine", "127.0.0.99", "10.99.0.0", "6379"}

// openOnce opens a crawl and closes it again. It returns the settings with which the crawl was open.
func openOnce(t *testing.T, c Config) (*Config, []Override) {
	t.Helper()
	opened, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	config, overrides := opened.ses.Config, opened.Overrides()
	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
	return &config, overrides
}

// eachStore calls test for a crawl in each kind of store. The Config names a new crawl.
func eachStore(t *testing.T, test func(t *testing.T, c Config)) {
	fixed := Fixed{FilterCapacity: 1000, Partitions: 2}
	t.Run("dir", func(t *testing.T) { test(t, Config{Dir: filepath.Join(t.TempDir(), "a.crawl"), Fixed: fixed}) })
	t.Run("redis", func(t *testing.T) {
		redis := &Redis{URL: servers.Redis(t, servers.RedisOptions{}).URL(), Name: "defaults"}
		test(t, Config{Dir: filepath.Join(t.TempDir(), "w"), Redis: redis, Fixed: fixed})
	})
	t.Run("postgres", func(t *testing.T) {
		redis := &Redis{URL: servers.Redis(t, servers.RedisOptions{}).URL(), Name: "defaults"}
		rows := fixed
		rows.Sink = sinkPostgres
		postgres := &Postgres{URL: servers.Postgres(t, servers.PostgresOptions{}).DSN()}
		test(t, Config{Dir: filepath.Join(t.TempDir(), "w"), Redis: redis, Postgres: postgres, Fixed: rows})
	})
}

// bare returns the config of a run that names only the crawl.
func bare(c Config) Config {
	return Config{Dir: c.Dir, Redis: c.Redis, Postgres: c.Postgres}
}

// TestLaterRunHasDefaults: a run that names only the crawl has every setting that the first run had.
// The values of guards are not stored in Redis or Postgres.
func TestLaterRunHasDefaults(t *testing.T) {
	eachStore(t, func(t *testing.T, c Config) {
		setEvery(t, &c)
		if c.Postgres != nil {
			c.Records.Links = false // such a crawl keeps none
		}
		openOnce(t, c)
		again, overrides := openOnce(t, bare(c))
		if len(overrides) > 0 {
			t.Errorf("a run without settings overrides %v", overrides)
		}
		want := slices.Concat(c.defaults(), c.guards())
		for i, s := range slices.Concat(again.defaults(), again.guards()) {
			expected := want[i].value.String()
			if s.name == agentSetting {
				expected = "archive/" + Version() + " (test)"
			}
			if got := s.value.String(); got != expected || got == s.def && s.name != "links" {
				t.Errorf("%s is %q in the second run, want %q", s.name, got, expected)
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
		if _, own := DefaultNames(); !is || !slices.Equal(missing.Flags, own) {
			t.Fatalf("a worker in another directory: error %v, want a MissingError with %q", err, own)
		}
		if _, err := os.Stat(other.Dir); err == nil {
			t.Error("the worker that was refused has created its directory")
		}
		other.Anyway = true
		second, _ := openOnce(t, other)
		if !second.Text || second.Contact != c.Contact || second.Requests.AllowPrivate || second.Requests.DNS != "" {
			t.Errorf("with Anyway: Text %t, Contact %q, AllowPrivate %t, DNS %q", second.Text, second.Contact, second.Requests.AllowPrivate, second.Requests.DNS)
		}
		// What such a worker is given once is stored in its directory.
		other.Anyway = false
		other.Requests, other.CAFile = c.Requests, c.CAFile
		openOnce(t, other)
		other.Requests, other.CAFile = get.Config{}, ""
		if third, _ := openOnce(t, other); !third.Requests.AllowPrivate || third.Requests.DNS != c.Requests.DNS {
			t.Errorf("the guards that were given once: AllowPrivate %t, DNS %q", third.Requests.AllowPrivate, third.Requests.DNS)
		}
	})
}

// TestOverrideDefaults: a run can turn each setting off, and says so. The next run has the stored
// value again.
func TestOverrideDefaults(t *testing.T) {
	c := Config{Dir: filepath.Join(t.TempDir(), "a.crawl"), Fixed: Fixed{FilterCapacity: 1000}}
	setEvery(t, &c)
	first, _ := openOnce(t, c)
	stored := slices.Concat(first.defaults(), first.guards())
	for i, s := range stored {
		if s.name == agentSetting { // it cannot be empty
			continue
		}
		off := bare(c)
		off.Given = []string{s.name}
		run, overrides := openOnce(t, off)
		now := slices.Concat(run.defaults(), run.guards())
		if got := now[i].value.String(); got != "" && got != s.def {
			t.Errorf("%s is %q although the run turns it off", s.name, got)
		}
		if len(overrides) != 1 || overrides[0].Name != s.name || overrides[0].Given != s.def {
			t.Errorf("%s: overrides %+v, want %q instead of %q", s.name, overrides, s.def, s.value)
		}
		for j, other := range now {
			if got, want := other.value.String(), stored[j].value.String(); j != i && got != want && other.name != agentSetting {
				t.Errorf("turning off %s changes %s to %q", s.name, other.name, got)
			}
		}
	}
	last, _ := openOnce(t, bare(c))
	for i, s := range slices.Concat(last.defaults(), last.guards()) {
		if got := s.value.String(); got != stored[i].value.String() && s.name != agentSetting {
			t.Errorf("after the runs that turned settings off, %s is %q", s.name, got)
		}
	}
	other := bare(c)
	other.Requests.Headers = http.Header{"From": {"me"}}
	run, _ := openOnce(t, other)
	if got := fmt.Sprint(run.Requests.Headers); got != "map[Accept-Language:[de] From:[me]]" {
		t.Errorf("with another header, the headers are %s", got)
	}
	if len(other.Requests.Headers) != 1 {
		t.Errorf("the headers of the caller became %v", other.Requests.Headers)
	}
}

// TestSecretsAreNotStored: a run without a secret of the first run names it and stops. No file of
// the crawl has the secret.
func TestSecretsAreNotStored(t *testing.T) {
	c := Config{Dir: filepath.Join(t.TempDir(), "a.crawl"), Fixed: Fixed{FilterCapacity: 1000}}
	c.Requests = get.Config{Proxy: "http://me:hush@proxy.test:1", Headers: http.Header{"Cookie": {"hush"}, "X-Key": {"hush"}}}
	c.Hosts = []Host{{Pattern: "*.a.test", Headers: map[string]string{"Authorization": "hush"}}}
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
	old := map[string]string{portsSetting: `["25"]`, tokenSetting: "archive"}
	c := Config{Dir: "d"}
	overrides, err := c.adopt(old, nil)
	if err != nil || !slices.Equal(c.Requests.AllowPorts, []uint16{25}) || c.Agent != "archive/"+Version() || len(overrides) > 0 {
		t.Errorf("ports %v, agent %q, overrides %v, error %v", c.Requests.AllowPorts, c.Agent, overrides, err)
	}
	c = Config{Redis: &Redis{URL: "redis://h", Name: "n"}}
	_, err = c.adopt(old, nil)
	if missing, is := errors.AsType[*MissingError](err); !is || !slices.Equal(missing.Flags, []string{portsSetting}) || c.Requests.AllowPorts != nil {
		t.Errorf("in Redis: ports %v, error %v; want a MissingError", c.Requests.AllowPorts, err)
	}
}
