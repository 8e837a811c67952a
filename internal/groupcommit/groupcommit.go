// Package groupcommit carries out what many callers ask for in groups. While one
// group is committed, the items that arrive form the next one, so that many
// callers share the cost of one round trip or one sync. No caller waits for
// others to arrive.
//
// It owns the items that wait, the bound of a group, and the goroutines that
// commit. It does not know what an item is or when it has failed: the result of
// an item is part of the item.
package groupcommit

import (
	"context"
	"slices"
	"sync"
)

// Config says how a Queue commits. Commit and Go are required.
type Config[T any] struct {
	// Commit carries out the items of one group, in the order in which they were
	// added, and stores a result in each. It must not keep the slice.
	Commit func(ctx context.Context, items []T)
	// Go calls run in a new goroutine, with the context of all its commits. If it
	// returns an error it has not called run, and the items that wait fail.
	Go func(run func(ctx context.Context)) error
	// MaxSize bounds a group: once the sizes of its items add up to MaxSize,
	// further items join the next group. One item may be larger. 0 means no bound.
	MaxSize int
	// Parallel is how many groups may be committed at the same time; 0 means 1.
	// While any is, another one only begins if it has reached MaxSize.
	Parallel int
}

// Queue groups items. It has no goroutine while nothing waits. It is safe for
// concurrent use.
type Queue[T any] struct {
	config Config[T]

	mu      sync.Mutex
	waiting []*Group[T] // oldest first; the last one takes items until it is full
	running int         // goroutines that commit
}

// New returns an empty Queue.
func New[T any](config Config[T]) *Queue[T] {
	config.Parallel = max(config.Parallel, 1)
	return &Queue[T]{config: config}
}

// Group is a number of items that are committed together.
type Group[T any] struct {
	items []T
	size  int
	done  chan struct{}
	err   error // why it was not committed
}

// Wait returns nil when the group is committed; its items have their results
// then. An error is the cause of ctx, if that ends before, or the one of
// Config.Go. The end of ctx does not take an item out of its group: it is
// committed all the same, and the caller must not use it until then.
func (g *Group[T]) Wait(ctx context.Context) error {
	select {
	case <-g.done:
		return g.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Add puts an item into the group that is committed next, if it has room, and
// returns the item's group. It does not block.
func (q *Queue[T]) Add(item T, size int) *Group[T] {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.waiting); n == 0 || q.full(q.waiting[n-1]) {
		q.waiting = append(q.waiting, &Group[T]{done: make(chan struct{})})
	}
	g := q.waiting[len(q.waiting)-1]
	g.items, g.size = append(g.items, item), g.size+size
	if q.running == 0 || q.running < q.config.Parallel && q.full(q.waiting[0]) {
		q.start()
	}
	return g
}

func (q *Queue[T]) full(g *Group[T]) bool { return q.config.MaxSize > 0 && g.size >= q.config.MaxSize }

// start starts a goroutine that commits. If there is none and none can be started,
// what waits fails. q.mu is held.
func (q *Queue[T]) start() {
	err := q.config.Go(q.run)
	if err == nil {
		q.running++
	}
	if q.running > 0 {
		return
	}
	for _, g := range q.waiting {
		g.err = err
		close(g.done)
	}
	q.waiting = nil
}

// run commits groups until none waits.
func (q *Queue[T]) run(ctx context.Context) {
	for g := q.next(); g != nil; g = q.next() {
		q.config.Commit(ctx, g.items)
		close(g.done)
	}
}

// next takes the oldest group. Without one it returns nil, and the goroutine that
// called it has to end.
func (q *Queue[T]) next() *Group[T] {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.running--
		return nil
	}
	g := q.waiting[0]
	q.waiting = slices.Delete(q.waiting, 0, 1)
	return g
}

// Len returns how many items wait, without those that are being committed.
func (q *Queue[T]) Len() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, g := range q.waiting {
		n += len(g.items)
	}
	return n
}
