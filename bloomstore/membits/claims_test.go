package membits

import (
	"slices"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// TestClaimsOfLayers: a key is claimed by the layer to which it was added, and it is
// known if any layer claims it.
func TestClaimsOfLayers(t *testing.T) {
	f, err := New(Config{Capacity: 64, FPR: 1e-3, Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	var hasher bloomstore.Hasher
	layers := make(map[int]bool)
	for i := range 1000 {
		print := hasher.Fingerprint(string(rune(i)))
		if f.Has(print) != slices.Contains(f.Claims(print), true) {
			t.Errorf("key %d: Has = %t, Claims = %v; want true if a layer claims it", i, f.Has(print), f.Claims(print))
		}
		number, _ := f.Add(print)
		if claims := f.Claims(print); len(claims) != len(f.Stats().Layers) || !claims[number] {
			t.Errorf("key %d was added to layer %d of %d, but Claims = %v", i, number, len(f.Stats().Layers), claims)
		}
		layers[number] = true
	}
	if len(layers) < 3 {
		t.Errorf("keys were added to %d layers, want at least 3", len(layers))
	}
}
