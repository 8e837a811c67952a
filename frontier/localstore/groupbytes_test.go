package localstore

import (
	"sync"
	"testing"
)

// TestBytesBoundGroup: calls that hold much memory are not committed all at once.
func TestBytesBoundGroup(t *testing.T) {
	t.Parallel()
	s := openMem(t)
	const ops, bytes = 40, 1 << 20
	block, blocked := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	submit := func(bytes int64, change func(*group) error) {
		all.Go(func() {
			if err := s.submit(t.Context(), &op{bytes: bytes, change: change}); err != nil {
				t.Error(err)
			}
		})
	}
	submit(0, func(*group) error { close(blocked); <-block; return nil })
	<-blocked
	sizes := make(map[*group]int64) // only the committer uses it
	for range ops {
		submit(bytes, func(g *group) error { sizes[g] += bytes; return nil })
	}
	close(block)
	all.Wait()
	total := int64(0)
	for _, size := range sizes {
		if total += size; size > maxGroupBytes+bytes {
			t.Errorf("one group holds %d bytes, want at most %d", size, maxGroupBytes+bytes)
		}
	}
	if total != ops*bytes {
		t.Errorf("the groups hold %d bytes, want %d", total, ops*bytes)
	}
}
