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

// Rebuild rebuilds the filter of the crawl cfg.Name after it was lost. It adds the URLs of records,
// and the items that are queued, leased, failed or in an exact set. The caller must pass all
// records that the crawl's workers ever wrote. Other URLs are new to the crawl afterwards.
//
// If partitions have lost their counters, too, Rebuild restores their counters and their lists of
// failed items from the same sources. After Recreate, Rebuild restores every partition that the
// servers have lost. It needs some hundred bytes of memory for each failed item. If Rebuild is
// interrupted, the crawl cannot be opened until Rebuild has been called again.
//
// Rebuild returns ErrNoCrawl if there is no crawl of that name, and frontier.ErrLocked if the
// crawl has live workers.
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
	r := &rebuild{Store: s, fresh: make([]uint64, len(s.parts)), pasts: make([]*past, len(s.parts))}
	r.known = s.newFilterFiller(r.fresh)
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
	known *filler  // adds fingerprints to the filters
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
		if !slices.Contains(fields, fieldEpoch) { // every partition has this field, unless its counters were lost
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

// fillFromStructures adds queued, leased, failed, exact and sampled items. With an exact set,
// partition.exact has only queued and leased items, so it is computed from them.
func (r *rebuild) fillFromStructures(ctx context.Context) error {
	sets := func(p *partition) []string { return []string{p.exact, p.shadow} }
	var waiting *filler // fills partition.exact
	if r.cfg.Exact != nil {
		sets = func(p *partition) []string { return []string{p.shadow} }
		var err error
		if waiting, err = r.newExactFiller(ctx); err != nil {
			return err
		}
	}
	for _, state := range []frontier.State{frontier.Queued, frontier.Leased, frontier.Failed} {
		for item, err := range r.items(ctx, state, "") {
			if err != nil {
				return err
			}
			p := r.partition(item.Host)
			r.pasts[p.number].meet(&item, state)
			if err := r.known.put(ctx, p, item.Fingerprint); err != nil {
				return err
			}
			if waiting != nil && state != frontier.Failed && (item.Class != frontier.Bulk || item.Round > 0) {
				if err := waiting.put(ctx, p, item.Fingerprint); err != nil {
					return err
				}
			}
		}
	}
	if waiting != nil {
		if err := waiting.flush(ctx); err != nil {
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
	return r.known.flush(ctx)
}

func (r *rebuild) fillFromSet(ctx context.Context, p *partition, key string) error {
	members := r.client.SScan(ctx, key, 0, "", scanStep).Iterator()
	for members.Next(ctx) {
		member := []byte(members.Val())
		if len(member) != len(bloomstore.Fingerprint{}) {
			continue
		}
		if err := r.known.put(ctx, p, bloomstore.Fingerprint(member)); err != nil {
			return err
		}
	}
	return r.classify(ctx, members.Err())
}

// MarkSeen marks URLs as seen without queueing them. Later offers of them are answered Seen, except
// that an exact item is promoted. MarkSeen returns how many URLs were new to the filter. Marked
// URLs do not count as found or added. A queued or leased URL stays queued or leased.
//
// MarkSeen takes effect in steps of some hundred URLs. After an error, the URLs of earlier steps
// are marked. Marking a URL twice has no further effect.
func (s *Store) MarkSeen(ctx context.Context, known []SeenURL) (fresh int, err error) {
	news := make([]uint64, len(s.parts))
	f := s.newFilterFiller(news)
	step := context.WithoutCancel(ctx) // a step that has begun is completed, so that all URLs that it marks are counted
	for _, k := range known {
		if err = context.Cause(ctx); err != nil {
			break
		}
		if err = f.put(step, s.partition(k.Host), s.hasher.Fingerprint(k.URL)); err != nil {
			break
		}
	}
	if err == nil {
		err = f.flush(step)
	}
	for number, n := range news {
		if n == 0 {
			continue
		}
		fresh += int(n)
		counted := s.write(step, "HINCRBY", s.parts[number].meta, fieldKnown, n).Err()
		err = errors.Join(err, s.classify(step, counted))
	}
	return fresh, err
}

// filler collects fingerprints by partition and adds them to structures of the partitions in
// batches.
type filler struct {
	parts  []*partition
	add    func(context.Context, *partition, []bloomstore.Fingerprint) error // adds a batch
	prints [][]bloomstore.Fingerprint                                        // by partition
	size   int
}

const (
	fillBatch = 512     // number of fingerprints of one partition that are added at once
	maxFilled = 1 << 18 // maximum number of fingerprints that are collected in total
)

func newFiller(parts []*partition, add func(context.Context, *partition, []bloomstore.Fingerprint) error) *filler {
	return &filler{parts: parts, add: add, prints: make([][]bloomstore.Fingerprint, len(parts))}
}

// newFilterFiller returns a filler of the partitions' filters. The filler adds to fresh, by
// partition, how many fingerprints were new to the filter.
func (s *Store) newFilterFiller(fresh []uint64) *filler {
	return newFiller(s.parts, func(ctx context.Context, p *partition, prints []bloomstore.Fingerprint) error {
		news, err := p.chain().Filter(s.client).AddIfAbsent(ctx, prints)
		if err != nil {
			return s.classify(ctx, err)
		}
		for _, is := range news {
			if is {
				fresh[p.number]++
			}
		}
		return nil
	})
}

// put collects a fingerprint, and adds a batch if enough fingerprints are collected.
func (f *filler) put(ctx context.Context, p *partition, print bloomstore.Fingerprint) error {
	f.prints[p.number] = append(f.prints[p.number], print)
	f.size++
	switch {
	case len(f.prints[p.number]) == fillBatch:
		return f.fill(ctx, p)
	case f.size == maxFilled:
		return f.flush(ctx)
	}
	return nil
}

func (f *filler) flush(ctx context.Context) error {
	for _, p := range f.parts {
		if err := f.fill(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (f *filler) fill(ctx context.Context, p *partition) error {
	prints := f.prints[p.number]
	if len(prints) == 0 {
		return nil
	}
	f.prints[p.number], f.size = prints[:0], f.size-len(prints)
	return f.add(ctx, p, prints)
}
