package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/redisbits"
	"github.com/bloomfrontier/crawler/frontier"
)

// pending is an ask that only the partition's script can answer, with what the
// filter said.
type pending struct {
	ask  *ask
	test *redisbits.Ask
}

// maxAddItems bounds the items of one call of add.lua.
const maxAddItems = 128

// add has the scripts decide on what is unsure, partition by partition.
func (g *group) add(ctx context.Context, ep *epoch) {
	g.chain()
	slices.SortStableFunc(g.unsure, func(a, b pending) int {
		return cmp.Or(cmp.Compare(a.ask.part.number, b.ask.part.number), strings.Compare(a.ask.item.Host, b.ask.item.Host))
	})
	var calls []*call
	var of [][]pending
	for rest := g.unsure; len(rest) > 0; {
		n, first := 1, rest[0]
		for n < len(rest) && n < maxAddItems && rest[n].ask.part == first.ask.part && rest[n].test.Layers() == first.test.Layers() {
			n++
		}
		calls, of = append(calls, g.call(rest[:n], ep)), append(of, rest[:n])
		rest = rest[n:]
	}
	if len(calls) == 0 {
		return
	}
	g.s.runOn(ctx, g.node, calls)
	for i, c := range calls {
		if err := g.apply(ctx, c, of[i]); err != nil {
			for _, item := range of[i] {
				item.ask.fail(err)
			}
		}
	}
}

// chain lets those of unsure that are one URL wait for the first of them.
func (g *group) chain() {
	first := make(map[bloomstore.Fingerprint]*ask, len(g.unsure))
	g.unsure = slices.DeleteFunc(g.unsure, func(item pending) bool {
		a := item.ask
		last, known := first[a.print]
		first[a.print] = a
		if known {
			last.next = a
		}
		return known
	})
}

// call makes the call of add.lua for items of one partition, ordered by host,
// whose filter was read with the same layers.
func (g *group) call(items []pending, ep *epoch) *call {
	b := callBuilder{s: g.s, part: items[0].ask.part}
	p := b.part
	b.keys = append(b.keys, p.meta, p.due, p.leased, p.delayed, p.exact, p.shadow)
	newest := items[0].test
	b.args = append(b.args, newest.Identity(), newest.Capacity(), g.s.added)
	b.segments(items)
	b.specials(items)
	for len(items) > 0 {
		n := 1
		for n < len(items) && items[n].ask.item.Host == items[0].ask.item.Host {
			n++
		}
		b.host(items[:n])
		items = items[n:]
	}
	return &call{part: p, script: addScript, keys: b.keys, args: b.args, under: ep}
}

// callBuilder collects keys and arguments as add.lua describes them.
type callBuilder struct {
	s      *Store
	part   *partition
	keys   []string
	args   []any
	places map[string]string // of segments among keys
}

// key adds a key and returns its index for the script.
func (b *callBuilder) key(key string) string {
	b.keys = append(b.keys, key)
	return strconv.Itoa(len(b.keys))
}

func (b *callBuilder) segments(items []pending) {
	b.places = make(map[string]string, 1)
	at := len(b.args)
	b.args = append(b.args, 0)
	for _, item := range items {
		key, header := item.test.Segment()
		if b.places[key] == "" {
			b.places[key] = b.key(key)
			b.args = append(b.args, header)
		}
	}
	b.args[at] = len(b.places)
}

func (b *callBuilder) specials(items []pending) {
	at, n := len(b.args), 0
	b.args = append(b.args, 0)
	for i, item := range items {
		a := item.ask
		letters := ""
		if a.exact {
			letters += "x"
		}
		if a.sampled {
			letters += "s"
		}
		if a.item.Delay > 0 {
			letters += "z"
		}
		if letters != "" {
			n++
			b.args = append(b.args, i+1, letters, a.print[:], roundPlace(&a.item), millis(a.item.Delay))
		}
	}
	b.args[at] = n
}

