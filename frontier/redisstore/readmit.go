package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/redisbits"
)

var _ frontier.Readmitter = (*Store)(nil)

// A readmitted item is an exception to what the filter and the exact set say. Most answers Seen need no script: they come
// from a worker's cache, or from bits that it has read, and a page in flight can rely on them for long. They must not
// outlive a readmission. So a partition has a generation, and a readmission works in this order:
//
//	1 readmit.lua stores the exceptions in their partition
//	2 turn.lua starts a new generation of every partition
//	3 Readmit waits until a restart of a server cannot lose this any more, and returns
//
// A worker reads the generations of all partitions first, and then which partitions have exceptions (type exceptions). In
// these partitions it asks for the exceptions whenever it reads the filter. The script that completes a page compares
// the generation of its partition with the one that the worker knew before it asked about the page's links. If they
// differ, the completion has no effect, and the links are offered again. Add compares the generations after the answers.
//
// Why that is enough: generations are random, so equal ones mean that the worker has read the generation after step 2 of each
// readmission that has come so far. Then it has read the partitions with exceptions after step 1, and knows them. If a page
// is completed between 1 and 3, it may count as before the readmission. It does not matter how long a worker was suspended,
// because its clock decides nothing, and the comparison and the completion are one step on the server. The worker forgets
// its cache in the step in which it learns of another generation.
//
// The script that queues an item ends its readmission, so of workers that race, one succeeds.

// exceptions is what a process knows of the readmitted items of a crawl.
type exceptions struct {
	generations []string      // by partition
	some        []atomic.Bool // by partition: it may have readmitted items
}

// exceptions returns what the process knows. It asks the servers if it knows nothing, or has forgotten it.
func (s *Store) exceptions(ctx context.Context) (*exceptions, error) {
	if known := s.known.Load(); known != nil {
		return known, nil
	}
	s.learning.Lock()
	defer s.learning.Unlock()
	if known := s.known.Load(); known != nil {
		return known, nil
	}
	epochs := make([]*epoch, len(s.parts))
	for i, p := range s.parts {
		n, err := s.nodeOf(ctx, p)
		if err != nil {
			return nil, err
		}
		if epochs[i], err = s.epochOf(ctx, n); err != nil {
			return nil, err
		}
	}
	known := &exceptions{make([]string, len(s.parts)), make([]atomic.Bool, len(s.parts))}
	for _, field := range []string{fieldGeneration, fieldReadmitted} { // in this order, see above
		values, err := pipelined(ctx, s.client, s.parts, func(pipe redis.Pipeliner, p *partition) *redis.SliceCmd {
			return pipe.HMGet(ctx, p.meta, field)
		})
		if err != nil {
			return nil, s.classify(ctx, err)
		}
		for i, value := range values {
			if said := text(at(value.Val(), 0)); field == fieldReadmitted {
				known.some[i].Store(said != "" && said != "0")
			} else if known.generations[i] = said; said == "" {
				known.generations[i] = "0"
			}
		}
	}
	s.seen.change(func() {
		for i, p := range s.parts { // a new epoch forgets what was read in an earlier one
			n := s.nodes.single
			if n == nil {
				n = p.node.Load()
			}
			if n.epoch.Load() != epochs[i] {
				return
			}
		}
		s.known.Store(known)
	})
	if s.known.Load() != known {
		return nil, errEpoch
	}
	return known, nil
}

// forgetKnown makes the next call of exceptions ask the servers, unless the process knows something else by now.
func (s *Store) forgetKnown(known *exceptions) { s.known.CompareAndSwap(known, nil) }

// findReadmitted asks which of the open asks are readmitted.
func (g *group) findReadmitted(ctx context.Context) (err error) {
	if g.known, err = g.s.exceptions(ctx); err != nil {
		return err
	}
	asks := make(map[*partition][]*ask)
	for _, a := range g.open {
		a.let, a.asked = false, g.known.some[a.part.number].Load()
		if a.asked {
			asks[a.part] = append(asks[a.part], a)
		}
	}
	if len(asks) == 0 {
		return nil
	}
	parts := slices.Collect(maps.Keys(asks))
	pipe := g.node.client.Pipeline()
	found, left := make([]*redis.SliceCmd, len(parts)), make([]*redis.SliceCmd, len(parts))
	for i, p := range parts {
		prints := make([]string, len(asks[p]))
		for j, a := range asks[p] {
			prints[j] = string(a.print[:])
		}
		found[i], left[i] = pipe.HMGet(ctx, p.readmitted, prints...), pipe.HMGet(ctx, p.meta, fieldReadmitted)
	}
	if cmds, err := pipe.Exec(ctx); err != nil {
		for _, p := range parts {
			g.s.misplaced(ctx, p, err)
		}
		return g.s.classify(ctx, txError(cmds, err))
	}
	for i, p := range parts {
		for j, a := range asks[p] {
			a.let = at(found[i].Val(), j) != nil
		}
		if said := text(at(left[i].Val(), 0)); said == "" || said == "0" {
			g.known.some[p.number].Store(false) // until the next generation
		}
	}
	return nil
}

