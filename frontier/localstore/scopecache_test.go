package localstore

import "testing"

// TestScopeCacheDropsWhatIsStale: the cache must not remember a key as closed
// after a call of add, even if shut is called later.
func TestScopeCacheDropsWhatIsStale(t *testing.T) {
	t.Parallel()
	c := newScopeCache()
	_, known, before := c.look("a.test")
	if known {
		t.Fatal("an empty cache knows a key")
	}
	c.add("a.test")
	c.shut("a.test", before)
	if open, known, _ := c.look("a.test"); !open || !known {
		t.Errorf("after add, and shut from an earlier look: open %t, known %t, want both", open, known)
	}
	_, _, now := c.look("b.test")
	c.shut("b.test", now)
	if open, known, _ := c.look("b.test"); open || !known {
		t.Errorf("after shut: open %t, known %t, want known and not open", open, known)
	}
	c.add("b.test")
	if open, known, _ := c.look("b.test"); !open || !known {
		t.Errorf("after shut and add: open %t, known %t, want both", open, known)
	}
	if c.closed.Has("b.test") {
		t.Error("an open key is also remembered as closed")
	}
}
