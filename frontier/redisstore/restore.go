package redisstore

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// Ended is the result of an item in one round, according to its record.
type Ended struct {
	Item    frontier.Item    // if it failed, with everything that is needed to queue it again
	Outcome frontier.Outcome // empty if the item is queued or leased in this round, or its outcome is unknown
	Status  int              // HTTP status, 0 for none
	At      time.Time
}

// fillFromRecords returns a step that adds the URLs of records to the filter, and computes lost
// counters from the records.
func (r *rebuild) fillFromRecords(records iter.Seq2[Ended, error]) func(context.Context) error {
	return func(ctx context.Context) error {
		for end, err := range records {
			if err != nil {
				return err
			}
			p := r.partition(end.Item.Host)
			end.Item.Fingerprint = r.hasher.Fingerprint(end.Item.URL)
			r.pasts[p.number].note(end)
			if err := r.known.put(ctx, p, end.Item.Fingerprint); err != nil {
				return err
			}
		}
		return r.known.flush(ctx)
	}
}

// past collects data about a partition whose counters are lost. A nil past collects nothing.
type past struct {
	counters map[string]uint64                 // counters of meta, according to records
	met      map[metKey]met                    // items in queues, leases or failed lists that may also have records
	failed   map[bloomstore.Fingerprint]Ended  // the last record of each failed item
	rounds   map[bloomstore.Fingerprint]uint32 // the last known round of an item, unless it is 0
	hosts    map[string]hostPast               // of the first mostCounted hosts
}

// hostPast counts the done items and the pages of a host, according to records.
type hostPast struct{ done, pages uint64 }

// metKey identifies an item in a queue, a lease or a list of failed items. If the URL of a bulk
// item was promoted, the bulk item and the promoted item can both be there. The promoted item is exact.
type metKey struct {
	print bloomstore.Fingerprint
	exact bool
}

func metKeyOf(it *frontier.Item) metKey {
	return metKey{it.Fingerprint, it.Class != frontier.Bulk}
}

// met is an item in a queue, a lease or a list of failed items.
type met struct {
	round uint32
	waits bool // is queued or leased; if false, it has failed
}

func newPast() *past {
	return &past{
		counters: make(map[string]uint64), met: make(map[metKey]met),
		failed: make(map[bloomstore.Fingerprint]Ended), rounds: make(map[bloomstore.Fingerprint]uint32),
		hosts: make(map[string]hostPast),
	}
}

// meet stores an item of a queue, a lease or a list of failed items if the item may have a
// record. An item may have a record if it failed, is in a later round than 0, or was leased.
func (h *past) meet(it *frontier.Item, state frontier.State) {
	if h == nil || state == frontier.Queued && it.Round == 0 && it.Deliveries == 0 {
		return
	}
	h.met[metKeyOf(it)] = met{it.Round, state != frontier.Failed}
	h.reached(it)
}

func (h *past) reached(it *frontier.Item) {
	if it.Round > 0 {
		h.rounds[it.Fingerprint] = max(h.rounds[it.Fingerprint], it.Round)
	}
}

// note counts a record. If the item is still queued or leased in the same round or in an earlier
// one, note does not count the record, because the item is counted when it ends.
func (h *past) note(end Ended) {
	if h == nil {
		return
	}
	it := &end.Item
	h.reached(it)
	if m := h.met[metKeyOf(it)]; end.Outcome == "" || m.waits && it.Round >= m.round {
		return
	}
	h.counters[fieldRecords]++
	h.counters[fieldOutcome+string(end.Outcome)]++
	if it.Round > 0 {
		h.counters[fieldRepeats]++
	}
	host, counted := h.hosts[it.Host]
	if frontier.IsCheck(it.URL) {
		h.counters[fieldChecks]++
	} else if end.Status > 0 {
		h.counters[fieldPages]++
		host.pages++
	}
	done := end.Outcome.State() == frontier.Done
	if done {
		h.counters[fieldDone]++
		host.done++
	}
	if counted || len(h.hosts) < mostCounted {
		h.hosts[it.Host] = host
	}
	if done {
		return
	}
	if before, is := h.failed[it.Fingerprint]; !is || before.Item.Round <= it.Round {
		h.failed[it.Fingerprint] = end
	}
}

// lost returns the failed items whose entry in a list of failed items is lost. The other failed
// items are in such a list, or were queued again.
func (h *past) lost() (lost []Ended) {
	for print, end := range h.failed {
		if _, is := h.met[metKeyOf(&end.Item)]; !is && h.rounds[print] <= end.Item.Round {
			lost = append(lost, end)
		}
	}
	return lost
}

