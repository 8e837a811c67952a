package sizing

import (
	"fmt"
	"math"
)

// Layer is one filter of a chain that grows: full at Capacity keys, when it
// holds FPR and the next layer begins.
type Layer struct {
	Capacity uint64  // keys
	Bits     uint64  // of one plain filter; a layout adds its own price
	Hashes   uint    // of one plain filter
	FPR      float64 // this layer's part of the chain's rate
}

// firstShare is the part of p that the first layer of a growing chain gets.
// Few crawls outgrow their first layer much, so it gets nearly all.
const firstShare = 0.9

// LayerAt returns layer i of a chain that is made for n keys at a
// false-positive rate of p, however far it grows.
//
// With growth the first layer gets 0.9 p; layer i >= 1 has twice the capacity of
// the one before and gets 0.1 p·2⁻ⁱ, so that the rates of all layers together
// stay below p (after Almeida et al., "Scalable Bloom Filters", IPL 101, 2007).
// Without growth layer 0 gets all of p and there is no other. It panics as
// OptimalBits does, for i < 0, and for i > 0 without growth.
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

// Offered returns how many distinct keys must be offered until Capacity of them
// were new to the layer. A chain counts only those, and as they are the keys that
// found clear bits, they set more of them than others: a layer that is to hold
// its rate is made for as many as were offered.
func (l Layer) Offered() uint64 {
	return uint64(math.Ceil(float64(l.Capacity) / (1 - LostWhileFilling(l.Capacity, l.Bits, l.Hashes))))
}

// Chain is a filter made for Keys keys at a false-positive rate of FPR that
// grows by layers, or does not: see LayerAt.
type Chain struct {
	Keys   uint64
	FPR    float64
	Growth bool
}

// Fill describes a Chain with some number of keys in it.
type Fill struct {
	Keys      uint64  `json:"keys"`
	Layers    int     `json:"layers"`
	Bits      uint64  `json:"bits"`       // of all layers
	FPR       float64 `json:"fpr"`        // that a new key is taken for a known one now
	LostShare float64 `json:"lost_share"` // of Keys, while it was filled
	LostKeys  float64 `json:"lost_keys"`
}

// At returns the state of the chain once keys distinct keys are in it, each in
// the layer that was the last one when it came. A new key is tested against
// every layer, so the rate is 1 - Π(1-p_i). It panics as LayerAt does.
func (c Chain) At(keys uint64) Fill {
	fill := Fill{Keys: keys}
	passes := 1.0 // the chance that a new key passes the layers before
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
