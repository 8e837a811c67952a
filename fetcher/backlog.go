package fetcher

import (
	"sync"
	"unsafe"

	"github.com/bloomfrontier/crawler/frontier"
)

// maxBacklog limits the bytes that wait for the store: while there are more, no request
// starts. Some thousand pages with their links fit into it, or a few pages that consist
// of links. Requests under way can still exceed the limit.
const maxBacklog = 64 << 20

// backlog counts the bytes of pages that wait for the store to complete them. While there
// are more than maxBacklog, its barrier is shut, so that no request starts. Thus an outage
// of the store does not fill the memory. The zero value is an empty backlog.
type backlog struct {
	mu    sync.Mutex
	bytes int64
	barrier
}

func (b *backlog) add(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes += bytes
	b.set(b.bytes > maxBacklog)
}

// weight returns about how many bytes a completion holds until the store has written
// it.
func (v *visited) weight(done *frontier.Completion) int64 {
	const record = 1 << 10
	n := record + v.packed + int64(v.data) + int64(cap(done.Links))*int64(unsafe.Sizeof(frontier.Offer{}))
	for i := range done.Links {
		n += int64(len(done.Links[i].URL))
	}
	n += int64(cap(v.refused)) * int64(unsafe.Sizeof(Refused{}))
	for i := range v.refused {
		n += int64(len(v.refused[i].URL))
	}
	return n
}
