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
