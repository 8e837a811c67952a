package policy_test

import (
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
)

func TestTarget(t *testing.T) {
	offer := frontier.Offer{URL: "https://www.a.test/cal/2026 x", Host: "www.a.test", Depth: 5}
	for text, want := range map[string]bool{
		"host=www.a.test": true, "host=WWW.*": true, "host=a.test": false, "host=*": true,
		"class=exact": true, "class=bulk": false, "depth=5..": true, "depth=6..": false,
		"match=/cal/": true, "match=^/cal/": false, "match=2026 x$": true,
		"host=*.a.test depth=2.. match=/cal/": true, "host=*.b.test match=/cal/": false, "class=exact depth=6..": false,
	} {
		target, err := policy.ParseTarget(text)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if got := target.Selects(&offer, "exact"); got != want || target.String() != text {
			t.Errorf("%q selects it: %t, want %t", &target, got, want)
		}
		check := offer
		check.URL, check.Host = frontier.CheckURL(offer.URL), frontier.CheckHost(offer.Host)
		if got := target.Selects(&check, "exact"); got != want {
			t.Errorf("%q selects its check: %t, want %t", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"": "selects nothing", "host=": "host is empty", "match=": "match is empty", "match=(": "missing closing", "depth=5": "want N..",
		"depth=0..": "want N..", "depth=65536..": "want N..", "url=x": `got "url"`, "host=a.test  depth=1..": "want host=",
	} {
		if _, err := policy.ParseTarget(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseTarget(%q) = %v, want %q", text, err, want)
		}
	}
}

func TestPaused(t *testing.T) {
	p := policy.Policy{Pause: targets(t, "host=a.test", "host=*.b.test", "match=/cal/", "host=c.test match=/x")}
	for _, c := range []struct {
		host, url string
		all, one  bool
	}{
		{"a.test", "http://a.test/", true, true},
		{frontier.CheckHost("a.test"), frontier.CheckURL("http://a.test/"), true, true},
		{"www.b.test", "http://www.b.test/", true, true},
		{"b.test", "http://b.test/", false, false},
		{"b.test", "http://b.test/cal/", false, true},
		{"c.test", "http://c.test/x", false, true},
		{"d.test", "http://d.test/x", false, false},
	} {
		if all, one := p.HostPaused(c.host), p.Paused(c.host, c.url); all != c.all || one != c.one {
			t.Errorf("%s: paused %t, its host %t; want %t, %t", c.url, one, all, c.one, c.all)
		}
	}
}

func targets(t *testing.T, texts ...string) (all []policy.Target) {
	for _, text := range texts {
		target, err := policy.ParseTarget(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, target)
	}
	return all
}
