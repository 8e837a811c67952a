package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// edit is the change of a segment that adds an item. It changes a range of bytes from old to
// new.
type edit struct {
	segment     string // its key
	first, last int64  // offsets of the first and the last byte
	old, new    []byte
}

// maxAddItems bounds the items of one call of add.lua.
const maxAddItems = 128

// add runs add.lua on the undecided items of each partition.
func (g *group) add(ctx context.Context, ep *epoch) {
	g.follow()
	slices.SortStableFunc(g.unsure, func(a, b *ask) int {
		return cmp.Or(cmp.Compare(a.part.number, b.part.number), strings.Compare(a.line.chunk, b.line.chunk), strings.Compare(a.item.Host, b.item.Host))
	})
	var calls []*call
	var of [][]*ask
	g.blocks, g.bytes = make(map[blockKey]block), g.bytes[:0]
	g.edits = slices.Grow(g.edits[:0], len(g.unsure))
	for rest := g.unsure; len(rest) > 0; {
		n := g.oneCall(rest, len(calls))
		calls, of = append(calls, g.call(rest[:n], ep)), append(of, rest[:n])
		rest = rest[n:]
	}
	if len(calls) == 0 {
		return
	}
	g.s.runOn(ctx, g.node, calls)
	for i, c := range calls {
		if err := g.apply(ctx, c, of[i]); err != nil {
			for _, a := range of[i] {
				g.fail(a, err)
			}
		}
	}
	g.later = slices.DeleteFunc(g.later, func(a *ask) bool { return a.done }) // of a call that failed
}

// follow keeps only the first item of each URL in g.unsure. The others are linked to it by
// ask.next, and wait for its answer.
func (g *group) follow() {
	first := make(map[bloomstore.Fingerprint]*ask, len(g.unsure))
	g.unsure = slices.DeleteFunc(g.unsure, func(a *ask) bool {
		last, known := first[a.print]
		first[a.print] = a
		if known {
			last.next = a
		}
		return known
	})
}

// blockKey identifies a block of a filter. block is the content of a block after a call of the
// script.
type (
	blockKey struct {
		segment string
		offset  int64
	}
	block struct {
		bytes []byte
		call  int
	}
)

// oneCall returns how many of the first items go into one call of the script, at least one.
// The argument call is the number of that call. The items of a call belong to one
// partition and of one chunk or none, were tested with the same layers, and have their bits in different blocks.
// oneCall also sets the edits of these items. The edits expect that the earlier calls have
// changed the blocks.
func (g *group) oneCall(items []*ask, call int) int {
	first := items[0]
	layers := first.test.Layers()
	layer := g.s.layout.Layer(layers - 1)
	for n, a := range items {
		if n == maxAddItems || a.part != first.part || a.line.chunk != first.line.chunk || a.test.Layers() != layers {
			return n
		}
		if a.test.Known {
			continue
		}
		var key blockKey
		key.segment, _ = a.test.Segment()
		_, key.offset = layer.Locate(a.print)
		before, changed := g.blocks[key]
		if changed && before.call == call {
			return n
		}
		old := a.test.Old()
		new := layer.Mask(g.keep(old), a.print)
		g.edits = append(g.edits, newEdit(key, old, new))
		a.edit = &g.edits[len(g.edits)-1]
		if changed {
			old, new = before.bytes, layer.Mask(g.keep(before.bytes), a.print)
			a.edit.rebase(key, old, new)
		}
		g.blocks[key] = block{new, call}
	}
	return len(items)
}

// keep returns a copy of b that is valid until the next call of round.
func (g *group) keep(b []byte) []byte {
	start := len(g.bytes)
	g.bytes = append(g.bytes, b...)
	return g.bytes[start:len(g.bytes):len(g.bytes)]
}

// newEdit returns the shortest change of a block from old to new.
func newEdit(key blockKey, old, new []byte) edit {
	first, end := 0, len(new)
	for first < end && old[first] == new[first] {
		first++
	}
	for end > first+1 && old[end-1] == new[end-1] {
		end--
	}
	return edit{key.segment, key.offset + int64(first), key.offset + int64(end) - 1, old[first:end], new[first:end]}
}

// rebase makes e change the block from old to new, because an earlier call of the script changes
// the block to old. The range of bytes stays the same, because it contains all bits that were
// missing when the item was tested. If the block does not contain old when the script runs, the
// script notices that. If another worker has added the item after the test, old can have all bits
// of the item already. Then the script answers that the item is known.
func (e *edit) rebase(key blockKey, old, new []byte) {
	start, end := e.first-key.offset, e.last-key.offset+1
	e.old, e.new = old[start:end], new[start:end]
}

