package sizing

import "testing"

// The functions below determine the layout of stored filters. If a value changes, the
// format changes, and docs/design/filter.md needs a new version.

func TestLayersGolden(t *testing.T) {
	for _, c := range []struct {
		layer   int
		keys    uint64
		p       float64
		growth  bool
		want    Layer
		offered uint64
	}{
		{0, 1_000_000, 1e-6, true, Layer{1_000_000, 28974625, 20, 0x1.e32f0ee144531p-21}, 1_000_001},
		{1, 1_000_000, 1e-6, true, Layer{2_000_000, 69983178, 24, 0x1.ad7f29abcaf48p-25}, 2_000_001},
		{5, 1_000_000, 1e-6, true, Layer{32_000_000, 1304390347, 28, 0x1.ad7f29abcaf48p-29}, 32_000_001},
		{0, 1_000_000, 1e-6, false, Layer{1_000_000, 28755279, 20, 1e-6}, 1_000_001},
		{0, 250_000, 0.01, true, Layer{250_000, 2451742, 7, 0x1.26e978d4fdf3cp-7}, 250_372},
		{3, 250_000, 0.01, true, Layer{2_000_000, 37411426, 13, 0x1.0624dd2f1a9fcp-13}, 2_000_025},
		{0, 10_000_000_000, 1e-9, true, Layer{10_000_000_000, 433520927724, 30, 0x1.eec7bd512b573p-31}, 10_000_000_001},
		{0, 1, 0.5, true, Layer{1, 2, 1, 0x1.ccccccccccccdp-2}, 1},
	} {
		layer := LayerAt(c.layer, c.keys, c.p, c.growth)
		if layer != c.want || layer.Offered() != c.offered {
			t.Errorf("LayerAt(%d, %d, %g, %t) = %+v with Offered %d, want %+v with Offered %d",
				c.layer, c.keys, c.p, c.growth, layer, layer.Offered(), c.want, c.offered)
		}
	}
}

func TestShardsGolden(t *testing.T) {
	for _, c := range []struct {
		keys   uint64
		p      float64
		shards uint64
		bits   uint64
		hashes uint
	}{
		{1_000_000, 9e-7, 64, 452928, 20}, {2_000_000, 5e-8, 64, 1093824, 24}, {250_000, 0.009, 64, 38336, 7},
		{100, 0.5, 64, 64, 1}, {10_000_000_000, 9e-10, 64, 6773764928, 30}, {1000, 1e-6, 1, 28800, 20},
	} {
		if bits, k := ShardedBits(c.keys, c.p, c.shards); bits != c.bits || k != c.hashes {
			t.Errorf("ShardedBits(%d, %g, %d) = %d, %d; want %d, %d", c.keys, c.p, c.shards, bits, k, c.bits, c.hashes)
		}
	}
}

func TestBlocksGolden(t *testing.T) {
	for _, c := range []struct {
		p      float64
		block  int
		bits   float64
		hashes uint
	}{
		{0.01, 1024, 0x1.38588688b21e2p+3, 7}, {9e-7, 1024, 0x1.10e401f662526p+5, 18}, {5e-8, 1024, 0x1.614196bc72e70p+5, 20},
		{1e-4, 512, 0x1.60778545fbc16p+4, 12}, {1e-12, 256, 0x1.660fa78b8f6bap+8, 24}, {1e-6, 65536, 0x1.cd5ff9f8307e0p+4, 20},
		{0.5, 4096, 0x1.715476587d81cp+0, 1},
	} {
		if bits, k := ExactBlockedBits(c.p, c.block); bits != c.bits || k != c.hashes {
			t.Errorf("ExactBlockedBits(%g, %d) = %x, %d; want %x, %d", c.p, c.block, bits, k, c.bits, c.hashes)
		}
	}
}

func TestSegmentsGolden(t *testing.T) {
	for _, c := range []struct {
		keys   uint64
		p      float64
		block  int
		count  int
		bytes  uint64
		hashes uint
	}{
		{4157, 9e-7, 1024, 3, 6080, 18}, {39_858, 9e-7, 1024, 3, 57280, 18}, {391_813, 9e-7, 1024, 13, 131008, 18},
		{1, 0.01, 512, 1, 128, 6}, {10_000_000, 5e-8, 1024, 9, 6291392, 20}, {1_000_000_000, 1e-6, 4096, 112, 33553984, 19},
		{100_000, 1e-4, 512, 5, 57280, 12}, {39_858, 0.009, 65536, 1, 49216, 7},
	} {
		s := RedisSegments(c.keys, c.p, c.block)
		if s.Count != c.count || s.Bytes != c.bytes || s.Hashes != c.hashes || s.BlockBits != c.block {
			t.Errorf("RedisSegments(%d, %g, %d) = %+v, want %d segments of %d bytes, k = %d", c.keys, c.p, c.block, s, c.count, c.bytes, c.hashes)
		}
	}
}
