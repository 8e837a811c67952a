package fetcher

import (
	"slices"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/record"
)

// Recent is what a worker remembers of a record that it has written lately.
type Recent struct {
	Time    time.Time `json:"time"`
	URL     string    `json:"url"` // at most the first 300 bytes
	Outcome string    `json:"outcome"`
	Status  int       `json:"status,omitempty"`
	Title   string    `json:"title,omitempty"` // at most the first 200 bytes, as the site sent it
	Bytes   int64     `json:"bytes"`
	Error   string    `json:"error,omitempty"`
}

// mostRecent is the number of records that a worker remembers.
const mostRecent = 20

// noteRecent remembers a record.
func (t *tally) noteRecent(r *record.Record) {
	cut := func(text string, most int) string { return strings.ToValidUTF8(text[:min(len(text), most)], "") }
	t.mu.Lock()
	defer t.mu.Unlock()
	t.recent[t.written%mostRecent] = Recent{
		Time: r.FetchedAt, URL: cut(r.URL, 300), Outcome: r.Outcome, Status: r.Status, Title: cut(r.Title, 200), Bytes: r.Bytes, Error: clip(r.Error),
	}
	t.written++
}

// Recent returns the records that this worker has written last, newest first, at most 20.
func (c *Crawl) Recent() []Recent {
	t := &c.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(t.written, mostRecent)
	var all []Recent
	for i := t.written - n; i < t.written; i++ {
		all = append(all, t.recent[i%mostRecent])
	}
	slices.Reverse(all)
	return all
}