// call returns the call of add.lua for items of one partition, which are ordered by host.
func (g *group) call(items []*ask, ep *epoch) *call {
	p := items[0].part
	b := callBuilder{s: g.s, part: p, args: make([]any, 0, 16+6*len(items)), segments: make(map[string]int, 4)}
	b.keys = append(make([]string, 0, 16), p.meta, p.due, p.leased)
	b.args = append(b.args, items[0].test.Identity(), items[0].test.Capacity(), g.s.added, "", oneIf(items[0].asked))
	b.specials(items)
	for len(items) > 0 {
		n := run(items, func(a, b *ask) bool { return a.item.Host == b.item.Host })
		b.host(items[:n])
		items = items[n:]
	}
	return &call{part: p, script: addScript, keys: b.keys, args: b.args, required: ep}
}

// run returns how many elements at the start of items are the same as the first element. It
// counts the first element, too. The function same compares two elements.
func run(items []*ask, same func(a, b *ask) bool) int {
	n := 1
	for n < len(items) && same(items[0], items[n]) {
		n++
	}
	return n
}

// callBuilder collects the keys and arguments of a call of add.lua.
type callBuilder struct {
	s        *Store
	part     *partition
	keys     []string
	args     []any
	segments map[string]int // for each segment its index in keys, counted from 1
}

// key adds a key and returns its index for the script.
func (b *callBuilder) key(key string) int {
	b.keys = append(b.keys, key)
	return len(b.keys)
}

func (b *callBuilder) specials(items []*ask) {
	countIndex, n := len(b.args), 0
	b.args = append(b.args, 0)
	var lists []int // indexes in b.args of the lists of failed items
	var failures []string
	for i, a := range items {
		letters := ""
		if a.line.chunk != "" {
			own := b.s.cfg.Policy().Host(a.item.Host)
			letters += "i"
			if a.certain || own.MaxItems == 0 || !own.UnlessSeed || b.s.scope.Load().Has(frontier.SeedHost(a.item.Host)) {
				letters += "c"
			}
		}
		if a.exact {
			letters += decisionLetters[a.decision]
			if a.later {
				letters += "l"
			}
		}
		if a.let {
			letters += "m"
			if !a.exact && b.s.cfg.Exact != nil {
				letters += "e" // as every bulk item of a later round: see Store.exactPrint
			}
		}
		if a.full {
			letters += "q"
		}
		if a.owed {
			letters += "o"
		}
		if a.sampled {
			letters += "s"
		}
		if a.delay > 0 {
			letters += "z"
		}
		if letters != "" {
			n++
			b.args = append(b.args, i+1, letters, a.print[:], roundOffset(&a.item), millis(a.delay))
			if a.line.chunk != "" {
				b.args = append(b.args, a.line.number, a.copies)
			}
			if a.let {
				lists, failures = append(lists, len(b.args)), append(failures, b.part.failed(a.item.Host))
				b.args = append(b.args, 0)
			}
		}
	}
	if n > 0 {
		b.args[countIndex] = n
		b.keys = append(b.keys, b.part.delayed, b.part.exact, b.part.shadow, b.part.readmitted, b.part.failedHosts)
	}
	if first := items[0]; first.line.chunk != "" {
		b.keys = append(b.keys, b.part.verdicts(first.line.chunk))
		b.args[countIndex-2] = millis(first.ttl)
	}
	for i, at := range lists {
		b.args[at] = b.key(failures[i])
	}
}

// uncounted is a maximum number of items that no host reaches. With it the script counts the items
// of a host without a limit, so that Location.HostAdded is right.
const uncounted = 1 << 52

// host adds the items of one host.
func (b *callBuilder) host(items []*ask) {
	host := items[0].item.Host
	b.args = append(b.args, host, b.key(b.part.host(host)), "")
	b.key(b.part.active(host))
	if own := b.s.cfg.Policy().Host(host); own.MaxItems > 0 {
		maxItems := own.MaxItems
		if own.UnlessSeed && b.s.scope.Load().Has(frontier.SeedHost(host)) {
			maxItems = uncounted
		}
		key, field := b.part.budget(items[0].host)
		b.key(key)
		b.args[len(b.args)-1] = maxItems
		b.args = append(b.args, field)
	}
	runCount, runs := len(b.args), 0
	b.args = append(b.args, 0)
	var queues [frontier.Priorities]int
	for len(items) > 0 {
		n := run(items, func(a, b *ask) bool { return a.item.Priority == b.item.Priority })
		runs++
		priority := items[0].item.Priority
		if queues[priority] == 0 {
			queues[priority] = b.key(b.part.queue(int(priority), host))
		}
		b.args = append(b.args, queues[priority], n)
		for _, a := range items[:n] {
			b.item(a)
		}
		items = items[n:]
	}
	b.args[runCount] = runs
}

