package redisbits

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// chainOf returns a new chain and creates it in Redis.
func chainOf(t *testing.T, client redis.UniversalClient, params Params) *Chain {
	t.Helper()
	c := layoutOf(t, params).Chain(ID{7}, 3, "{c"+strconv.FormatUint(rand.Uint64(), 36)+":3}")
	if err := c.Create(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	return c
}

// sibling opens the chain once more, as another process does.
func sibling(t *testing.T, client redis.UniversalClient, c *Chain) *Chain {
	t.Helper()
	other := layoutOf(t, c.layout.Params()).Chain(c.header.id, c.header.partition, c.prefix)
	if err := other.Open(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	return other
}

// TestSegmentsAreCreatedWhole: the segments of a new chain have the keys, headers and full sizes
// of the layout from the beginning, and all keys have the same hash tag.
func TestSegmentsAreCreatedWhole(t *testing.T) {
	client := dial(t, servers.Redis(t, servers.RedisOptions{}))
	c := chainOf(t, client, Params{Capacity: 40_000, FPR: 1e-6})
	l := c.layout.Layer(0)
	if l.Segments != 3 {
		t.Fatalf("the layer has %d segments, but the test needs 3", l.Segments)
	}
	keys := client.Keys(t.Context(), c.prefix+"*").Val()
	slices.Sort(keys)
	want := []string{c.prefix + "f", c.prefix + "f0.0", c.prefix + "f0.1", c.prefix + "f0.2"}
	if !slices.Equal(keys, want) {
		t.Errorf("keys %q, want %q", keys, want)
	}
	for segment := range l.Segments {
		key := c.SegmentKey(0, segment)
		if length := client.StrLen(t.Context(), key).Val(); length != l.SegmentBytes {
			t.Errorf("%s has %d bytes, want %d", key, length, l.SegmentBytes)
		}
		body := client.GetRange(t.Context(), key, HeaderBytes, -1).Val()
		if strings.Trim(body, "\x00") != "" {
			t.Errorf("segment %s has bits, want only zeros", key)
		}
	}
}

// beginSegments creates the first n segments of a chain's next layer, as an Extend that was
// interrupted does.
func beginSegments(t *testing.T, client redis.UniversalClient, c *Chain, n int) {
	t.Helper()
	next := c.keyedLayer(c.Layers())
	for segment, key := range next.keys[:n] {
		reply, err := makeSegment.Run(t.Context(), client, []string{c.Record(), key},
			next.Number, next.headers[segment], next.SegmentBytes-1).Text()
		if reply != "made" || err != nil {
			t.Fatalf("segment %d is %q, %v; want it made", segment, reply, err)
		}
	}
}

// TestExtendChain: segments of the next layer that an interrupted Extend has created do not
// count as a layer. Extend creates the others and adds the layer.
func TestExtendChain(t *testing.T) {
	client := dial(t, servers.Redis(t, servers.RedisOptions{}))
	c := chainOf(t, client, Params{Capacity: 40_000, FPR: 1e-6})
	other, next := sibling(t, client, c), c.layout.Layer(1)
	beginSegments(t, client, c, next.Segments-1)
	if layers := client.HGet(t.Context(), c.Record(), "layers").Val(); layers != "1" || c.Layers() != 1 {
		t.Fatalf("%s layers before Extend, want 1", layers)
	}
	for range 2 { // the second time there is nothing to do
		if err := c.Extend(t.Context(), client, 1); err != nil || c.Layers() != 2 {
			t.Fatalf("Extend: error %v, %d layers; want 2", err, c.Layers())
		}
	}
	if other.Layers() != 1 {
		t.Fatalf("another process knows of %d layers before its Extend, want 1", other.Layers())
	}
	if err := other.Extend(t.Context(), client, 1); err != nil || other.Layers() != 2 {
		t.Errorf("Extend by another process: error %v, %d layers; want the existing 2", err, other.Layers())
	}
	fixed := chainOf(t, client, Params{Capacity: 100, Growth: GrowthOff})
	if err := fixed.Extend(t.Context(), client, 1); err == nil {
		t.Error("Extend without growth: no error")
	}
}

// TestRacersExtendOnce: if many callers in many processes find a layer full, only one new
// layer is added.
func TestRacersExtendOnce(t *testing.T) {
	client := dial(t, servers.Redis(t, servers.RedisOptions{}))
	c := chainOf(t, client, Params{Capacity: 40_000, FPR: 1e-6})
	var wg sync.WaitGroup
	for range 4 {
		process := sibling(t, client, c)
		for range 4 {
			wg.Go(func() {
				if err := process.Extend(t.Context(), client, 1); err != nil || process.Layers() != 2 {
					t.Errorf("Extend: error %v, %d layers; want 2", err, process.Layers())
				}
			})
		}
	}
	wg.Wait()
	if err := sibling(t, client, c).Verify(t.Context(), client); err != nil {
		t.Error(err)
	}
}

// TestUsedSegmentIsNeverCreatedAgain: segments are created only for layers that have not begun. A
// lost segment of a layer in use is not created again, even by a process that does not know yet
// that the layer has begun.
func TestUsedSegmentIsNeverCreatedAgain(t *testing.T) {
	client := dial(t, servers.Redis(t, servers.RedisOptions{}))
	c := chainOf(t, client, Params{Capacity: 100})
	client.Del(t.Context(), c.SegmentKey(0, 0))
	late := layoutOf(t, c.layout.Params()).Chain(c.header.id, c.header.partition, c.prefix)
	if reply, err := late.begin(t.Context(), client, 0); reply != "stale" || err != nil {
		t.Fatalf("begin of a layer in use = %q, %v; want stale", reply, err)
	}
	if n := client.Exists(t.Context(), c.SegmentKey(0, 0)).Val(); n != 0 {
		t.Fatal("begin made a lost segment of a layer in use again, empty")
	}
	if err := late.Create(t.Context(), client); !errors.Is(err, bloomstore.ErrFilterLost) {
		t.Errorf("Create of an existing chain that lost a segment: %v, want ErrFilterLost", err)
	}
}

// TestForeignKeyInTheWay: a chain can grow although a segment of the next layer exists already. It
// cannot grow if a key that is no segment has the name of a new segment.
func TestForeignKeyInTheWay(t *testing.T) {
	client := dial(t, servers.Redis(t, servers.RedisOptions{}))
	c := chainOf(t, client, Params{Capacity: 40_000})
	beginSegments(t, client, c, 1)
	if err := c.Extend(t.Context(), client, 1); err != nil || c.Layers() != 2 {
		t.Errorf("Extend after a segment was made: error %v, %d layers; want 2", err, c.Layers())
	}
	client.Set(t.Context(), c.SegmentKey(2, 0), "foreign", 0)
	if err := c.Extend(t.Context(), client, 2); !errors.Is(err, bloomstore.ErrParamsMismatch) || c.Layers() != 2 {
		t.Errorf("Extend where a segment's name is a foreign key: error %v, %d layers; want ErrParamsMismatch, 2", err, c.Layers())
	}
	if got := client.Get(t.Context(), c.SegmentKey(2, 0)).Val(); got != "foreign" {
		t.Errorf("the foreign key has the value %q, want it unchanged", got)
	}
}

// TestServerLosesALayer: if a server loses its latest changes, and with them a layer, the chain
// can still be used, and grows again.
func TestServerLosesALayer(t *testing.T) {
	client := dial(t, servers.Redis(t, servers.RedisOptions{}))
	f := fresh(t, client, Config{Capacity: 100, Partitions: 1})
	c := f.chains[0]
	if err := c.Extend(t.Context(), client, 1); err != nil {
		t.Fatal(err)
	}
	client.HSet(t.Context(), c.Record(), "layers", 1)
	client.Del(t.Context(), c.SegmentKey(1, 0))
	if err := c.Refresh(t.Context(), client); err != nil || c.Layers() != 1 {
		t.Fatalf("Refresh after the loss of a layer: error %v, %d layers; want 1", err, c.Layers())
	}
	prints := randomPrints(rand.New(rand.NewPCG(bloomtest.Seed(t), 0)), 500)
	if _, err := f.AddIfAbsent(t.Context(), prints); err != nil {
		t.Fatal(err)
	}
	known, err := f.Contains(t.Context(), prints)
	if err != nil || slices.Contains(known, false) {
		t.Errorf("Contains after the chain has grown again = %v, %v; want all known", known, err)
	}
}

// runBlock runs add.lua for one fingerprint in the newest layer. The argument old is the block
// as the caller has read it.
func runBlock(t *testing.T, client *redis.Client, c *Chain, fp bloomstore.Fingerprint, old []byte) int64 {
	t.Helper()
	newest := (*c.keyed.Load())[c.Layers()-1]
	segment, from := newest.Locate(fp)
	answers, err := client.Eval(t.Context(), Block+addLua, []string{c.Record(), newest.keys[segment]},
		newest.layers, newest.capacity, newest.headers[segment],
		2, from, from+int64(len(old))-1, old, newest.Mask(slices.Clone(old), fp)).Int64Slice()
	if err != nil || len(answers) != 1 {
		t.Fatalf("add.lua returned %v, %v; want one answer", answers, err)
	}
	return answers[0]
}

// TestBlockChangedSinceItWasRead: add.lua gets a block as it was read before another call
// changed it. The stored block must then have the bits of both calls. If the block has lost
// bits since it was read, add.lua must report that. The test tries several block sizes.
func TestBlockChangedSinceItWasRead(t *testing.T) {
	client := dial(t, servers.Redis(t, servers.RedisOptions{}))
	for blockBits := minBlockBits; blockBits <= maxBlockBits; blockBits *= 4 {
		t.Run(fmt.Sprintf("B=%d", blockBits), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
			c := chainOf(t, client, Params{Capacity: 1, FPR: 0.5, BlockBits: blockBits})
			if err := c.Extend(t.Context(), client, 1); err != nil { // room for two keys
				t.Fatal(err)
			}
			l := c.layout.Layer(1)
			// a and b are two keys whose bits are in one block.
			a := randomPrint(rng)
			segment, from := l.Locate(a)
			b := a
			for b == a || !slices.Equal(place(l, b), place(l, a)) {
				b = randomPrint(rng)
			}
			zero := make([]byte, l.BlockBytes)
			if got := runBlock(t, client, c, a, zero); got != wasAdded {
				t.Fatalf("add of the first key = %d, want wasAdded", got)
			}
			if got := runBlock(t, client, c, a, zero); got != wasKnown {
				t.Errorf("add of the same key with the old block = %d, want wasKnown", got)
			}
			want := wasAdded
			if l.Known(l.Mask(slices.Clone(zero), a), b) {
				want = wasKnown // the first key has all bits of the second one
			}
			if got := runBlock(t, client, c, b, zero); got != want {
				t.Errorf("add of another key with the old block = %d, want %d", got, want)
			}
			union := l.Mask(l.Mask(slices.Clone(zero), a), b)
			if got := client.GetRange(t.Context(), c.SegmentKey(1, segment), from, from+int64(l.BlockBytes)-1).Val(); got != string(union) {
				t.Errorf("the block is\n%x, want the bits of both keys\n%x", got, union)
			}
			if got := runBlock(t, client, c, a, union); got != wasKnown {
				t.Errorf("add of the key with a block that has it = %d, want wasKnown", got)
			}
			full := slices.Repeat([]byte{0xff}, l.BlockBytes)
			if got := runBlock(t, client, c, a, full); got != blockLost {
				t.Errorf("add of the key with a block that has more bits than the stored one = %d, want %d", got, blockLost)
			}
		})
	}
}

func place(l *Layer, fp bloomstore.Fingerprint) []int64 {
	segment, from := l.Locate(fp)
	return []int64{int64(segment), from}
}

// TestDeleteLeavesNothing: Delete removes all keys, including those of a layer that was not
// finished, even if the filter has lost parts or a Delete was interrupted before.
func TestDeleteLeavesNothing(t *testing.T) {
	client := dial(t, servers.Redis(t, servers.RedisOptions{}))
	ctx := t.Context()
	client.Set(ctx, "{gone}", "not the filter's", 0)
	for range 2 {
		f := open(t, client, Config{Name: "gone", Capacity: 200_000, Partitions: 3})
		if err := f.chains[0].Extend(ctx, client, 1); err != nil {
			t.Fatal(err)
		}
		beginSegments(t, client, f.chains[0], 1)
		client.Del(ctx, f.chains[1].SegmentKey(0, 0))
		stopped, stop := context.WithCancel(ctx)
		stop()
		if err := Delete(stopped, client, "gone"); !errors.Is(err, context.Canceled) {
			t.Errorf("Delete with a cancelled context: %v, want context.Canceled", err)
		}
		client.Del(ctx, f.chains[2].Record())
		if err := Delete(ctx, client, "gone"); err != nil {
			t.Fatal(err)
		}
		if keys := client.Keys(ctx, "*").Val(); len(keys) != 1 {
			t.Errorf("after Delete there are the keys %q, want only the one that is not the filter's", keys)
		}
	}
	if err := Delete(ctx, client, "gone"); err != nil {
		t.Errorf("Delete of a filter that does not exist: %v, want no error", err)
	}
	client.HSet(ctx, filterKey("else"), "head", "not a filter")
	if err := Delete(ctx, client, "else"); !errors.Is(err, bloomstore.ErrFilterLost) {
		t.Errorf("Delete of a foreign hash: %v, want ErrFilterLost", err)
	}
}
