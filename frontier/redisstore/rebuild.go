package redisstore

import (
	"context"
	"errors"
	"iter"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// SeenURL is a URL to mark as seen, with its host key.
type SeenURL struct {
	Host string // host key
	URL  string // canonical
}

// Rebuilt is the result of Rebuild.
type Rebuilt struct {
	URLs uint64 // different URLs that the filter contains now
	// Partitions is the number of partitions whose counters were lost. Counters that can
	// be computed from queues and records were restored. The others begin at zero.
	Partitions int
}

// Rebuild rebuilds the filter of the crawl cfg.Name after it was lost. It adds the URLs of
// records, which must be all records that the crawl's workers ever wrote, and the items that are
// queued, leased, failed or in an exact set. Other URLs are new to the crawl afterwards.
//
// If partitions lost their counters, too, Rebuild restores these and their lists of failed items
// from the same sources. After Recreate these are all partitions that the servers have lost. That
// takes some hundred bytes of memory for each failed item. If Rebuild is interrupted, the crawl
// cannot be opened until Rebuild has been called again.
//
// Rebuild returns ErrNoCrawl if there is no crawl of that name, and frontier.ErrLocked if it has
// live workers.
func Rebuild(ctx context.Context, cfg Config, records iter.Seq2[Ended, error]) (made Rebuilt, err error) {
	s, err := openShut(ctx, cfg)
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	// While this process is registered as a worker, no other can delete or rebuild the crawl.
	if err := s.enrol(ctx); err != nil {
		return made, err
	}
	if err := s.shut(ctx, rebuilding); err != nil {
		return made, err
	}
	r := &rebuild{Store: s, filler: newFiller(s), fresh: make([]uint64, len(s.parts)), pasts: make([]*past, len(s.parts))}
	if err := inOrder(ctx, r.clear, r.fillFromStructures, r.fillFromRecords(records), r.restore); err != nil {
		return made, err
	}
	for _, n := range r.fresh {
		made.URLs += n
	}
	for _, p := range r.pasts {
		if p != nil {
			made.Partitions++
		}
	}
	return made, s.classify(ctx, s.client.HDel(ctx, s.cfg.cardKey(), closedField).Err())
}

// rebuild is one run of Rebuild.
type rebuild struct {
	*Store
	*filler
	fresh []uint64 // number of different URLs, by partition
	pasts []*past  // by partition; nil if its counters are not lost
}

// clear removes the old filters and creates empty ones. It keeps the counters.
func (r *rebuild) clear(ctx context.Context) error {
	segment := regexp.MustCompile(`^\{` + regexp.QuoteMeta(r.card.ID) + `:[0-9]+\}f[0-9]+\.[0-9]+$`)
	err := r.scan(ctx, "{"+r.card.ID+":*}f?*", func(ctx context.Context, server *redis.Client, keys []string) error {
		_, err := unlink(ctx, server, slices.DeleteFunc(keys, func(key string) bool { return !segment.MatchString(key) }))
		return err
	})
	if err != nil {
		return err
	}
	for _, p := range r.parts {
		fields, err := r.client.HKeys(ctx, p.meta).Result()
		if redis.HasErrorPrefix(err, "WRONGTYPE") {
			err = r.client.Unlink(ctx, p.meta).Err()
		}
		if err != nil {
			return r.classify(ctx, err)
		}
		if !slices.Contains(fields, fieldEpoch) { // every partition has one, unless it was lost
			r.pasts[p.number] = newPast()
		}
		fields = slices.DeleteFunc(fields, func(field string) bool {
			return field != "head" && field != "layers" && !strings.HasPrefix(field, "keys")
		})
		if len(fields) > 0 {
			if err := r.client.HDel(ctx, p.meta, fields...).Err(); err != nil {
				return r.classify(ctx, err)
			}
		}
		if err := p.chain().Create(ctx, r.client); err != nil {
			return r.classify(ctx, err)
		}
	}
	return nil
}

// fillFromStructures adds queued, leased, failed, exact and sampled items.
func (r *rebuild) fillFromStructures(ctx context.Context) error {
	for _, state := range []frontier.State{frontier.Queued, frontier.Leased, frontier.Failed} {
		var failed error
		err := r.List(ctx, state, "", func(item frontier.Item) bool {
			p := r.partition(item.Host)
			r.pasts[p.number].meet(&item, state)
			failed = r.put(ctx, p, item.Fingerprint, r.count)
			return failed == nil
		})
		if err := errors.Join(err, failed); err != nil {
			return err
		}
	}
	sets := func(p *partition) []string { return []string{p.exact, p.shadow} }
	if r.cfg.ExactSet { // p.exact has only items that were listed above
		sets = func(p *partition) []string { return []string{p.shadow} }
		if err := r.restoreExact(ctx); err != nil {
			return err
		}
	}
	for _, p := range r.parts {
		for _, key := range sets(p) {
			if err := r.fillFromSet(ctx, p, key); err != nil {
				return err
			}
		}
	}
	return r.flush(ctx, r.count)
}

func (r *rebuild) count(p *partition, fresh uint64) { r.fresh[p.number] += fresh }

// fillFromSet adds the fingerprints in a set of a partition.
func (r *rebuild) fillFromSet(ctx context.Context, p *partition, key string) error {
	for cursor := uint64(0); ; {
		members, next, err := r.client.SScan(ctx, key, cursor, "", scanStep).Result()
		if err != nil {
			return r.classify(ctx, err)
		}
		for _, member := range members {
			if len(member) != len(bloomstore.Fingerprint{}) {
				continue
			}
			if err := r.put(ctx, p, bloomstore.Fingerprint([]byte(member)), r.count); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// MarkSeen marks URLs as seen without queueing them. From now on an offer of them is answered
// Seen, except that an exact item is promoted. MarkSeen returns how many were new to the filter.
// They count neither as found nor as added. A URL that waits stays unchanged.
//
// It takes effect in steps of some hundred URLs. After an error those of earlier steps are marked.
// Marking a URL twice has no further effect.
func (s *Store) MarkSeen(ctx context.Context, known []SeenURL) (fresh int, err error) {
	f := newFiller(s)
	news := make([]uint64, len(s.parts))
	count := func(p *partition, n uint64) { news[p.number] += n }
	for _, k := range known {
		if err = f.put(ctx, s.partition(k.Host), s.hasher.Fingerprint(k.URL), count); err != nil {
			break
		}
	}
	if err == nil {
		err = f.flush(ctx, count)
	}
	for number, n := range news {
		if n == 0 {
			continue
		}
		fresh += int(n)
		counted := s.client.HIncrBy(ctx, s.parts[number].meta, fieldKnown, int64(n)).Err()
		err = errors.Join(err, s.classify(ctx, counted))
	}
	return fresh, err
}

// filler collects fingerprints by partition and adds them to the partitions' filters in batches.
type filler struct {
	store  *Store
	prints [][]bloomstore.Fingerprint
	size   int
}

const (
	fillBatch = 512     // number of fingerprints of one partition that are added at once
	fillMost  = 1 << 18 // maximum number of fingerprints that are collected in all
)

func newFiller(s *Store) *filler {
	return &filler{store: s, prints: make([][]bloomstore.Fingerprint, len(s.parts))}
}

// put collects a fingerprint. If it adds a batch to a partition's filter, it calls added with the
// number of fingerprints that were new.
func (f *filler) put(ctx context.Context, p *partition, print bloomstore.Fingerprint, added func(*partition, uint64)) error {
	f.prints[p.number] = append(f.prints[p.number], print)
	f.size++
	switch {
	case len(f.prints[p.number]) == fillBatch:
		return f.fill(ctx, p, added)
	case f.size == fillMost:
		return f.flush(ctx, added)
	}
	return nil
}

// flush adds all collected fingerprints.
func (f *filler) flush(ctx context.Context, added func(*partition, uint64)) error {
	for _, p := range f.store.parts {
		if err := f.fill(ctx, p, added); err != nil {
			return err
		}
	}
	return nil
}

func (f *filler) fill(ctx context.Context, p *partition, added func(*partition, uint64)) error {
	prints := f.prints[p.number]
	if len(prints) == 0 {
		return nil
	}
	f.prints[p.number], f.size = prints[:0], f.size-len(prints)
	news, err := p.chain().Filter(f.store.client).AddIfAbsent(ctx, prints)
	if err != nil {
		return f.store.classify(ctx, err)
	}
	n := uint64(0)
	for _, is := range news {
		if is {
			n++
		}
	}
	added(p, n)
	return nil
}
