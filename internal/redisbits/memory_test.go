package redisbits

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
	"github.com/bloomfrontier/crawler/internal/bloomrate"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
	"github.com/bloomfrontier/crawler/sizing"
)

// TestMemory compares used_memory with the sizes that package sizing predicts.
func TestMemory(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{})
	config := Config{Name: "m", Capacity: 10_000_000, Partitions: 256}
	openAndLeave(t, server, Config{Name: "w", Capacity: 1, Partitions: 1}) // loads the scripts, which take memory too
	before := usedMemory(t, server)
	f := openAndLeave(t, server, config)
	got, records := usedMemory(t, server)-before, int64(0)
	for _, key := range append(server.Client().Keys(t.Context(), "{m:*f").Val(), filterKey("m")) {
		records += server.Client().MemoryUsage(t.Context(), key).Val()
	}
	plan := sizing.SizeRedis(sizing.RedisPlan{Keys: config.Capacity, FPR: 1e-6, Growth: true, Partitions: 256})
	segments := uint64(plan.Partitions) * uint64(plan.Segments.Count) * plan.Segments.Allocated
	t.Logf("used_memory grew by %d bytes, %d of them for %d records; predicted are %d bytes, %d of them for segments",
		got, records, len(f.chains)+1, plan.Bytes, segments)
	for _, c := range []struct {
		what      string
		got, want float64
	}{{"segments", float64(got - records), float64(segments)}, {"segments and records", float64(got), float64(plan.Bytes)}} {
		if off := c.got/c.want - 1; math.Abs(off) > 0.001 {
			t.Errorf("%s take %.0f bytes, want %.0f ± 0.1 %%", c.what, c.got, c.want)
		}
	}
	if goal := 1.25 * 1.4427 * sizing.InformationBound(1e-6); float64(8*got)/1e7 > goal {
		t.Errorf("%.2f bits per key, want at most %.2f", float64(8*got)/1e7, goal)
	}
}

// TestFullFilterHasNoNextLayer: a filter that is filled to its capacity has no segments of the next
// layer yet.
func TestFullFilterHasNoNextLayer(t *testing.T) {
	const n = 100_000
	r := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
	client := dial(t, servers.Redis(t, servers.RedisOptions{}))
	f := open(t, client, Config{Name: "full", Capacity: n, Partitions: 8})
	if _, err := bloomrate.Fill(t.Context(), f, bloomrate.RandomKeys(r), n); err != nil {
		t.Fatal(err)
	}
	if more := client.Keys(t.Context(), "{full:*f1.*").Val(); len(more) > 0 {
		t.Errorf("a full filter has %d segments of second layers, want 0", len(more))
	}
}

// openAndLeave opens a filter with a client of its own. It returns when the
// server has freed that client's buffers.
func openAndLeave(t *testing.T, server *servers.RedisServer, config Config) *Filter {
	t.Helper()
	client := dial(t, server)
	f := open(t, client, config)
	client.Close()
	for deadline := time.Now().Add(10 * time.Second); ; {
		clients, err := server.Info("clients", "connected_clients")
		if err != nil {
			t.Fatal(err)
		}
		if clients == "1" { // only the client that asks
			return f
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s clients are still connected, want only the one that asks", clients)
		}
	}
}

// usedMemory waits until the size of a server's allocated memory stops changing, and returns that
// size. It must wait because the server shrinks the buffers of clients in the background.
func usedMemory(t *testing.T, server *servers.RedisServer) int64 {
	t.Helper()
	const still = 3 // number of equal readings, each in another round of the server's housekeeping
	var last int64
	for same, deadline := 0, time.Now().Add(20*time.Second); same < still; same++ {
		used, err := server.UsedMemory()
		if err != nil {
			t.Fatal(err)
		}
		if used != last {
			last, same = used, 0
		}
		if time.Now().After(deadline) {
			t.Fatalf("used_memory does not stop changing, it is now %d", used)
		}
		time.Sleep(150 * time.Millisecond)
	}
	return last
}

// TestBeyond32Bits makes a filter of one chain that is larger than the largest string in Redis.
func TestBeyond32Bits(t *testing.T) {
	if !*proof {
		t.Skip("takes 600 MB, only with -proof")
	}
	client := dial(t, servers.Redis(t, servers.RedisOptions{}))
	f := fresh(t, client, Config{Capacity: 450_000_000, FPR: 1e-2, Growth: GrowthOff, Partitions: 1})
	prints := randomPrints(rand.New(rand.NewPCG(bloomtest.Seed(t), 0)), 200_000)
	added, err := f.AddIfAbsent(t.Context(), prints)
	if err != nil || slices.Contains(added, false) {
		t.Fatalf("AddIfAbsent: error %v, or a key was known although the filter is nearly empty", err)
	}
	known, err := f.Contains(t.Context(), prints)
	if err != nil || slices.Contains(known, false) {
		t.Errorf("Contains: error %v, or a key that was added is not known", err)
	}
	stats, err := f.Stats(t.Context())
	if err != nil || stats.Layers[0].Bits < 1<<32 || stats.Keys != uint64(len(prints)) {
		t.Errorf("Stats = %+v, %v; want at least 2³² bits and %d keys", stats, err, len(prints))
	}
}
