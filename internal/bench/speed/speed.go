// Package speed measures two rates. The first is the number of links per second that a set
// or store can take: for each link it decides whether the link is new. The second is the
// number of pages per second that go through a crawl's queue: each page is leased and
// completed. The package also measures how long callers wait, and how much processor time
// of a server, network traffic and server log the calls take.
//
// It owns the workloads and the counting. Package sets opens the sets. Package speed
// checks no promise (docs/design/promises.md), because rates of different or busy
// machines cannot be compared. The processor time per item hardly depends on other
// load.
package speed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bloomfrontier/crawler/internal/bench/report"
	"github.com/bloomfrontier/crawler/internal/bench/sets"
)

// Parameters of the workloads: links per call or page, and concurrent callers.
var (
	pageLinks = []uint64{4, 100}
	callers   = []int{1, 4, sets.Callers}
)

// links returns n links with consecutive numbers. The argument first is the number of
// the first link. As on a page, most neighbouring links have the same host.
func links(first, n uint64) sets.Range { return sets.Range{First: first, N: n, Hosts: 1000, Run: 32} }

// used has the headings of the last columns: the waiting times of calls, and the resources
// per item.
var used = []string{"p50 ms", "p99 ms", "server µs", "wire B", "log B"}

const units = `Each caller makes some calls before the time begins, so that the time of connecting does not count. p50 and p99 are
percentiles of the time of a call. The other columns are for each %s: the processor time of the server, the bytes sent to
the server and received from it ("wire B"), and the bytes of the server's log.`

// Seen returns the section with the steps that measure how fast sets decide whether links are
// new. The argument keys is the capacity of each set, and the maximum number of offered links;
// 0 means a million.
func Seen(keys uint64, kinds []sets.Kind) *report.Section {
	s := &report.Section{Name: "seen", Title: "Links a second", About: `1, 4 and 16 callers offer links to a new set, in calls of 4 and of 100 links.
First all links are new, then the same links are offered again, until none is left or the time is over. The stores queue
new links and have them on disk, or in Redis, before they answer. No answer of Redis comes from a cache in the process.
Postgres decides which links are new, and has them on disk before it answers. To mark URLs as queued and finished would
take additional time, which is not measured. Postgres reports the length of its log, but not its processor time.

SADD is a common alternative: a SET of URLs, used in pipelines. It remembers links and queues nothing.

` + fmt.Sprintf(units, "link")}
	steps(s, seen, keys, kinds, s.Table("Offers", append([]string{"set", "callers", "links a call", "links", "offered", "links/s"}, used...)...))
	return s
}

// Frontier returns the section with the steps that measure how fast pages are leased and
// completed. Each set must have a queue. The argument keys is that of Seen.
func Frontier(keys uint64, kinds []sets.Kind) *report.Section {
	s := &report.Section{Name: "frontier", Title: "Pages through the queue", About: `The hosts have no delay. Each caller leases a host, completes its items one by one, and gives the host back. Each item
is completed as a page with 4 or 100 links, of which one is new and the others are known. So the length of the queue does
not change. A call is the completion of a page. No page is fetched.

` + fmt.Sprintf(units, "page")}
	steps(s, pages, keys, kinds, s.Table("Lease and complete", append([]string{"store", "callers", "links a page", "pages", "pages/s"}, used...)...))
	return s
}

// workload measures a set with n callers.
type workload func(ctx context.Context, turn *report.Turn, table *report.Table, set *sets.Set, kind sets.Kind, n int, keys uint64) error

// steps adds the steps of a workload for each set.
func steps(s *report.Section, load workload, keys uint64, kinds []sets.Kind, table *report.Table) {
	keys = cmp.Or(keys, 1_000_000)
	for _, kind := range kinds {
		for _, n := range callers {
			s.Step(fmt.Sprintf("%s, %d callers", kind.Name, n), func(ctx context.Context, turn *report.Turn) (err error) {
				set, err := kind.Open(ctx, sets.Plan{Capacity: keys + waiting})
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, set.End(ctx)) }()
				return load(ctx, turn, table, set, kind, n, keys)
			})
		}
	}
}

// seen is a workload that offers new links, and then offers the same links again.
func seen(ctx context.Context, turn *report.Turn, table *report.Table, set *sets.Set, kind sets.Kind, n int, keys uint64) error {
	offer := func(ctx context.Context, first, batch uint64) (added uint64, err error) {
		answers, err := set.Add(ctx, links(first, batch))
		for _, isNew := range answers {
			if isNew {
				added++
			}
		}
		return added, err
	}
	var from uint64  // number of the first link that was not offered yet
	beyond := keys   // links from this number on are for warming up
	var fresh uint64 // number of calls with new links of this batch size
	var rates []float64
	parts := 2 * len(pageLinks)
	for part := range parts {
		batch, known := pageLinks[part/2], part%2 == 1
		m := measure(ctx, set, n, max(keys/uint64(len(pageLinks))/batch, 1), turn.Left()/time.Duration(parts-part), func(ctx context.Context, call uint64) error {
			_, err := offer(ctx, beyond+call*batch, batch)
			return err
		}, func(ctx context.Context, call uint64, timed timer) (uint64, error) {
			return batch, timed(func() error {
				if known {
					call %= fresh
				}
				added, err := offer(ctx, from+call*batch, batch)
				if err == nil && known && added > 0 {
					return fmt.Errorf("%d of %d links that were added are new again", added, batch)
				}
				return err
			})
		})
		if m.err != nil {
			return m.err
		}
		beyond += warmCalls * uint64(n) * batch
		if fresh = m.calls; known {
			from += fresh * batch
		}
		rates = append(rates, m.rate())
		m.row(table, kind, n, batch, report.Words([]string{"new", "known"}[part%2]))
	}
	turn.Found("%.3g new and %.3g known links/s in calls of %d", rates[parts-2], rates[parts-1], pageLinks[len(pageLinks)-1])
	return nil
}

// row adds the row of a workload to table. The cells are the set, the number of callers
// and the batch size, then the cells extra, then the results.
func (m *measured) row(table *report.Table, kind sets.Kind, n int, batch uint64, extra ...report.Cell) {
	each := func(sum float64, decimals int) report.Cell {
		if m.items == 0 || sum == 0 {
			return report.Words("–")
		}
		return report.Fixed(sum/float64(m.items), decimals)
	}
	cells := append([]report.Cell{report.Words(kind.Name), report.Count(uint64(n)), report.Count(batch)}, extra...)
	table.Row(append(cells, report.Count(m.items), report.Fixed(m.rate(), 0), report.Number(m.quantile(0.5), 3), report.Number(m.quantile(0.99), 3),
		each(float64(m.server.CPU.Nanoseconds())/1e3, 2), each(m.server.Wire, 0), each(m.server.Log, 0))...)
}
