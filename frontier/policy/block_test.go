package policy_test

import (
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
)

func TestBlocks(t *testing.T) {
	texts := []string{"since=1 url=http://a.test/x?q=1 2", "since=2 item=0123456789abcdef0123456789abcdef", "since=5 host=*.b.test", "since=4 match=/c$"}
	var rules []policy.Block
	for _, text := range texts {
		b, err := policy.ParseBlock(text)
		if err != nil || b.String() != text {
			t.Fatalf("%q: %v, %q", text, err, &b)
		}
		rules = append(rules, b)
	}
	blocks := policy.NewBlocks(rules)
	item := bloomstore.Fingerprint{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}
	for _, c := range []struct {
		host, url string
		item      bloomstore.Fingerprint
		want      uint64
	}{
		{"a.test", "http://a.test/x?q=1 2", bloomstore.Fingerprint{}, 1},
		{"a.test", "http://a.test/x", bloomstore.Fingerprint{}, 0},
		{frontier.CheckHost("a.test"), frontier.CheckURL("http://a.test/x?q=1 2"), bloomstore.Fingerprint{}, 1},
		{"a.test", "http://a.test/x", item, 2},
		{"a.test", "http://a.test/hashed", bloomstore.Fingerprint{}, 2},
		{"a.test", "http://a.test/hashed", bloomstore.Fingerprint{1}, 0},
		{"x.b.test", "http://x.b.test/c", bloomstore.Fingerprint{}, 5},
		{"b.test", "http://b.test/c", bloomstore.Fingerprint{}, 4},
		{"b.test", "http://b.test/cc/", bloomstore.Fingerprint{}, 0},
	} {
		blocks.Hash = func(url string) bloomstore.Fingerprint {
			if strings.HasSuffix(url, "hashed") {
				return item
			}
			return bloomstore.Fingerprint{2}
		}
		since := uint64(0)
		if rule := blocks.Find(c.host, c.url, c.item); rule != nil {
			since = rule.Since
		}
		if since != c.want {
			t.Errorf("%s of %s, %x: rule of version %d, want %d", c.url, c.host, c.item, since, c.want)
		}
	}
	if blocks.Last() != 5 || new(policy.Blocks).Find("a.test", "http://a.test/c", item) != nil {
		t.Errorf("the last version is %d, want 5, or the zero value selects something", blocks.Last())
	}
	for text, want := range map[string]string{
		"": "want since=", "url=http://a.test/": "want since=", "since=0 host=a": "want since=", "since=1": "selects nothing", "since=1 url=": "url is empty",
		"since=1 item=12": "32 hex digits", "since=1 depth=2..": "want only host", "since=1 match=(": "missing closing",
	} {
		if _, err := policy.ParseBlock(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseBlock(%q) = %v, want %q", text, err, want)
		}
	}
}