// host adds items of one host.
func (b *callBuilder) host(items []pending) {
	host, print := items[0].ask.item.Host, items[0].ask.host
	state := b.key(b.part.host(host))
	b.key(b.part.active(host))
	limit, field := "", ""
	if _, most := b.s.cfg.limits(host); most > 0 {
		var key string
		key, field = b.part.budget(print)
		b.key(key)
		limit = strconv.FormatUint(most, 10)
	}
	b.args = append(b.args, host, state, limit, field, len(items))
	var queues [frontier.Priorities]string
	for _, item := range items {
		it := &item.ask.item
		if queues[it.Priority] == "" {
			queues[it.Priority] = b.key(b.part.queue(int(it.Priority), host))
		}
		entry := appendEntry(make([]byte, 0, 32+len(it.URL)), it)
		if item.test.Known { // by an older layer: nothing to set
			b.args = append(b.args, queues[it.Priority], 0, 0, 0, "", "", entry)
			continue
		}
		segment, _ := item.test.Segment()
		from, to := item.test.AppendSpan(nil, nil)
		b.args = append(b.args, queues[it.Priority], b.places[segment], from, to,
			item.test.Old(), item.test.AppendNew(nil), entry)
	}
}

// apply takes a reply of add.lua. What has to be asked again goes to g.later; an
// error is about all items.
func (g *group) apply(ctx context.Context, c *call, items []pending) error {
	if c.err != nil {
		if errors.Is(c.err, errEpoch) && c.ran == nil {
			return g.again(items)
		}
		return c.err
	}
	reply, ok := c.reply.([]any)
	if !ok || len(reply) != 2 {
		return fmt.Errorf("redisstore: add.lua replied %v", c.reply)
	}
	letters, _ := reply[0].(string)
	room, _ := reply[1].(int64)
	p := c.part
	switch letters {
	case "stale", "lost", "foreign":
		if err := g.s.refresh(ctx, p); err != nil {
			return err
		}
		return g.again(items)
	}
	if len(letters) != len(items) {
		return fmt.Errorf("redisstore: add.lua answered %q for %d items", letters, len(items))
	}
	full := false
	for i, item := range items {
		switch letters[i] {
		case 'a':
			g.settle(item.ask, frontier.Verdict{Answer: frontier.Added}, c.ran)
			g.s.queued.Add(1)
		case 's':
			g.settle(item.ask, frontier.Verdict{Answer: frontier.Seen}, c.ran)
		case 'h':
			g.settle(item.ask, frontier.Verdict{Answer: frontier.Refused, Reason: frontier.ReasonHostLimit}, c.ran)
		default:
			full = full || letters[i] == 'f'
			g.later = append(g.later, item.ask)
		}
	}
	if full {
		return g.s.classify(ctx, p.chain().Extend(ctx, g.s.client, items[0].test.Layers()))
	}
	if capacity, _ := strconv.ParseInt(items[0].test.Capacity(), 10, 64); room >= 0 && room < capacity/2 {
		g.s.prepare(p)
	}
	return nil
}

// again has items asked once more.
func (g *group) again(items []pending) error {
	for _, item := range items {
		g.later = append(g.later, item.ask)
	}
	return nil
}

// refresh learns what a partition's filter is by now. Layers that are not there
// any more, because the server went back in time, are no loss when everything
// that the filter's record counts is there.
func (s *Store) refresh(ctx context.Context, p *partition) error {
	chain := p.chain()
	err := chain.Refresh(ctx, s.client)
	if err == nil {
		err = chain.Verify(ctx, s.client)
	}
	if errors.Is(err, frontier.ErrFilterLost) {
		chain = s.newChain(p)
		if err = chain.Open(ctx, s.client); err == nil {
			p.filter.Store(chain)
		}
	}
	return s.classify(ctx, err)
}

// prepare makes the segments of a partition's next layer beside what callers
// wait for, so that they are there when the newest layer is full.
func (s *Store) prepare(p *partition) {
	if !p.preparing.CompareAndSwap(false, true) {
		return
	}
	s.spawn(func(ctx context.Context) {
		defer p.preparing.Store(false)
		for ready := false; !ready && ctx.Err() == nil; {
			var err error
			if ready, err = p.chain().Prepare(ctx, s.client); err != nil {
				s.cfg.Logger.DebugContext(ctx, "next layer not prepared", "partition", p.number, "err", err)
				return
			}
		}
	})
}
