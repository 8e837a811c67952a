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

// Stats describe chains at about one moment. The fill is estimated from random blocks.
type Stats struct {
	Keys      uint64       // keys added
	Capacity  uint64       // keys that the layers so far are made for
	Bytes     uint64       // of all segments; Redis adds its own, see sizing.SizeRedis
	FPR       float64      // probability that a key never added is claimed, if chains are asked evenly
	FPRStdErr float64      // standard error of FPR: that of the sample
	Estimate  float64      // of Keys, from the fill instead of the count
	StdErr    float64      // standard error of Estimate
	Layers    []LayerStats // oldest first
}

// LayerStats describe the layers of one number of all chains together.
type LayerStats struct {
	Chains   int     // that have the layer
	Keys     uint64  // keys added
	Capacity uint64  // keys that they are made for
	Bits     uint64  // of all their blocks
	Hashes   int     // bits of one key
	Sampled  int     // blocks that the following is computed from
	Fill     float64 // share of the bits that is set
	FPR      float64 // probability that the layer claims a key never added to its chain
	StdErr   float64 // standard error of FPR
	Estimate float64 // number of distinct keys that explains the set bits
	Target   float64 // what FPR will be at Capacity
}

// DefaultSample is the number of blocks of each layer that Stats reads, which gives
// a false-positive rate of 1e-6 to some percent.
const DefaultSample = 16384

// Stats reads sample random blocks of each layer, 0 means DefaultSample, and the
// counts of all chains.
func (f *Filter) Stats(ctx context.Context, sample int) (Stats, error) {
	stats, err := Survey(ctx, f.client, f.chains, sample)
	if err != nil {
		return Stats{}, fmt.Errorf("stats of a filter: %w", err)
	}
	return stats, nil
}

// Survey returns the Stats of chains of one Layout, which must be open. It reads
// their numbers of layers, then sample random blocks of each layer; 0 means
// DefaultSample.
func Survey(ctx context.Context, client redis.UniversalClient, chains []*Chain, sample int) (Stats, error) {
	if sample <= 0 {
		sample = DefaultSample
	}
	if err := refresh(ctx, client, chains); err != nil {
		return Stats{}, err
	}
	var s Stats
	variance, absent, spread := 0.0, 1.0, 0.0
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
		layer, stderr, err := surveyLayer(ctx, client, keyed, records, sample)
		if err != nil {
			return Stats{}, err
		}
		share := float64(len(keyed)) / float64(len(chains))
		absent *= 1 - share*layer.FPR
		spread += share * share * layer.StdErr * layer.StdErr
		variance += stderr * stderr
		s.Keys += layer.Keys
		s.Capacity += layer.Capacity
		s.Bytes += uint64(len(keyed)*keyed[0].Segments) * uint64(keyed[0].SegmentBytes)
		s.Estimate += layer.Estimate
		s.Layers = append(s.Layers, layer)
	}
	s.FPR, s.FPRStdErr, s.StdErr = 1-absent, math.Sqrt(spread), math.Sqrt(variance)
	return s, nil
}

// surveyLayer describes keyed, which have one shape. stderr is that of Estimate.
func surveyLayer(ctx context.Context, client redis.UniversalClient, keyed []*keyedLayer, records []string, sample int) (s LayerStats, stderr float64, err error) {
	shape := keyed[0]
	s = LayerStats{
		Chains: len(keyed), Hashes: shape.Hashes, Target: shape.FPR, Sampled: sample,
		Capacity: shape.Capacity * uint64(len(keyed)), Bits: shape.Bits() * uint64(len(keyed)),
	}
	if s.Keys, err = sumKeys(ctx, client, records, shape.layers); err != nil {
		return s, 0, err
	}
	blockBits := float64(shape.BlockBytes * 8)
	var rate, keys, noise moments
	err = sampleBlocks(ctx, client, keyed, sample, func(set int) {
		fill := float64(set) / blockBits
		s.Fill += fill / float64(sample)
		rate.add(math.Pow(fill, float64(shape.Hashes)))
		// A full block only shows that it has many keys; it counts as nearly full.
		keys.add(-math.Log1p(-min(fill, 1-1/(2*blockBits))) * blockBits / float64(shape.Hashes))
		// The count of one block is an estimate itself, however many blocks are read.
		_, own := sizing.Cardinality(min(uint64(set), uint64(blockBits)-1), uint64(blockBits), uint(shape.Hashes))
		noise.add(own * own)
	})
	blocks := float64(s.Bits) / blockBits
	s.FPR, s.StdErr = rate.mean(), rate.stderr()
	s.Estimate = keys.mean() * blocks
	// If there are few keys, all may lie in blocks that were not read. Then the
	// sample shows no spread either. One key in the sample stands for that many.
	unseen := 0.0
	if s.Keys > 0 {
		unseen = blocks / float64(sample)
	}
	return s, math.Sqrt(math.Pow(keys.stderr()*blocks, 2) + unseen*unseen + noise.mean()*blocks), err
}

// sumKeys adds up the counts of the records for the layer that layers names.
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

// sampleBlocks calls visit with the number of bits that are set in each of sample
// blocks of keyed, drawn with replacement. It counts here and not by BITCOUNT, so
// that a short block is noticed.
func sampleBlocks(ctx context.Context, client redis.UniversalClient, keyed []*keyedLayer, sample int, visit func(set int)) error {
	shape := keyed[0]
	for sample > 0 {
		n := min(sample, maxPipeline)
		sample -= n
		pipe := client.Pipeline()
		keys := make([]string, n)
		for i := range n {
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

// moments are count, sum and sum of squares.
type moments struct{ n, sum, squares float64 }

func (m *moments) add(x float64) { m.n++; m.sum += x; m.squares += x * x }

func (m *moments) mean() float64 { return m.sum / m.n }

// stderr returns the standard error of the mean.
func (m *moments) stderr() float64 {
	mean := m.mean()
	return math.Sqrt(max(m.squares/m.n-mean*mean, 0) / m.n)
}