// offerNow offers like offer. It returns only answers that are valid although items may have been readmitted meanwhile.
func (s *Store) offerNow(ctx context.Context, offers []frontier.Offer, decided []exact.Decision) (answers, error) {
	got, err := s.offer(ctx, offers, decided, false)
	for err == nil {
		seen := slices.IndexFunc(got.verdicts, func(v frontier.Verdict) bool { return v.Answer == frontier.Seen })
		if seen < 0 {
			return got, nil
		}
		p := s.partition(offers[seen].Host)
		values, failed := s.client.HMGet(ctx, p.meta, fieldGeneration).Result()
		if failed != nil {
			return answers{}, s.classify(ctx, failed)
		}
		if said := text(at(values, 0)); said == got.known.generations[p.number] || said == "" && got.known.generations[p.number] == "0" {
			return got, nil
		}
		s.forgetKnown(got.known)
		got, err = s.offerAgain(ctx, offers, decided, got, false)
	}
	return got, err
}

// maxReadmit bounds the items of a call of readmit.lua.
const maxReadmit = 200

// readmission is a call of Readmit for the items of one partition.
type readmission struct {
	*Store
	part   *partition
	offers []*frontier.Offer
	prints []bloomstore.Fingerprint
	found  []*frontier.Readmission
	ran    *epoch
}

// Readmit implements frontier.Readmitter. It reads the queues of the hosts of urls, and the delayed items of their
// partitions, in one step each.
func (s *Store) Readmit(ctx context.Context, urls []frontier.Offer, dry bool) ([]frontier.Readmission, error) {
	found := make([]frontier.Readmission, len(urls))
	parts := make(map[*partition]*readmission)
	for i := range urls {
		found[i] = frontier.NeverSeen
		if refusal(&urls[i]) != "" {
			continue
		}
		p := s.partition(urls[i].Host)
		if parts[p] == nil {
			parts[p] = &readmission{Store: s, part: p}
		}
		r := parts[p]
		r.offers, r.found = append(r.offers, &urls[i]), append(r.found, &found[i])
		r.prints = append(r.prints, s.hasher.Fingerprint(urls[i].URL))
	}
	let := false
	ran := make(map[*epoch]*partition)
	for _, p := range s.parts {
		r := parts[p]
		if r == nil {
			continue
		}
		if err := r.run(ctx, dry); err != nil {
			return nil, err
		}
		if r.ran != nil {
			let, ran[r.ran] = true, p
		}
	}
	crash.Point("readmitted")
	if !let || dry {
		return found, nil
	}
	return found, s.turn(ctx, ran)
}

// turn starts a generation of each partition, and returns when no restart of a server can lose it. It returns errEpoch if a server
// has restarted since the epochs ran.
func (s *Store) turn(ctx context.Context, ran map[*epoch]*partition) error {
	generation := strconv.FormatUint(rand.Uint64(), 36) + "g"
	calls := make([]*call, len(s.parts))
	for i, p := range s.parts {
		calls[i] = &call{part: p, script: turnScript, keys: []string{p.meta}, args: []any{generation}}
	}
	s.runAll(ctx, calls)
	for _, c := range calls {
		if c.err != nil {
			return c.err
		}
		if integer(c.reply) == 0 {
			return s.errGone(c.part)
		}
		ran[c.ran] = c.part
	}
	crash.Point("turned")
	if s.cfg.Wait == 0 {
		if err := sleep(ctx, s.durable); err != nil {
			return err
		}
	}
	for ep, p := range ran {
		if err := s.confirm(ctx, ep, p); err != nil {
			return err
		}
	}
	return nil
}

