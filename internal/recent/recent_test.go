package recent

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// TestLatestKeysAreKept: after any sequence of calls, each of the n most recently used keys is
// in the set, unless it was removed. The number n is the argument of New. The set has no key
// that was removed or never added.
func TestLatestKeysAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 6).Draw(t, "most")
		keys := New(most)
		var latest []string          // the last one first; includes removed keys
		may := make(map[string]bool) // the keys that were added and not removed
		key := rapid.StringMatching(`[a-j]`)
		met := func(k string) {
			if i := slices.Index(latest, k); i >= 0 {
				latest = slices.Delete(latest, i, i+1)
			}
			latest = slices.Insert(latest, 0, k)
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				k := key.Draw(t, "key")
				keys.Add(k)
				met(k)
				may[k] = true
			},
			"has": func(t *rapid.T) {
				k := key.Draw(t, "key")
				has := keys.Has(k)
				if has && !may[k] {
					t.Fatalf("Has(%s) = true, but it was removed or never added", k)
				}
				if i := slices.Index(latest, k); may[k] && i < most && !has {
					t.Fatalf("Has(%s) = false, but it is number %d of the latest keys, of which %d are kept", k, i+1, most)
				}
				if has {
					met(k)
				}
			},
			"remove": func(t *rapid.T) {
				k := key.Draw(t, "key")
				keys.Remove(k)
				delete(may, k)
			},
			"": func(t *rapid.T) {
				if n := len(keys.young) + len(keys.old); n > 2*most {
					t.Fatalf("%d keys, want at most %d", n, 2*most)
				}
			},
		})
	})
}

// TestConcurrentUse: a goroutine finds the keys that it added while others use the set.
func TestConcurrentUse(t *testing.T) {
	const each, callers = 100, 8
	keys := New(2 * each * callers)
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			for i := range each {
				key := fmt.Sprint(caller, "/", i)
				keys.Add(key)
				keys.Remove(fmt.Sprint(caller, "-", i))
				if !keys.Has(key) {
					t.Errorf("Has(%s) = false after Add", key)
				}
			}
		})
	}
	group.Wait()
}

// BenchmarkHas looks up keys. Nine in ten of them are in the set.
func BenchmarkHas(b *testing.B) {
	const n = 100_000
	keys, names := New(n), make([]string, n)
	for i := range names {
		names[i] = "host-" + strconv.Itoa(i) + ".example.org"
		if i%10 > 0 {
			keys.Add(names[i])
		}
	}
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			keys.Has(names[i%n])
		}
	})
}
