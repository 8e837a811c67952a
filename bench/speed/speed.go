// Package speed measures how many links sets and stores decide in a second, and
// how many pages a frontier hands out and completes, how long callers wait for
// it, and what it takes of processors, wire and log.
//
// It owns the workloads and the counting. It promises nothing: figures of two
// machines, or of one that others use too, do not compare; the processor time
// for each item nearly does.
package speed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/bloomfrontier/crawler/bench/agenda"
	"github.com/bloomfrontier/crawler/bench/report"
	"github.com/bloomfrontier/crawler/frontier"
)

// Config says what to measure. Its zero value is nothing: there are no subjects.
type Config struct {
	Keys     uint64 // links that a set is made for, and offered at most; 0 means a million
	Subjects []Subject
}

// Subject is a set of links, or a store.
type Subject struct {
	Name  string
	Queue bool // it is a store: Opened has one
	// Batches is how many links it is offered in a call; nil means 4 and 100.
	Batches []uint64
	Open    func(ctx context.Context, keys uint64) (*Opened, error)
}

// Opened is a subject, fresh and empty.
type Opened struct {
	// Offer offers the n links from the first on and returns how many of them it
	// did not know.
	Offer func(ctx context.Context, first, n uint64) (added uint64, err error)
	Store frontier.Store                            // nil: it has no queue
	Used  func(ctx context.Context) (Server, error) // nil: there is no server
	Close func(ctx context.Context) error
}

// Server is what a server used since it was started.
type Server struct {
	CPU  time.Duration // 0: it does not say
	Wire uint64        // bytes, both ways; 0: it does not say
	Log  uint64        // bytes; 0: it keeps none
}

// What is measured of each subject: links in a call, or on a page, and callers
// at once.
var (
	pageLinks = []uint64{4, 100}
	callers   = []int{1, 4, 16}
)

// stepCost is what a step is worth of the budget: it takes what it gets.
const stepCost = 4 * time.Second

// used are the columns that say what an item took.
var used = []string{"p50 ms", "p99 ms", "own µs", "server µs", "wire B", "log B"}

const units = `p50 and p99 are of the calls. The other columns are for each %s: processor time of this process, which has
the callers in it, and of the server, bytes on the wire both ways, and of the server's log.`

// Seen returns the steps that measure how links are decided, and their section.
func Seen(config Config) (*report.Section, []*agenda.Step) {
	config.Keys = cmp.Or(config.Keys, 1_000_000)
	s := report.NewSection("seen", "Links a second", `Links are offered to fresh sets in calls of 4 and of 100 (to Postgres of 500, too) by 1, 4 and 16 callers: first new ones, then
those again, until there are no more of them or the time is over. Stores queue what is new and have it on disk, or in
Redis, before they answer; they remember nothing on their own of what Redis told them. Postgres decides and has it on
disk; marking what was queued and finished comes on top, and it says of itself how long its log is, not what it took. `+fmt.Sprintf(units, "link"))
	table := s.Table("Offers", append([]string{"set", "callers", "links a call", "links", "offered", "links/s"}, used...)...)
	var steps []*agenda.Step
	for _, subject := range config.Subjects {
		for _, n := range callers {
			steps = append(steps, step(s, subject, n, func(ctx context.Context, turn *agenda.Turn) error {
				return seen(ctx, turn, table, subject, n, config.Keys)
			}))
		}
	}
	return s, steps
}

// Frontier returns the steps that measure how pages are completed, and their
// section.
func Frontier(config Config) (*report.Section, []*agenda.Step) {
	config.Keys = cmp.Or(config.Keys, 1_000_000)
	s := report.NewSection("frontier", "Pages through the queue", `Callers lease a host without delay, complete its items one by one, each as a page with 4 or 100 links, of
which one is new and the others known, and give it back: the queue stays as long as it is. A call is the completion of a
page. No page is fetched. `+fmt.Sprintf(units, "page"))
	table := s.Table("Lease and complete", append([]string{"store", "callers", "links a page", "pages", "pages/s"}, used...)...)
	var steps []*agenda.Step
	for _, subject := range config.Subjects {
		if !subject.Queue {
			continue
		}
		for _, n := range callers {
			steps = append(steps, step(s, subject, n, func(ctx context.Context, turn *agenda.Turn) error {
				return pages(ctx, turn, table, subject, n, config.Keys)
			}))
		}
	}
	return s, steps
}

func step(s *report.Section, subject Subject, n int, run func(context.Context, *agenda.Turn) error) *agenda.Step {
	return &agenda.Step{Section: s, Name: fmt.Sprintf("%s, %d callers", subject.Name, n), Cost: stepCost, Run: run}
}

// seen measures one subject with n callers.
func seen(ctx context.Context, turn *agenda.Turn, table *report.Table, subject Subject, n int, keys uint64) (err error) {
	o, err := subject.Open(ctx, keys)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close(context.WithoutCancel(ctx))) }()
	var rates [2]float64 // of the last batch: new, known
	batches := subject.Batches
	if batches == nil {
		batches = pageLinks
	}
	from, share := uint64(0), keys/uint64(len(batches))
	for i, batch := range batches {
		left := 2*len(batches) - 2*i
		fresh := o.measure(ctx, n, max(share/batch, 1), turn.Left()/time.Duration(left), func(ctx context.Context, call uint64, timed timer) (uint64, error) {
			return batch, timed(func() error {
				_, err := o.Offer(ctx, from+call*batch, batch)
				return err
			})
		})
		turn.Progress(1 - float64(left-1)/float64(2*len(batches)))
		again := o.measure(ctx, n, max(share/batch, 1), turn.Left()/time.Duration(left-1), func(ctx context.Context, call uint64, timed timer) (uint64, error) {
			return batch, timed(func() error {
				added, err := o.Offer(ctx, from+call%max(fresh.calls, 1)*batch, batch)
				if err == nil && added > 0 {
					return fmt.Errorf("%d of %d links that were added are new again", added, batch)
				}
				return err
			})
		})
		turn.Progress(1 - float64(left-2)/float64(2*len(batches)))
		from += fresh.items
		for what, m := range []*measured{fresh, again} {
			if m.err != nil {
				return m.err
			}
			rates[what] = m.rate()
			table.Row(append([]report.Cell{report.Words(subject.Name), report.Count(uint64(n)), report.Count(batch),
				report.Words([]string{"new", "known"}[what]), report.Count(m.items), report.Fixed(m.rate(), 0)}, m.cells()...)...)
		}
	}
	turn.Found("%.3g new and %.3g known links/s in calls of %d", rates[0], rates[1], batches[len(batches)-1])
	return nil
}

// cells are the columns of used.
func (m *measured) cells() []report.Cell {
	each := func(sum float64, decimals int) report.Cell {
		if m.items == 0 || math.IsNaN(sum) {
			return report.Words("–")
		}
		return report.Fixed(sum/float64(m.items), decimals)
	}
	server, wire, log := math.NaN(), math.NaN(), math.NaN()
	if m.server != nil {
		if m.server.CPU > 0 {
			server = float64(m.server.CPU.Nanoseconds()) / 1e3
		}
		if m.server.Wire > 0 {
			wire = float64(m.server.Wire)
		}
		if m.server.Log > 0 {
			log = float64(m.server.Log)
		}
	}
	return []report.Cell{
		report.Number(m.quantile(0.5), 3), report.Number(m.quantile(0.99), 3),
		each(float64(m.own.Nanoseconds())/1e3, 2), each(server, 2), each(wire, 0), each(log, 0),
	}
}