// run decides about the items, and readmits them.
func (r *readmission) run(ctx context.Context, dry bool) error {
	asks := make([]redisbits.Ask, len(r.offers))
	for i, print := range r.prints {
		asks[i] = redisbits.Ask{Chain: r.part.chain(), Print: print}
	}
	if err := r.refresh(ctx, r.part); err != nil {
		return err
	}
	if err := redisbits.NewReader(r.client).Read(ctx, asks); err != nil {
		return r.classify(ctx, err)
	}
	var open []int
	for i := range asks {
		if asks[i].Known {
			open = append(open, i)
		}
	}
	for some := range slices.Chunk(open, maxReadmit) {
		stale := true
		for tries := 0; stale; tries++ {
			if tries == maxAsked {
				return fmt.Errorf("%w: the partition changes faster than it can be read", frontier.ErrUnavailable)
			}
			var err error
			if stale, err = r.step(ctx, some, dry); err != nil {
				return err
			}
		}
	}
	return nil
}

// step decides about the items with these indexes. The result stale means that it must be repeated.
func (r *readmission) step(ctx context.Context, items []int, dry bool) (stale bool, err error) {
	later, waits, failed, err := r.standing(ctx, items)
	if err != nil {
		return false, err
	}
	args := []any{later, oneIf(r.cfg.Exact != nil), oneIf(dry)}
	var asked []int
	for _, i := range items {
		if waits[r.prints[i]] {
			*r.found[i] = frontier.Waits
			continue
		}
		asked = append(asked, i)
		args = append(args, r.prints[i][:], failed[r.prints[i]])
	}
	if len(asked) == 0 {
		return false, nil
	}
	c := &call{part: r.part, script: readmitScript, keys: []string{r.part.meta, r.part.readmitted, r.part.exact}, args: args, required: r.ran}
	r.runAll(ctx, []*call{c})
	switch letters := text(c.reply); {
	case c.err != nil:
		return false, c.err
	case letters == "stale":
		return true, nil
	case len(letters) != len(asked):
		return false, r.errGone(r.part)
	default:
		for j, i := range asked {
			if *r.found[i] = frontier.Waits; letters[j] == 'r' {
				*r.found[i], r.ran = frontier.Readmitted, c.ran
			}
		}
	}
	return false, nil
}

// standing reads the field later of the partition, which items wait, and the newest value of each in the list of failed items,
// all at one moment.
func (r *readmission) standing(ctx context.Context, items []int) (later string, waits map[bloomstore.Fingerprint]bool, failed map[bloomstore.Fingerprint]string, err error) {
	wanted, hosts := make(map[bloomstore.Fingerprint]bool), make(map[string]bool)
	for _, i := range items {
		wanted[r.prints[i]], hosts[r.offers[i].Host] = true, true
	}
	p, names := r.part, slices.Collect(maps.Keys(hosts))
	var used *redis.SliceCmd
	var delayed *redis.StringSliceCmd
	var queues [][frontier.Priorities]*redis.StringSliceCmd
	var leases []*redis.MapStringStringCmd
	var failures []*redis.StringSliceCmd
	cmds, err := r.client.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		used, delayed = tx.HMGet(ctx, p.meta, fieldLater), tx.ZRange(ctx, p.delayed, 0, -1)
		for _, host := range names {
			var of [frontier.Priorities]*redis.StringSliceCmd
			for priority := range of {
				of[priority] = tx.LRange(ctx, p.queue(priority, host), 0, -1)
			}
			queues, leases = append(queues, of), append(leases, tx.HGetAll(ctx, p.active(host)))
			failures = append(failures, tx.LRange(ctx, p.failed(host), 0, -1))
		}
		return nil
	})
	if err = txError(cmds, err); err != nil {
		return "", nil, nil, r.classify(ctx, err)
	}
	waits, failed = make(map[bloomstore.Fingerprint]bool), make(map[bloomstore.Fingerprint]string)
	note := func(entry, host string) {
		item, damaged := decodeEntry(entry, host, r.hasher)
		err = errors.Join(err, damaged)
		if wanted[item.Fingerprint] {
			waits[item.Fingerprint] = true
		}
	}
	for _, member := range delayed.Val() {
		if host, ok := hostOfDelayed(member); ok && hosts[host] {
			note(strings.TrimPrefix(member[delayedSeqBytes:], host+"\x00"), host)
		}
	}
	for i, host := range names {
		for _, queue := range queues[i] {
			for _, entry := range queue.Val() {
				note(entry, host)
			}
		}
		for _, it := range activeItems(leases[i].Val()) {
			note(it.entry, host)
		}
		for _, value := range failures[i].Val() {
			e, damaged := r.failedEntry(value, host)
			err = errors.Join(err, damaged)
			if wanted[e.item.Fingerprint] {
				failed[e.item.Fingerprint] = value
			}
		}
	}
	if later = text(at(used.Val(), 0)); later == "" {
		later = "0"
	}
	return later, waits, failed, err
}
