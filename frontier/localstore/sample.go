package localstore

import (
	"context"
	"maps"
	"math/rand/v2"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// compareSample compares the filter's claim about an offered URL with the shadow sample,
// which contains one key in 1,024. The errors of compareSample are fatal.
func (g *group) compareSample(print bloomstore.Fingerprint, claimed bool) error {
	if !print.Sampled() {
		return nil
	}
	known := g.sampled[print]
	if !known {
		row, err := g.get(shadowKey(print))
		if err != nil {
			return err
		}
		known = g.inSample(row)
	}
	stats := &g.meta.Stats.Shadow
	switch {
	case known && !claimed:
		stats.Forgotten++
	case !known && claimed:
		stats.Lost++
	case !known:
		stats.New++
	}
	if !known {
		g.sample(print)
	}
	return nil
}

func (g *group) sample(print bloomstore.Fingerprint) {
	g.set(shadowKey(print), g.sampleValue(print))
	g.sampled[print] = true
}

// Counters returns Stats without the filter, whose bits take time to count.
func (s *Store) Counters(ctx context.Context) (frontier.Stats, error) {
	var stats frontier.Stats
	err := s.ask(ctx, func(g *group) {
		stats = g.meta.Stats
		stats.Refused, stats.Outcomes, stats.Causes = maps.Clone(stats.Refused), maps.Clone(stats.Outcomes), maps.Clone(stats.Causes)
	})
	if err != nil { // the committer might still use stats
		return frontier.Stats{}, err
	}
	return stats, nil
}

// Probe tests up to n random fingerprints with the filter. It returns how many the filter
// claimed to contain, and how many it tested. Random fingerprints stand for new URLs,
// because the secret key of the crawl makes the fingerprints of URLs look random. Probe
// stops early when ctx ends, without an error. It changes nothing.
func (s *Store) Probe(ctx context.Context, n uint64) (claimed, probes uint64, err error) {
	if err := s.Err(); err != nil {
		return 0, 0, err
	}
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rand.Uint32())
	}
	random := rand.NewChaCha8(seed)
	var print bloomstore.Fingerprint
	for ; probes < n; probes++ {
		if probes%4096 == 0 && ctx.Err() != nil {
			break
		}
		_, _ = random.Read(print[:])
		if s.filter.Has(print) {
			claimed++
		}
	}
	return claimed, probes, nil
}

// FilterBytes returns the size of the filter's layers in bytes.
func (s *Store) FilterBytes() uint64 { return s.filter.Bytes() }

// FilterLayers returns the sizes and fill of the filter's layers, oldest first.
func (s *Store) FilterLayers() []frontier.FilterLayer {
	stats := s.filter.Stats()
	layers := make([]frontier.FilterLayer, len(stats.Layers))
	for i, l := range stats.Layers {
		layers[i] = frontier.FilterLayer{Keys: l.Keys, Capacity: l.Capacity, Bits: l.Bits, Hashes: l.Hashes,
			Fill: l.Fill, FPR: l.FPR, Target: l.Target, Generation: l.Generation}
	}
	return layers
}
