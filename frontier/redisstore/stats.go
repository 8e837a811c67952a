package redisstore

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/redisbits"
)

// Stats implements frontier.Inspector. The counters of each partition are of one moment, but those
// of different partitions are not. The sum balances nevertheless, because each partition does.
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

// Counters returns Stats without Filter, for which it would have to read blocks of the filter.
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
	}
}

// readMetas reads the counters of all partitions.
func (s *Store) readMetas(ctx context.Context) ([]map[string]string, error) {
	pipe := s.client.Pipeline()
	cmds := make([]*redis.MapStringStringCmd, len(s.parts))
	for i, p := range s.parts {
		cmds[i] = pipe.HGetAll(ctx, p.meta)
	}
	if _, err := pipe.Exec(ctx); err != nil {
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
	for field, value := range meta {
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			continue // a field of the filter's chain, or the epoch
		}
		if reason, ok := strings.CutPrefix(field, fieldRefused); ok {
			stats.Refused[frontier.Reason(reason)] += n
		} else if outcome, ok := strings.CutPrefix(field, fieldOutcome); ok {
			stats.Outcomes[frontier.Outcome(outcome)] += n
		} else if isAdded(field) {
			stats.Added += n
			stats.Found += n
		} else if counter := counterOf(stats, field); counter != nil {
			*counter += n
		}
	}
}

// isAdded reports whether a field counts items that a worker added.
func isAdded(field string) bool {
	number, ok := strings.CutPrefix(field, fieldAdded)
	if !ok || number == "" {
		return false
	}
	for _, c := range []byte(number) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// counterOf returns the counter of stats for a field of meta, or nil.
func counterOf(stats *frontier.Stats, field string) *uint64 {
	switch field {
	case fieldOther:
		return &stats.Found
	case fieldSeen:
		return &stats.Seen
	case fieldQueued:
		return &stats.Queued
	case fieldLeased:
		return &stats.Leased
	case fieldDone:
		return &stats.Done
	case fieldFailed:
		return &stats.Failed
	case fieldDelayed:
		return &stats.Delayed
	case fieldHosts:
		return &stats.Hosts
	case fieldRetries:
		return &stats.Retries
	case fieldPages:
		return &stats.Pages
	case fieldRecords:
		return &stats.Records
	case fieldPromoted:
		return &stats.Promoted
	case fieldRecovered:
		return &stats.Recovered
	case fieldOutbox:
		return &stats.Outbox
	case fieldShadowNew:
		return &stats.Shadow.New
	case fieldShadowLost:
		return &stats.Shadow.Lost
	case fieldShadowForgotten:
		return &stats.Shadow.Forgotten
	}
	return nil
}

// survey returns statistics of the filter from a sample of its blocks.
func (s *Store) survey(ctx context.Context) (redisbits.Stats, error) {
	chains := make([]*redisbits.Chain, len(s.parts))
	for i, p := range s.parts {
		chains[i] = p.chain()
	}
	stats, err := redisbits.Survey(ctx, s.client, chains, 0)
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
// many these claimed, and how many it tested. A random fingerprint is like that of a URL that was
// never offered, because fingerprints are keyed and uniform. Probe stops early when ctx ends,
// without an error. It changes nothing.
func (s *Store) Probe(ctx context.Context, n uint64) (claimed, probes uint64, err error) {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rand.Uint32())
	}
	random := rand.NewChaCha8(seed)
	asks := make([]redisbits.Ask, probeBatch)
	reader := redisbits.NewReader(s.client)
	for probes < n && ctx.Err() == nil {
		batch := asks[:min(n-probes, probeBatch)]
		for i := range batch {
			var print bloomstore.Fingerprint
			_, _ = random.Read(print[:])
			batch[i] = redisbits.Ask{Print: print, Chain: s.parts[random.Uint64()%uint64(len(s.parts))].chain()}
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
