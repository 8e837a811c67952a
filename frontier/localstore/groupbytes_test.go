package localstore

import (
	"sync"
	"testing"
	"time"
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

// TestReadsGoFirst: a call that only reads does not wait for all the changes that wait.
func TestReadsGoFirst(t *testing.T) {
	t.Parallel()
	s := openMem(t)
	const changes = 20 * maxGroup
	block, blocked := make(chan struct{}), make(chan struct{})
	groups, before := make(map[*group]bool), 0 // only the committer uses them
	var all sync.WaitGroup
	call := func(do func() error) {
		all.Go(func() {
			if err := do(); err != nil {
				t.Error(err)
			}
		})
	}
	change := func(change func(*group) error) {
		call(func() error { return s.submit(t.Context(), &op{change: change}) })
	}
	change(func(*group) error { close(blocked); <-block; return nil })
	<-blocked
	for range changes {
		change(func(g *group) error { groups[g] = true; return nil })
	}
	for len(s.ops) < maxGroup {
		time.Sleep(time.Millisecond)
	}
	call(func() error { return s.ask(t.Context(), func(*group) { before = len(groups) }) })
	time.Sleep(20 * time.Millisecond) // until most of them wait
	close(block)
	all.Wait()
	if before > 3 {
		t.Errorf("a read came with group %d of %d, want one of the first 3", before, len(groups))
	}
}
