package redisstore

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/redisbits"
)

// Stats implements frontier.Inspector. The counters of each partition are of one moment, but those
// of different partitions are not. The books balance nevertheless, because the counters of each
// partition balance.
func (s *Store) Stats(ctx context.Context) (frontier.Stats, error) {
	stats, err := s.Counters(ctx)
	if err != nil {
		return frontier.Stats{}, err
	}
	filter, err := s.survey(ctx)
	if err != nil {
		return frontier.Stats{}, err
	}
	stats.Filter = frontier.FilterStats{
		Capacity: filter.Capacity, Keys: filter.Keys, Layers: len(filter.Layers), Bytes: filter.Bytes, FPR: filter.FPR,
	}
	return stats, nil
}

// Counters returns the same as Stats, but with an empty Filter. So it reads no blocks
// of the filter.
func (s *Store) Counters(ctx context.Context) (frontier.Stats, error) {
	stats := newStats()
	metas, err := s.readMetas(ctx)
	if err != nil {
		return stats, err
	}
	for _, meta := range metas {
		addMeta(&stats, meta)
	}
	stats.Paused, err = s.paused(ctx)
	return stats, err
}

func newStats() frontier.Stats {
	return frontier.Stats{
		Books:    frontier.Books{Refused: make(map[frontier.Reason]uint64)},
		Outcomes: make(map[frontier.Outcome]uint64),
		Causes:   make(map[string]uint64),
	}
}

func (s *Store) readMetas(ctx context.Context) ([]map[string]string, error) {
	cmds, err := pipelined(ctx, s.client, s.parts, func(pipe redis.Pipeliner, p *partition) *redis.MapStringStringCmd {
		return pipe.HGetAll(ctx, p.meta)
	})
	if err != nil {
		return nil, s.classify(ctx, err)
	}
	metas := make([]map[string]string, len(cmds))
	for i, cmd := range cmds {
		metas[i] = cmd.Val()
	}
	return metas, nil
}

// addMeta adds the counters of one partition to stats.
func addMeta(stats *frontier.Stats, meta map[string]string) {
	counters := countersOf(stats)
	for field, value := range meta {
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			continue // a field of the filter's chain, or the epoch
		}
		if reason, ok := strings.CutPrefix(field, fieldRefused); ok {
			stats.Refused[frontier.Reason(reason)] += n
		} else if outcome, ok := strings.CutPrefix(field, fieldOutcome); ok {
			stats.Outcomes[frontier.Outcome(outcome)] += n
		} else if cause, ok := strings.CutPrefix(field, fieldCause); ok {
			stats.Causes[cause] += n
		} else if isAdded(field) {
			stats.Added += n
			stats.Found += n
		} else if counter := counters[field]; counter != nil {
			*counter += n
		}
	}
}

// isAdded reports whether a field counts items that a worker added.
func isAdded(field string) bool {
	number, ok := strings.CutPrefix(field, fieldAdded)
	_, err := strconv.ParseUint(number, 10, 64)
	return ok && err == nil
}

// countersOf returns pointers to the counters of stats, by their fields in partition.meta.
func countersOf(stats *frontier.Stats) map[string]*uint64 {
	return map[string]*uint64{
		fieldOther:           &stats.Found,
		fieldSeen:            &stats.Seen,
		fieldQueued:          &stats.Queued,
		fieldLeased:          &stats.Leased,
		fieldDone:            &stats.Done,
		fieldFailed:          &stats.Failed,
		fieldDelayed:         &stats.Delayed,
		fieldChecks:          &stats.Checks.Added,
		fieldChecksQueued:    &stats.Checks.Queued,
		fieldChecksLeased:    &stats.Checks.Leased,
		fieldHosts:           &stats.Hosts,
		fieldRetries:         &stats.Retries,
		fieldPages:           &stats.Pages,
		fieldPagesAgain:      &stats.PagesAgain,
		fieldFailedAgain:     &stats.FailedAgain,
		fieldBytes:           &stats.Bytes,
		fieldRecords:         &stats.Records,
		fieldRepeats:         &stats.Repeats,
		fieldPromoted:        &stats.Promoted,
		fieldRecovered:       &stats.Recovered,
		fieldShadowNew:       &stats.Shadow.New,
		fieldShadowLost:      &stats.Shadow.Lost,
		fieldShadowForgotten: &stats.Shadow.Forgotten,
	}
}

// survey returns statistics of the filter that are computed from a sample of its blocks.
func (s *Store) survey(ctx context.Context) (redisbits.Stats, error) {
	chains := make([]*redisbits.Chain, len(s.parts))
	for i, p := range s.parts {
		chains[i] = p.chain()
	}
	stats, err := redisbits.Survey(ctx, s.client, chains)
	return stats, s.classify(ctx, err)
}

// FilterLayers returns the sizes and fill of the filter's layers, oldest first. Each element is the
// sum of the layers with the same number in all partitions.
func (s *Store) FilterLayers(ctx context.Context) ([]frontier.FilterLayer, error) {
	stats, err := s.survey(ctx)
	if err != nil {
		return nil, err
	}
	layers := make([]frontier.FilterLayer, len(stats.Layers))
	for i, l := range stats.Layers {
		layers[i] = frontier.FilterLayer{Keys: l.Keys, Capacity: l.Capacity, Bits: l.Bits, Hashes: uint(l.Hashes),
			Fill: l.Fill, FPR: l.FPR, Target: l.Target}
	}
	return layers, nil
}

// probeBatch is the number of fingerprints in a step of Probe.
const probeBatch = 4096

// Probe tests up to n random fingerprints with the filters of random partitions. It returns how
// many of them the filters claimed to contain, and how many it tested. A random fingerprint is
// like the fingerprint of a URL that was never offered, because fingerprints are keyed and
// uniform. Probe stops early when ctx ends, without an error. It changes nothing.
func (s *Store) Probe(ctx context.Context, n uint64) (claimed, probes uint64, err error) {
	asks := make([]redisbits.Ask, probeBatch)
	reader := redisbits.NewReader(s.client)
	for probes < n && ctx.Err() == nil {
		batch := asks[:min(n-probes, probeBatch)]
		for i := range batch {
			var print bloomstore.Fingerprint
			binary.LittleEndian.PutUint64(print[:8], rand.Uint64())
			binary.LittleEndian.PutUint64(print[8:], rand.Uint64())
			batch[i] = redisbits.Ask{Print: print, Chain: s.parts[rand.IntN(len(s.parts))].chain()}
		}
		if err := reader.Read(ctx, batch); err != nil {
			if endOf(ctx) != nil {
				break
			}
			return claimed, probes, s.classify(ctx, err)
		}
		for i := range batch {
			if batch[i].Known {
				claimed++
			}
		}
		probes += uint64(len(batch))
	}
	return claimed, probes, nil
}
