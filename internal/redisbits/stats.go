package redisbits

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/sizing"
)

// Stats describe all chains of a filter. They are collected while keys may be added. The fill
// is estimated from random blocks.
type Stats struct {
	Keys     uint64       // keys added
	Capacity uint64       // keys that the layers so far are sized for
	Bytes    uint64       // of all segments; Redis takes some more, see sizing.SizeRedis
	FPR      float64      // probability that the filter claims to contain a key that was never added; look-ups are evenly spread over the chains
	Estimate float64      // estimate of Keys, computed from the fill
	StdErr   float64      // standard error of Estimate
	Layers   []LayerStats // oldest first
}

// LayerStats describe the layers with the same number in all chains, for example all first
// layers. The figures are sums or means over the chains.
type LayerStats struct {
	Chains   int     // number of chains that have the layer
	Keys     uint64  // keys added
	Capacity uint64  // keys that the layers are sized for
	Bits     uint64  // of all their blocks
	Hashes   int     // number of bits that are set for one key
	Fill     float64 // share of the bits that is set
	FPR      float64 // probability that the layer claims a key never added to its chain
	Estimate float64 // number of distinct keys offered, computed from the fill
	Target   float64 // FPR at Capacity
}

// sample is the number of blocks that Stats reads of each layer. It is enough to measure a
// false-positive rate of 1e-6 with an error of some percent.
const sample = 16384

// Stats reads the counts of all chains and some random blocks of each layer.
func (f *Filter) Stats(ctx context.Context) (Stats, error) {
	stats, err := Survey(ctx, f.client, f.chains)
	if err != nil {
		return Stats{}, fmt.Errorf("stats of a filter: %w", err)
	}
	return stats, nil
}

// Survey returns the Stats of chains, which must be open and have one Layout. It reads their
// numbers of layers, and some random blocks of each layer.
func Survey(ctx context.Context, client redis.UniversalClient, chains []*Chain) (Stats, error) {
	if err := refresh(ctx, client, chains); err != nil {
		return Stats{}, err
	}
	var s Stats
	variance, absent := 0.0, 1.0
	for number := 0; ; number++ {
		var keyed []*keyedLayer
		var records []string
		for _, c := range chains {
			if known := *c.keyed.Load(); number < len(known) {
				keyed, records = append(keyed, known[number]), append(records, c.Record())
			}
		}
		if len(keyed) == 0 {
			break
		}
		layer, stderr, err := surveyLayer(ctx, client, keyed, records)
		if err != nil {
			return Stats{}, err
		}
		absent *= 1 - layer.FPR*float64(len(keyed))/float64(len(chains))
		variance += stderr * stderr
		s.Keys += layer.Keys
		s.Capacity += layer.Capacity
		s.Bytes += uint64(len(keyed)*keyed[0].Segments) * uint64(keyed[0].SegmentBytes)
		s.Estimate += layer.Estimate
		s.Layers = append(s.Layers, layer)
	}
	s.FPR, s.StdErr = 1-absent, math.Sqrt(variance)
	return s, nil
}

// surveyLayer describes the layers in keyed, which have the same shape. The result stderr is the
// standard error of Estimate.
func surveyLayer(ctx context.Context, client redis.UniversalClient, keyed []*keyedLayer, records []string) (s LayerStats, stderr float64, err error) {
	shape := keyed[0]
	s = LayerStats{
		Chains: len(keyed), Hashes: shape.Hashes, Target: shape.FPR,
		Capacity: shape.Capacity * uint64(len(keyed)), Bits: shape.Bits() * uint64(len(keyed)),
	}
	if s.Keys, err = sumKeys(ctx, client, records, shape.layers); err != nil {
		return s, 0, err
	}
	blockBits := float64(shape.BlockBytes * 8)
	var keys, noise moments
	err = sampleBlocks(ctx, client, keyed, func(set int) {
		fill := float64(set) / blockBits
		s.Fill += fill / sample
		s.FPR += math.Pow(fill, float64(shape.Hashes)) / sample
		// A full block does not show how many keys it has, so it counts as nearly full.
		keys.add(-math.Log1p(-min(fill, 1-1/(2*blockBits))) * blockBits / float64(shape.Hashes))
		// The number of keys of one block is an estimate with an error of its own.
		_, own := sizing.Cardinality(min(uint64(set), uint64(blockBits)-1), uint64(blockBits), uint(shape.Hashes))
		noise.add(own * own)
	})
	blocks := float64(s.Bits) / blockBits
	s.Estimate = keys.mean() * blocks
	// If there are few keys, all of them may be in blocks that were not read. Then keys.stderr()
	// is 0, which is too low. A key in the sample counts as blocks/sample keys, so the error is
	// at least blocks/sample.
	unseen := 0.0
	if s.Keys > 0 {
		unseen = blocks / sample
	}
	return s, math.Sqrt(math.Pow(keys.stderr()*blocks, 2) + unseen*unseen + noise.mean()*blocks), err
}

// sumKeys returns the number of keys that were added to one layer of several chains, whose
// records are given. The argument layers is the number of layers up to this layer, in decimal.
func sumKeys(ctx context.Context, client redis.UniversalClient, records []string, layers string) (sum uint64, err error) {
	pipe := client.Pipeline()
	for _, record := range records {
		pipe.HMGet(ctx, record, "keys"+layers) // returns a list, so that a missing count is no error
	}
	replies, err := pipe.Exec(ctx)
	if err != nil {
		return 0, pipeError(err, replies)
	}
	for i, reply := range replies {
		count, ok := reply.(*redis.SliceCmd).Val()[0].(string)
		if !ok { // no key was added yet
			continue
		}
		n, err := strconv.ParseUint(count, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("key %q counts %q keys: %w", records[i], count, err)
		}
		sum += n
	}
	return sum, nil
}

// sampleBlocks reads random blocks of the layers in keyed, and calls visit with the number of
// bits that are set in each. A block can be read several times. sampleBlocks does not use
// BITCOUNT, which would not show that a block is short.
func sampleBlocks(ctx context.Context, client redis.UniversalClient, keyed []*keyedLayer, visit func(set int)) error {
	shape := keyed[0]
	for range sample / maxPipeline {
		pipe := client.Pipeline()
		keys := make([]string, maxPipeline)
		for i := range keys {
			t := keyed[rand.IntN(len(keyed))]
			keys[i] = t.keys[rand.IntN(len(t.keys))]
			from := HeaderBytes + int64(rand.Uint64N(shape.blocks))*int64(shape.BlockBytes)
			pipe.GetRange(ctx, keys[i], from, from+int64(shape.BlockBytes)-1)
		}
		replies, err := pipe.Exec(ctx)
		if err != nil {
			return pipeError(err, replies)
		}
		for i, reply := range replies {
			block := reply.(*redis.StringCmd).Val()
			if len(block) != shape.BlockBytes {
				return shortBlock(keys[i], len(block), shape.BlockBytes)
			}
			set := 0
			for _, b := range []byte(block) {
				set += bits.OnesCount8(b)
			}
			visit(set)
		}
	}
	return nil
}

// moments are the count, the sum and the sum of squares of some numbers.
type moments struct{ n, sum, squares float64 }

func (m *moments) add(x float64) { m.n++; m.sum += x; m.squares += x * x }

func (m *moments) mean() float64 { return m.sum / m.n }

// stderr returns the standard error of the mean.
func (m *moments) stderr() float64 {
	mean := m.mean()
	return math.Sqrt(max(m.squares/m.n-mean*mean, 0) / m.n)
}
