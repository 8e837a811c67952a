package policy_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/politeness"
)

var in2026 = time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)

func TestValidateNamesEveryFault(t *testing.T) {
	if err := policy.Default(in2026).Validate(); err != nil {
		t.Errorf("the default is not valid: %v", err)
	}
	p := policy.Policy{Retries: -1, Politeness: politeness.Policy{Jitter: 1}, Rules: policy.Rules{MaxDepth: -1}}
	err := p.Validate()
	for _, want := range []string{"HostConcurrency is 0", "Retries is -1", "Jitter is 1", "MaxDepth is -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate() = %v, want %q in it", err, want)
		}
	}
}

// TestHost: the first row that matches counts, and a field without a value keeps the crawl's setting.
func TestHost(t *testing.T) {
	obey, ignore := false, true
	p := policy.Default(in2026)
	p.HostConcurrency, p.MaxPerHost, p.SeedsUnlimited, p.IgnoreRobots = 2, 100, true, true
	p.Header = map[string][]string{"X-All": {"1"}, "X-Own": {"1"}}
	p.Hosts = policy.NewHosts(
		policy.Override{Pattern: "*.example.org", Delay: 5 * time.Second},
		policy.Override{Pattern: "www.example.org", Delay: time.Minute},
		policy.Override{Pattern: "Own.Test", Concurrency: 7, MaxItems: 3, IgnoreRobots: &obey, Header: map[string][]string{"X-Own": {"2"}}},
		policy.Override{Pattern: "own.*", Delay: time.Hour},
		policy.Override{Pattern: "ignored.test", IgnoreRobots: &ignore},
	)
	for _, c := range []struct {
		key         string
		delay       time.Duration
		concurrency int
		most        uint64
		unlessSeed  bool
		ignore      bool
		own         string
	}{
		{"other.test", time.Second, 2, 100, true, true, "1"},
		{"www.example.org", 5 * time.Second, 2, 100, true, true, "1"},
		{"own.test", time.Second, 7, 3, false, false, "2"},
		{"own.example", time.Hour, 2, 100, true, true, "1"},
		{"xown.test", time.Second, 2, 100, true, true, "1"},
		{"ignored.test", time.Second, 2, 100, true, true, "1"},
		{frontier.CheckHost("own.test"), time.Second, 1, 0, false, false, "2"},
		{frontier.CheckHost("www.example.org"), 5 * time.Second, 1, 0, false, true, "1"},
	} {
		h := p.Host(c.key)
		if h.Politeness.Delay != c.delay || h.Concurrency != c.concurrency || h.MaxItems != c.most || h.UnlessSeed != c.unlessSeed ||
			h.IgnoreRobots != c.ignore || h.Header["X-Own"][0] != c.own || h.Header["X-All"][0] != "1" {
			t.Errorf("Host(%q) = %+v, want %+v", c.key, h, c)
		}
		if dead := h.Politeness.DeadAfter; (dead == 0) != frontier.IsCheck(c.key) {
			t.Errorf("Host(%q) dies after %d failures", c.key, dead)
		}
	}
	if want := (map[string][]string{"X-All": {"1"}, "X-Own": {"1"}}); !maps.EqualFunc(p.Header, want, func(a, b []string) bool { return a[0] == b[0] }) {
		t.Errorf("a row has changed the header of the policy: %v", p.Header)
	}
	p.Politeness.Delay = 0
	if got := p.Host(frontier.CheckHost("other.test")).Politeness.Delay; got != frontier.CheckDelay {
		t.Errorf("a check has a delay of %v, want %v", got, frontier.CheckDelay)
	}
}

// TestFindTakesTheFirst compares Find with a search through all rows.
func TestFindTakesTheFirst(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		b := make([]byte, 1+rng.IntN(3))
		for i := range b {
			b[i] = "ab*."[rng.IntN(4)]
		}
		return string(b)
	}
	for range 2000 {
		rows := make([]policy.Override, rng.IntN(5))
		for i := range rows {
			rows[i].Pattern = text()
		}
		table, key, want := policy.NewHosts(rows...), strings.ReplaceAll(text(), "*", "c"), ""
		for _, row := range rows {
			if ok, _ := regexp.MatchString("^"+strings.ReplaceAll(regexp.QuoteMeta(row.Pattern), `\*`, ".*")+"$", key); ok {
				want = row.Pattern
				break
			}
		}
		got := ""
		if row := table.Find(key); row != nil {
			got = row.Pattern
		}
		if got != want {
			t.Fatalf("Find(%q) in %+v = %q, want %q", key, rows, got, want)
		}
	}
}

// TestLive: readers see one policy or the other, and never a mixture. The race detector watches.
func TestLive(t *testing.T) {
	of := func(version int) *policy.Policy {
		p := policy.Default(in2026)
		p.Version, p.Retries = uint64(version), version
		p.Hosts = policy.NewHosts(policy.Override{Pattern: "*.test", Concurrency: version + 1})
		return p
	}
	live := policy.NewLive(of(0))
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for seen := uint64(0); seen < 1000; {
				p := live.Load()
				if p.Version < seen {
					t.Errorf("version %d after %d", p.Version, seen)
				}
				seen = p.Version
				if n := p.Host("a.test").Concurrency; uint64(p.Retries) != seen || uint64(n) != seen+1 {
					t.Errorf("version %d has %d retries and %d requests at once", seen, p.Retries, n)
					return
				}
			}
		})
	}
	for version := range 1001 {
		live.Store(of(version))
	}
	readers.Wait()
}

func BenchmarkHost(b *testing.B) {
	for _, n := range []int{0, 1, 10, 100} {
		for _, star := range []string{"", "*."} {
			rows := make([]policy.Override, n)
			for i := range rows {
				rows[i] = policy.Override{Pattern: fmt.Sprintf("%shost%d.example.org", star, i), Delay: time.Minute}
			}
			p := policy.Default(in2026)
			p.Hosts = policy.NewHosts(rows...)
			b.Run(fmt.Sprintf("rows=%d/star=%t", n, star != ""), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					_ = p.Host("www.some-other-site.example.com")
				}
			})
		}
	}
}
