package sets

import (
	"slices"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestSetsContainWhatWasAdded checks that each set reports a link as new once, that sets
// with the function Contains contain the link afterwards, and that no key is left in Redis
// at the end.
func TestSetsContainWhatWasAdded(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{})
	in, err := OpenRedis(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	postgres := servers.Postgres(t, servers.PostgresOptions{})
	for _, kind := range []Kind{
		Memory(), Local(t.TempDir()), RedisFilter(in), RedisStore(in), RedisSet(in, false), RedisSet(in, true),
		Postgres(postgres.DSN()),
	} {
		t.Run(kind.Name, func(t *testing.T) {
			set, err := kind.Open(t.Context(), Plan{Capacity: 1000, FPR: 1e-9})
			if err != nil {
				t.Fatal(err)
			}
			links := Range{First: 5, N: 100, Hosts: 10, Run: 4, Class: frontier.Exact}
			if known := contains(t, set, links); slices.Contains(known, true) {
				t.Errorf("Contains of an empty set = %v, want only false", known)
			}
			for round, want := range []bool{true, false} {
				added, err := set.Add(t.Context(), links)
				if err != nil || len(added) != links.Len() || slices.Contains(added, !want) {
					t.Errorf("Add, round %d: %v (%v), want only %t", round, added, err, want)
				}
			}
			if known := contains(t, set, links); slices.Contains(known, false) {
				t.Errorf("Contains after Add = %v, want only true", known)
			}
			if isStore := strings.HasSuffix(kind.Name, "store") && kind.Name != "pgstore"; (set.Store != nil) != isStore {
				t.Errorf("has a queue: %t, want %t", set.Store != nil, isStore)
			}
			if set.Used != nil {
				if used, err := set.Used(t.Context()); err != nil || used == (Used{}) {
					t.Errorf("Used = %+v, %v, want more than nothing", used, err)
				}
			}
			if err := set.End(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	if keys, err := server.Client().Keys(t.Context(), "*").Result(); err != nil || len(keys) > 0 {
		t.Errorf("keys are left in Redis: %q (%v)", keys, err)
	}
}

func contains(t *testing.T, set *Set, links Links) []bool {
	t.Helper()
	if set.Contains == nil {
		return nil
	}
	known, err := set.Contains(t.Context(), links)
	if err != nil {
		t.Fatal(err)
	}
	return known
}

// TestRangeOfLinks checks that all URLs of a Range are different and URLBytes long, and
// that the host changes after Run links. After the last host, the first host must come
// again.
func TestRangeOfLinks(t *testing.T) {
	links, seen := Range{N: 5000, Hosts: 1000, Run: 3}, make(map[string]bool)
	for i := range links.Len() {
		item := links.Offer(i)
		if seen[item.URL] || len(item.URL) != URLBytes {
			t.Fatalf("URL %d is %q with %d bytes, want %d; is a repetition: %t", i, item.URL, len(item.URL), URLBytes, seen[item.URL])
		}
		seen[item.URL] = true
	}
	if first, next, back := links.Offer(2).Host, links.Offer(3).Host, links.Offer(3000).Host; first == next || back != links.Offer(0).Host {
		t.Errorf("hosts of the links 2, 3 and 3000 are %s, %s and %s; want another at 3, and at 3000 that of link 0", first, next, back)
	}
}

func TestInfoOfRedis(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{})
	info, err := Info(t.Context(), server.Client())
	if err != nil || info["used_memory"] < 1000 || info["connected_clients"] < 1 {
		t.Errorf("Info = %v, %v, want the server's memory and a client", info, err)
	}
}