// restore restores lost counters. It counts queued, leased and failed items, and takes the number
// of done items from the records. The number of added items is the sum of these four numbers.
func (r *rebuild) restore(ctx context.Context) error {
	bare := false
	for i, p := range r.parts {
		if r.pasts[i] == nil {
			continue
		}
		bare = true
		if err := r.restorePartition(ctx, p, r.pasts[i]); err != nil {
			return err
		}
	}
	if !bare {
		return nil
	}
	// The workers' numbers of added items are removed, because Store.Lost would compare them with
	// counters that were lost.
	return r.classify(ctx, r.client.Unlink(ctx, r.cfg.ackedKey()).Err())
}

func (r *rebuild) restorePartition(ctx context.Context, p *partition, h *past) error {
	if err := r.client.Unlink(ctx, p.readmitted).Err(); err != nil { // they are lost with the counters
		return r.classify(ctx, err)
	}
	if err := r.restoreFailed(ctx, p, h.lost()); err != nil {
		return err
	}
	var found recount
	if err := r.recountPartition(ctx, p, &found); err != nil {
		return err
	}
	added := found.Queued + found.Leased + found.Failed + h.counters[fieldDone]
	h.counters[fieldChecks] += found.Checks.Waiting()
	fields := []any{
		fieldAdded + "0", added, fieldQueued, found.Queued, fieldLeased, found.Leased, fieldFailed, found.Failed,
		fieldDelayed, found.Delayed, fieldHosts, found.Hosts,
		fieldChecksQueued, found.Checks.Queued, fieldChecksLeased, found.Checks.Leased,
		fieldEpoch, "restored", // differs from the run id of every server, so no host is leased for a while
	}
	if len(h.rounds) > 0 { // an exact item may have been queued in the latest round
		fields = append(fields, fieldTop, slices.Max(slices.Collect(maps.Values(h.rounds))), fieldLater, 1)
	}
	for field, n := range h.counters {
		fields = append(fields, field, n)
	}
	counted, err := r.restoreCounts(ctx, p, h.hosts)
	if err != nil {
		return err
	}
	fields = append(fields, fieldCounted, counted)
	// An item that was added in several rounds has only one key in the filter. A key of MarkSeen is
	// in the filter, but does not count as added. fieldRenewed or fieldKnown stores the difference.
	if keys := r.fresh[p.number]; added > keys {
		fields = append(fields, fieldRenewed, added-keys)
	} else if added < keys {
		fields = append(fields, fieldKnown, keys-added)
	}
	return r.classify(ctx, r.client.HSet(ctx, p.meta, fields...).Err())
}

// restoreCounts stores the counts of hosts that have none. It returns how many hosts it has stored. The records
// do not say how many bytes were received, nor why attempts failed.
func (r *rebuild) restoreCounts(ctx context.Context, p *partition, hosts map[string]hostPast) (int, error) {
	stored := 0
	for some := range slices.Chunk(slices.Sorted(maps.Keys(hosts)), fillBatch) {
		some = some[:min(len(some), max(r.hostsCounted()-stored, 0))]
		_, err := r.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, host := range some {
				value := fmt.Sprintf("%d %d 0 %d", hosts[host].done, hosts[host].pages, r.now().Unix())
				pipe.HSetNX(ctx, p.counts(r.hasher.Fingerprint(host)), host, value)
			}
			return nil
		})
		if err != nil && len(some) > 0 {
			return stored, r.classify(ctx, err)
		}
		stored += len(some)
	}
	return stored, nil
}

// restoreFailed appends failed items to the lists of failed items of their hosts.
func (r *rebuild) restoreFailed(ctx context.Context, p *partition, lost []Ended) error {
	for len(lost) > 0 {
		batch := lost[:min(len(lost), fillBatch)]
		lost = lost[len(batch):]
		_, err := r.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := range batch {
				end := &batch[i]
				value := appendTime(appendFailed(nil, end.Outcome, end.Status), end.At)
				pipe.RPush(ctx, p.failed(end.Item.Host), appendEntry(value, &end.Item))
				pipe.SAdd(ctx, p.failedHosts, end.Item.Host)
			}
			return nil
		})
		if err != nil {
			return r.classify(ctx, err)
		}
	}
	return nil
}
