package redisstore

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestKeysAreDescribed compares docs/reference/redis-keys.md with the keys that
// a crawl leaves in Redis: each key with its type, and each field of the
// counters.
func TestKeysAreDescribed(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/redis-keys.md")
	if err != nil {
		t.Fatal(err)
	}
	types := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\* (`[^(\n]*) \\((string|hash|list|set|sorted set)\\):").FindAllStringSubmatch(string(text), -1) {
		for _, key := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(row[1], -1) {
			types[key[1]] = row[2]
		}
	}
	s := leaveEverything(t)
	keys, err := allKeys(t, s, "")
	if err != nil {
		t.Fatal(err)
	}
	shape := strings.NewReplacer("a.test", "HOST", "b.test", "HOST", "x.c.test", "HOST", "y.c.test", "HOST", "c.test", "SITE", "{test}", "{NAME}")
	tag, segment, budget := regexp.MustCompile(`^\{\w{6}:\d+\}`), regexp.MustCompile(`^Tf\d+\.\d+$`), regexp.MustCompile(`^T([bc])[0-9a-f]{2}$`)
	met := make(map[string]bool)
	for _, key := range keys {
		described := tag.ReplaceAllString(shape.Replace(key), "T")
		described = segment.ReplaceAllString(budget.ReplaceAllString(described, "T${1}00"), "Tf0.0")
		met[described] = true
		got := strings.Replace(s.client.Type(t.Context(), key).Val(), "zset", "sorted set", 1)
		if want := types[described]; want != got {
			t.Errorf("key %q is a %s, docs/reference/redis-keys.md says %q for the keys %q", key, got, want, described)
		}
	}
	for _, one := range []string{"Tf", "Tf0.0", "Td", "Tl", "Tz", "Tx", "TF", "Tb00", "Tc00", "T0HOST", "T1HOST", "TaHOST", "ThHOST", "TeHOST", "TpSITE", "TqSITE",
		"crawler:{NAME}", "crawler:{NAME}:scope", "crawler:{NAME}:policy"} {
		if !met[one] {
			t.Errorf("the crawl left no key like %q: the test does not see whether it is described", one)
		}
	}
	numbered, reasoned := regexp.MustCompile(`^(a|keys)\d+$`), regexp.MustCompile(`^(r|o):.*$`)
	for _, p := range s.parts {
		for field := range s.client.HGetAll(t.Context(), p.meta).Val() {
			name := reasoned.ReplaceAllStringFunc(numbered.ReplaceAllString(field, "${1}1"), func(f string) string {
				return f[:2] + map[byte]string{'r': "REASON", 'o': "OUTCOME"}[f[0]]
			})
			if !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("docs/reference/redis-keys.md does not describe the field %q", name)
			}
		}
	}
}

// leaveEverything makes a crawl in which every key exists.
func leaveEverything(t *testing.T) *Store {
	cfg := exactConfig(servers.Redis(t, servers.RedisOptions{}))
	one := 1.0
	hosts := policy.NewHosts(policy.Override{Pattern: "*.c.test", Delay: time.Second, DomainRate: &one})
	cfg.Policy = policy.NewLive(&policy.Policy{MaxPerHost: 60, Hosts: hosts}).Load
	s := openStore(t, cfg)
	if err := s.Admit(t.Context(), []string{"a.test"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reserve(t.Context(), []frontier.QuotaKey{{Group: "GROUP", Key: "a.test"}}, 1); err != nil {
		t.Fatal(err)
	}
	if added, err := s.AddVersion(t.Context(), Version{1, "{}", "{}"}, 0); err != nil || !added {
		t.Fatal(added, err)
	}
	if err := s.Pause(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if err := s.Pause(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	mustAdd(t, s, append(testPages("x.c.test", 0, 1), testPages("y.c.test", 0, 1)...))
	if _, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(3)}); err != nil {
		t.Fatal(err)
	}
	pages := append(testPages("a.test", 0, 40), testPages("b.test", 0, 40)...)
	for i := range pages {
		switch i % 40 {
		case 0:
			pages[i].Priority = frontier.PrioritySeed
		case 1:
			pages[i].Delay = time.Minute
		case 2:
			pages[i].Class = frontier.Exact
		}
	}
	mustAdd(t, s, pages)
	mustAdd(t, s, pages[:10])
	for _, kind := range []exact.Kind{exact.New, exact.Promoted, exact.Again} {
		mustAddDecided(t, s, kind, 0, pages[9+kind:10+kind])
	}
	for _, end := range []bool{true, false} {
		grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1), InFlight: 2})
		if err != nil || len(grant.Leases) != 1 {
			t.Fatalf("Lease = %+v, %v, want one", grant, err)
		}
		l := grant.Leases[0]
		err = s.Complete(t.Context(), l.ID, []frontier.Completion{
			{Item: l.Items[1].Fingerprint, Outcome: frontier.OK, Page: true, Refused: []frontier.Refusal{{Reason: frontier.ReasonScope, Count: 1}}},
			{Item: l.Items[2].Fingerprint, Outcome: frontier.Network},
			{Item: l.Items[3].Fingerprint, Disposition: frontier.Retry, RetryIn: time.Second},
			{Item: l.Items[4].Fingerprint, Disposition: frontier.GiveBack},
		}, frontier.HostUpdate{Blob: []byte("robots"), End: end})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}
