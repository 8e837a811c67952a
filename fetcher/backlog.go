package fetcher

import (
	"context"
	"sync"
	"unsafe"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/budget"
)

// maxBacklog limits the bytes that wait for the store: while there are more, no request
// starts. Some thousand pages with their links fit into it, or a few pages that consist
// of links. Requests under way can still exceed the limit.
const maxBacklog = 64 << 20

// maxWaiting is how many visits may wait for memory before no more requests start. Their answers
// would have to wait too, and their time could be over meanwhile.
const maxWaiting = 16

// newBacklog returns an empty backlog for a worker with this Config.Memory; 0 means no limit. At
// most a quarter of the memory may wait, so that answers that are under way find memory.
func newBacklog(memory int64) backlog {
	if memory == 0 {
		return backlog{most: maxBacklog}
	}
	return backlog{most: min(maxBacklog, memory/4)}
}

// backlog counts the bytes of pages that wait for the store to complete them. While there
// are more than most, or many visits wait for memory, its barrier is shut, so that no request starts. Thus an outage
// of the store does not fill the memory.
type backlog struct {
	most    int64
	mu      sync.Mutex
	bytes   int64
	waiting int // visits that wait for memory
	barrier
}

func (b *backlog) add(bytes int64) { b.change(bytes, 0) }

func (b *backlog) change(bytes int64, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes += bytes
	b.waiting += waiting
	b.set(b.bytes > b.most || b.waiting > maxWaiting)
}

// isFull reports whether the pages that wait for the store prevent requests.
func (b *backlog) isFull() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes > b.most
}

// grow adds n bytes to a share, as budget.Share.Grow does. If it must wait, it counts as a visit
// that waits for memory.
func (b *backlog) grow(ctx context.Context, share *budget.Share, n int64) error {
	if share.TryGrow(n) {
		return nil
	}
	b.change(0, 1)
	defer b.change(0, -1)
	return share.Grow(ctx, n)
}

// weight returns about how many bytes a completion holds until the store has written
// it.
func (v *visited) weight(done *frontier.Completion) int64 {
	const record = 1 << 10
	n := record + v.packed + int64(v.data) + int64(cap(done.Links))*int64(unsafe.Sizeof(frontier.Offer{}))
	for i := range done.Links {
		n += int64(len(done.Links[i].URL))
	}
	n += v.edgeBytes + int64(cap(v.refused))*int64(unsafe.Sizeof(Refused{}))
	for i := range v.refused {
		n += int64(len(v.refused[i].URL))
	}
	return n
}
