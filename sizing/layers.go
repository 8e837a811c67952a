package sizing

import (
	"fmt"
	"math"
)

// Layer is one layer of a Chain. At Capacity keys its rate is FPR, and a growing chain
// adds the next layer.
type Layer struct {
	Capacity uint64  // keys
	Bits     uint64  // of one plain filter; shards and blocks need more
	Hashes   uint    // of one plain filter
	FPR      float64 // this layer's part of the chain's rate
}

// firstShare is the part of p that the first layer of a growing chain gets. It is
// large because few crawls have many more keys than their first layer.
const firstShare = 0.9

// LayerAt returns layer i of a chain whose first layer is sized for n keys and whose
// false-positive rate is at most p.
//
// With growth the first layer gets 0.9 p. Layer i >= 1 has twice the capacity of the one
// before and gets 0.1 p·2⁻ⁱ. So the sum over any number of layers stays below p (after
// Almeida et al., "Scalable Bloom Filters", IPL 101, 2007). Without growth layer 0 is
// the only one and gets all of p. LayerAt panics like OptimalBits. It also panics for
// i < 0 and, without growth, for i > 0.
func LayerAt(i int, n uint64, p float64, growth bool) Layer {
	checkRate(p)
	if i < 0 || i > 0 && !growth {
		panic(fmt.Sprintf("sizing: layer %d of a chain with growth %t", i, growth))
	}
	if i >= 63 || n > math.MaxInt64>>i {
		panic(fmt.Sprintf("sizing: layer %d of a chain for %d keys", i, n))
	}
	layer := Layer{Capacity: n << i, FPR: p}
	switch {
	case i > 0:
		layer.FPR = (1 - firstShare) * math.Ldexp(p, -i)
	case growth:
		layer.FPR = firstShare * p
	}
	layer.Bits, layer.Hashes = OptimalBits(layer.Capacity, layer.FPR)
	return layer
}

// Offered returns how many distinct keys must be offered until Capacity of them have
// been added. The others are false positives, which a chain does not count. A key is
// added only if some of its bits are clear, so added keys set more bits than the average
// key. To stay below its rate, a layer must therefore be sized for the number of offered
// keys.
func (l Layer) Offered() uint64 {
	return uint64(math.Ceil(float64(l.Capacity) / (1 - LostWhileFilling(l.Capacity, l.Bits, l.Hashes))))
}

// Chain describes a filter of one or more layers: see LayerAt.
type Chain struct {
	Keys   uint64 // capacity of the first layer
	FPR    float64
	Growth bool // add layers beyond Keys
}

// Fill describes a Chain after Keys distinct keys were offered.
type Fill struct {
	Keys      uint64  `json:"keys"`
	Layers    int     `json:"layers"`
	Bits      uint64  `json:"bits"`       // of all layers
	FPR       float64 `json:"fpr"`        // probability that a new key is a false positive now
	LostShare float64 `json:"lost_share"` // share of Keys that were false positives when they were offered
	LostKeys  float64 `json:"lost_keys"`
}

// At returns the state of the chain after the given number of distinct keys was offered. Each
// key is added to the layer that is the newest when the key is offered. A new key is tested
// against every layer, so the rate is 1 - Π(1-p_i), where p_i is the rate of layer i. At
// panics like LayerAt.
func (c Chain) At(keys uint64) Fill {
	fill := Fill{Keys: keys}
	passes := 1.0 // probability that no earlier layer claims to contain a new key
	for rest := keys; ; fill.Layers++ {
		layer := LayerAt(fill.Layers, c.Keys, c.FPR, c.Growth)
		held := rest
		if c.Growth {
			held = min(rest, layer.Capacity)
		}
		fill.Bits += layer.Bits
		fill.LostKeys += float64(held) * (1 - passes*(1-LostWhileFilling(held, layer.Bits, layer.Hashes)))
		passes *= 1 - FalsePositiveRate(held, layer.Bits, layer.Hashes)
		if rest -= held; rest == 0 {
			break
		}
	}
	fill.Layers++
	fill.FPR = 1 - passes
	if keys > 0 {
		fill.LostShare = fill.LostKeys / float64(keys)
	}
	return fill
}
