package fpr

import (
	"math/rand/v2"
	"slices"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/bloomrate"
	"github.com/bloomfrontier/crawler/internal/redisbits"
	"github.com/bloomfrontier/crawler/sizing"
)

// draws generates the keys of a Case, which are random fingerprints. If the case has hosts,
// each host belongs to one partition, and the number of keys of a partition is about the sum
// of the keys of its hosts.
type draws struct {
	rng       *rand.Rand
	weights   []uint64 // of each partition; nil means that all fingerprints are accepted
	maxWeight uint64   // the largest weight
	loads     []uint64 // number of keys drawn so far for each partition; nil without weights
}

func newDraws(c Case, rng *rand.Rand) *draws {
	d := &draws{rng: rng}
	if c.Hosts > 0 {
		d.weights = sizing.ZipfLoads(c.Keys, c.Hosts, c.Partitions)
		d.maxWeight = slices.Max(d.weights)
		d.loads = make([]uint64, c.Partitions)
	}
	return d
}

// keys is a function of the type bloomrate.Keys. If partitions have weights, keys uses
// rejection sampling: the probability that it accepts a fingerprint is the weight of the
// fingerprint's partition, divided by the largest weight. So whether a fingerprint is
// accepted depends only on its partition. The bits that a filter sets for a fingerprint do
// not depend on the partition, so the sampling does not bias these bits.
func (d *draws) keys(prints []bloomstore.Fingerprint) []bloomstore.Fingerprint {
	if d.weights == nil {
		return bloomrate.Random(d.rng, prints)
	}
	for i := range prints {
		for {
			bloomrate.Random(d.rng, prints[i:i+1])
			partition := redisbits.PartitionOf(prints[i], len(d.weights))
			if d.rng.Uint64N(d.maxWeight) < d.weights[partition] {
				d.loads[partition]++
				break
			}
		}
	}
	return prints
}