func (b *callBuilder) item(a *ask) {
	e, it := a.edit, &a.item
	entry := appendEntry(make([]byte, 0, 32+len(it.URL)), it)
	if a.test.Known {
		b.args = append(b.args, 1, "", "", "", "", entry)
		return
	}
	if b.segments[e.segment] == 0 {
		b.segments[e.segment] = b.key(e.segment)
	}
	b.args = append(b.args, b.segments[e.segment], e.first, e.last, e.old, e.new, entry)
}

// letterVerdicts are the verdicts for the letters that add.lua returns. Items with other letters
// must be asked again.
var letterVerdicts = map[byte]frontier.Verdict{
	'a': {Answer: frontier.Added},
	's': {Answer: frontier.Seen},
	'h': {Answer: frontier.Refused, Reason: frontier.ReasonHostLimit},
	'q': {Answer: frontier.Refused, Reason: frontier.ReasonQueueFull},
	// The verdict of an earlier call on a line of a submission.
	'A': {Answer: frontier.Added},
	'S': {Answer: frontier.Seen},
	'H': {Answer: frontier.Refused, Reason: frontier.ReasonHostLimit},
	'Q': {Answer: frontier.Refused, Reason: frontier.ReasonQueueFull},
}

// apply handles a reply of add.lua. It puts items that must be asked again in g.later. An
// error concerns all items.
func (g *group) apply(ctx context.Context, c *call, items []*ask) error {
	if c.err != nil {
		if errors.Is(c.err, errEpoch) && c.ran == nil {
			g.later = append(g.later, items...)
			return nil
		}
		return c.err
	}
	reply := list(c.reply)
	if len(reply) != 3 {
		return fmt.Errorf("redisstore: add.lua replied %v", c.reply)
	}
	letters, p := text(reply[0]), c.part
	if letters == "readmitted" {
		g.s.forgetKnown(g.known)
		g.later = append(g.later, items...)
		return nil
	}
	if letters == "stale" || letters == "lost" {
		if err := g.s.refresh(ctx, p); err != nil {
			return err
		}
		g.later = append(g.later, items...)
		return nil
	}
	if len(letters) != len(items) {
		return fmt.Errorf("redisstore: add.lua answered %q for %d items", letters, len(items))
	}
	if integer(reply[1]) > 0 { // hosts became due
		g.s.schedule.wake(p)
	}
	unlimited, unknown := g.s.seedsAmongFull(ctx, letters, items)
	full, before := false, uint64(integer(reply[2]))
	for i, a := range items {
		verdict, final := letterVerdicts[letters[i]]
		if letters[i] == 'h' && unknown != nil {
			g.fail(a, unknown)
			continue
		}
		uncertain := letters[i] == 'u' // the script has stored no verdict on the line
		if uncertain && unknown != nil {
			g.fail(a, unknown)
			continue
		}
		if !final || letters[i] == 'h' && unlimited[a.item.Host] {
			a.certain = uncertain && !unlimited[a.item.Host]
			full = full || letters[i] == 'f'
			g.later = append(g.later, a)
			continue
		}
		if letters[i] == 'a' { // before the caller goes on
			g.s.queued.Add(1)
			before++
			g.s.acknowledge(a, c.ran, before)
		}
		g.settle(a, verdict, c.ran)
	}
	if full {
		return g.s.classify(ctx, p.chain().Extend(ctx, g.s.client, items[0].test.Layers()))
	}
	return nil
}

// seedsAmongFull returns the hosts of seeds among the hosts whose limit refused items. The letters
// are the answers of the script. From then on, the calls for these hosts have no limit.
func (s *Store) seedsAmongFull(ctx context.Context, letters string, items []*ask) (hosts map[string]bool, err error) {
	var full, keys []string
	for i, a := range items {
		host := a.item.Host
		if (letters[i] == 'h' || letters[i] == 'u') && s.cfg.Policy().Host(host).UnlessSeed && !slices.Contains(full, host) {
			full, keys = append(full, host), append(keys, frontier.SeedHost(host))
		}
	}
	if full == nil {
		return nil, nil
	}
	admitted, err := s.Admitted(ctx, keys)
	if err != nil {
		return nil, err
	}
	hosts = make(map[string]bool)
	for i, host := range full {
		hosts[host] = admitted[i]
	}
	return hosts, nil
}

// refresh reads the current layers of a partition's filter. If the server went back in time,
// layers that this process knows can be missing. The filter's record on the server has the
// number of layers. If that many layers exist, the filter is not lost, and refresh opens it
// again.
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
