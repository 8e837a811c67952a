// Package groupcommit commits the items of many callers in groups. While one group is
// being committed, the items that arrive form the next group. In this way, many callers
// share the cost of one round trip or one sync. No caller waits for others to arrive.
//
// It owns the items that wait, the limit of a group, and the goroutines that commit. It
// does not know what an item is or whether an item failed: the result of an item is part
// of the item.
package groupcommit

import (
	"context"
	"slices"
	"sync"
)

// Config configures a Queue. Commit and Go are required.
type Config[T any] struct {
	// Commit commits the items of one group, in the order in which they were added,
	// and stores a result in each. It must not keep the slice.
	Commit func(ctx context.Context, items []T)
	// Go calls run in a new goroutine and returns. The context that Go passes to run is
	// for all commits of this goroutine. If Go returns an error, it must not call run.
	// All waiting items then fail, unless another goroutine is committing.
	Go func(run func(ctx context.Context)) error
	// MaxSize limits a group: once the sizes of its items add up to MaxSize or more,
	// further items join the next group. A single item can be larger. 0 means no limit.
	MaxSize int
	// Parallel is the largest number of groups that are committed at the same time; 0
	// means 1. While one group is being committed, the commit of the next group
	// begins only if the next group has reached MaxSize.
	Parallel int
}

// Queue groups items. It has no goroutine while there are no items. It is safe for
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
	err   error // why the group was not committed
}

// Wait waits until the group is committed and returns nil; the items then have their
// results. If the group cannot be committed, Wait returns the error of Config.Go. If ctx
// ends first, Wait returns the cause of ctx. The group is still committed later, and the
// caller must not use its item until then.
func (g *Group[T]) Wait(ctx context.Context) error {
	select {
	case <-g.done:
		return g.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Done returns a channel that is closed when the group is committed, or cannot be.
func (g *Group[T]) Done() <-chan struct{} { return g.done }

// Add adds an item to the last group that waits, or to a new group if the last one is
// full. It returns the item's group. It does not block.
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

// start starts a goroutine that commits. If that fails and no other goroutine is
// running, all groups that wait fail. The caller must hold q.mu.
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

// next removes and returns the oldest group that waits. If there is none, it returns nil,
// and the goroutine that called next must end.
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

// Len returns how many items wait. It does not count those that are being committed.
func (q *Queue[T]) Len() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, g := range q.waiting {
		n += len(g.items)
	}
	return n
}
