package redisbits

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
	"github.com/bloomfrontier/crawler/sizing"
)

// often returns a config of a filter that grows very often, so that layers begin while callers
// race.
func often() Config {
	config := Config{Capacity: 4000, FPR: bloomtest.MaxRate, Partitions: 4}
	if *proof {
		config.Capacity = 100_000 // a million keys need four layers
	}
	return config
}

func TestConformance(t *testing.T) {
	client := dial(t, servers.Redis(t, servers.RedisOptions{}))
	t.Run("growth=off", func(t *testing.T) {
		if raceEnabled {
			t.Skip("slow, and processes=2 tests the same code")
		}
		bloomtest.Run(t, func(t *testing.T) bloomstore.Filter {
			return fresh(t, client, Config{Capacity: bloomtest.Keys, FPR: bloomtest.MaxRate, Growth: GrowthOff})
		})
	})
	t.Run("processes=2", func(t *testing.T) {
		bloomtest.Run(t, func(t *testing.T) bloomstore.Filter {
			config, first := named(t, client, often())
			return &twins{filters: [2]bloomstore.Filter{first, open(t, dialTo(t, client.Options()), config)}}
		})
	})
}

// twins is one filter that two processes have open. Calls alternate between them, so that a
// process often does not know the changes that the other has made.
type twins struct {
	filters [2]bloomstore.Filter
	calls   atomic.Uint64
}

func (w *twins) next() bloomstore.Filter { return w.filters[w.calls.Add(1)%2] }

func (w *twins) AddIfAbsent(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	return w.next().AddIfAbsent(ctx, prints)
}

func (w *twins) Contains(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	return w.next().Contains(ctx, prints)
}

// TestLaggingProcess: a process that does not know the newest layer notices this layer in time.
// It does so before it adds a key to an older layer that is not full, and before it answers that
// a key is new.
func TestLaggingProcess(t *testing.T) {
	client := dial(t, servers.Redis(t, servers.RedisOptions{}))
	config, lagging := named(t, client, Config{Capacity: 1000, Partitions: 1})
	ahead, prints := open(t, client, config), randomPrints(rand.New(rand.NewPCG(bloomtest.Seed(t), 0)), 3)
	for layers := 1; layers < 3; layers++ {
		if err := ahead.chains[0].Extend(t.Context(), client, layers); err != nil {
			t.Fatal(err)
		}
		fp := prints[layers : layers+1]
		if added, err := ahead.AddIfAbsent(t.Context(), fp); err != nil || !added[0] {
			t.Fatalf("AddIfAbsent by the process that knows all layers = %v, %v; want the key added", added, err)
		}
		if layers == 1 {
			if added, err := lagging.AddIfAbsent(t.Context(), fp); err != nil || added[0] {
				t.Errorf("AddIfAbsent by a process that knew of %d layers = %v, %v; want false", layers, added, err)
			}
		} else if known, err := lagging.Contains(t.Context(), fp); err != nil || !known[0] {
			t.Errorf("Contains by a process that knew of %d layers = %v, %v; want true", layers, known, err)
		}
		if got := lagging.chains[0].Layers(); got != layers+1 {
			t.Errorf("the process knows of %d layers now, want %d", got, layers+1)
		}
	}
}

// clusterClient returns a client of a cluster of three primaries. The time-out of the nodes is
// long, because no test kills a node, and on a busy machine a node may be late.
func clusterClient(t testing.TB) (*redis.ClusterClient, *servers.Cluster) {
	t.Helper()
	cluster := servers.RedisCluster(t, servers.ClusterOptions{Primaries: 3, NodeTimeout: time.Minute})
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: cluster.Addrs(), DisableIdentity: true, ReadTimeout: time.Minute,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { client.Close() })
	return client, cluster
}

func TestCluster(t *testing.T) {
	client, cluster := clusterClient(t)
	t.Run("Conformance", func(t *testing.T) {
		if raceEnabled {
			t.Skip("slow, and the code is the same as for a single server")
		}
		bloomtest.Run(t, func(t *testing.T) bloomstore.Filter { return fresh(t, client, often()) })
	})
	t.Run("MigratingSlots", func(t *testing.T) { migratingSlots(t, client, cluster) })
	t.Run("HalfMovedSlot", func(t *testing.T) { halfMovedSlot(t, client, cluster) })
	t.Run("ReadOnly", func(t *testing.T) {
		options := *client.Options()
		options.ReadOnly = true
		reader := redis.NewClusterClient(&options)
		defer reader.Close()
		if _, err := Open(t.Context(), reader, Config{Name: "r"}); err == nil || !strings.Contains(err.Error(), "replicas") {
			t.Errorf("Open with a client that reads from replicas: %v, want an error that names replicas", err)
		}
	})
}

// migratingSlots moves the slots of a filter from node to node while racers add keys. No key is
// new twice, and no key is lost.
func migratingSlots(t *testing.T, client redis.UniversalClient, cluster *servers.Cluster) {
	config := Config{Capacity: 20_000, Partitions: 4}
	f := fresh(t, client, config)
	prints := randomPrints(rand.New(rand.NewPCG(bloomtest.Seed(t), 0)), 30_000)
	wins := make([]atomic.Int32, len(prints))
	var racers sync.WaitGroup
	for start := range 4 {
		racers.Go(func() {
			const batch = 200
			for i := range len(prints) / batch {
				at := (i + start*37) % (len(prints) / batch) * batch
				added, err := f.AddIfAbsent(t.Context(), prints[at:at+batch])
				if err != nil {
					t.Error(err)
					return
				}
				for j, is := range added {
					if is {
						wins[at+j].Add(1)
					}
				}
			}
		})
	}
	for _, c := range f.chains {
		if err := moveAway(t.Context(), cluster, c.Record()); err != nil {
			t.Error(err)
		}
	}
	racers.Wait()
	twice := 0
	for i := range wins {
		if wins[i].Load() > 1 {
			twice++
		}
	}
	known, err := f.Contains(t.Context(), prints)
	if err != nil || slices.Contains(known, false) || twice > 0 {
		t.Errorf("after the slots moved: Contains: %v; %d keys were new twice, want 0; all keys known: %t, want true", err, twice, !slices.Contains(known, false))
	}
}

// halfMovedSlot adds to a chain when only some of its keys have been moved to another node. The
// servers refuse the script until all keys have moved, and the client sends it again.
func halfMovedSlot(t *testing.T, client redis.UniversalClient, cluster *servers.Cluster) {
	f := fresh(t, client, Config{Capacity: 1000, Partitions: 1})
	fp := randomPrints(rand.New(rand.NewPCG(bloomtest.Seed(t), 0)), 1)
	ctx, key := t.Context(), f.chains[0].Record()
	slot, err := cluster.SlotOf(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	from, err := cluster.PrimaryOf(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	to := cluster.Nodes[(slices.Index(cluster.Nodes, from)+1)%3]
	for _, node := range cluster.Nodes { // resets the counts of errors
		if err := node.Client().ConfigResetStat(ctx).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := cluster.OpenSlot(ctx, slot, from, to); err != nil {
		t.Fatal(err)
	}
	if moved, err := cluster.MoveKeys(ctx, slot, 1, from, to); err != nil || moved != 1 {
		t.Fatalf("MoveKeys = %d, %v; want 1 key", moved, err)
	}
	done := make(chan error, 1)
	go func() {
		added, err := f.AddIfAbsent(ctx, fp)
		if err == nil && !added[0] {
			err = errors.New("the key was not added")
		}
		done <- err
	}()
	awaitRefusal(t, cluster.Nodes)
	for moved := 1; moved > 0; {
		if moved, err = cluster.MoveKeys(ctx, slot, 10, from, to); err != nil {
			t.Fatal(err)
		}
	}
	if err := cluster.CloseSlot(ctx, slot, from, to); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("AddIfAbsent while the slot moved: %v", err)
	}
}

// awaitRefusal returns when one of nodes has answered TRYAGAIN.
func awaitRefusal(t *testing.T, nodes []*servers.RedisServer) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		for _, node := range nodes {
			if stats, err := node.Client().Info(t.Context(), "errorstats").Result(); err != nil {
				t.Fatal(err)
			} else if strings.Contains(stats, "errorstat_TRYAGAIN") {
				return
			}
		}
	}
	t.Fatal("no node has answered TRYAGAIN")
}

func moveAway(ctx context.Context, cluster *servers.Cluster, key string) error {
	slot, err := cluster.SlotOf(ctx, key)
	if err != nil {
		return err
	}
	from, err := cluster.PrimaryOf(ctx, key)
	if err != nil {
		return err
	}
	to := cluster.Nodes[(slices.Index(cluster.Nodes, from)+1)%3]
	return cluster.MigrateSlot(ctx, slot, from, to)
}

// TestLostReply: if the server has added keys and its answer is lost, the
// caller gets an error and not "known", because nothing is sent twice.
func TestLostReply(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{})
	proxy := servers.Proxy(t, server.Addr())
	client := dialTo(t, &redis.Options{Addr: proxy.Addr()})
	f := open(t, client, Config{Name: "cut", Capacity: 1000, Partitions: 1})
	prints := randomPrints(rand.New(rand.NewPCG(bloomtest.Seed(t), 0)), 3)
	if _, err := f.AddIfAbsent(t.Context(), prints[:1]); err != nil { // loads the script
		t.Fatal(err)
	}
	proxy.DropReply(func(request []byte) bool { return bytes.Contains(request, []byte(addScript.Hash())) })
	if added, err := f.AddIfAbsent(t.Context(), prints[1:2]); err == nil {
		t.Errorf("AddIfAbsent whose reply was lost = %v and no error, want an error", added)
	}
	if known, err := f.Contains(t.Context(), prints[1:]); err != nil || !known[0] || known[1] {
		t.Errorf("Contains after a lost reply = %v, %v; want true for the key that reached the server, and false for the next", known, err)
	}
	// A read is repeated after a lost reply.
	proxy.DropReply(func(request []byte) bool { return bytes.Contains(request, []byte("getrange")) })
	if known, err := f.Contains(t.Context(), prints[:2]); err != nil || slices.Contains(known, false) {
		t.Errorf("Contains whose first reply was lost = %v, %v; want both known", known, err)
	}
}

// TestScriptIsLoadedAgain: scripts are loaded again after the server was restarted.
func TestScriptIsLoadedAgain(t *testing.T) {
	client := dial(t, servers.Redis(t, servers.RedisOptions{}))
	f := fresh(t, client, Config{Capacity: 1000, Partitions: 4})
	prints := randomPrints(rand.New(rand.NewPCG(bloomtest.Seed(t), 0)), 300)
	for start := 0; start < len(prints); start += 100 {
		if err := client.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		added, err := f.AddIfAbsent(t.Context(), prints[start:start+100])
		if err != nil || slices.Contains(added, false) {
			t.Errorf("AddIfAbsent after the server forgot the scripts = %v, %v; want all added", added, err)
		}
	}
}

// TestGrowthIsExact: each layer of a chain takes exactly as many new keys as its capacity, even
// if one call fills several layers.
func TestGrowthIsExact(t *testing.T) {
	client := dial(t, servers.Redis(t, servers.RedisOptions{}))
	rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
	f := fresh(t, client, Config{Capacity: 400, FPR: 1e-9, Partitions: 1})
	first := f.layout.Params().Capacity
	for _, n := range []uint64{first, 1, 2*first - 1, 4*first + 5} {
		added, err := f.AddIfAbsent(t.Context(), randomPrints(rng, int(n)))
		if err != nil || slices.Contains(added, false) {
			t.Fatalf("AddIfAbsent = %v, %v; want all added", added, err)
		}
	}
	stats, err := f.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var keys []uint64
	for _, l := range stats.Layers {
		keys = append(keys, l.Keys)
	}
	if want := []uint64{first, 2 * first, 4 * first, 5}; !slices.Equal(keys, want) {
		t.Errorf("the layers have %d keys, want %d", keys, want)
	}
}

// TestFalsePositiveRate compares measured rates with the configured ones. All
// keys are added through Redis, and most are probed in a copy of the stored
// segments.
func TestFalsePositiveRate(t *testing.T) {
	if raceEnabled {
		t.Skip("slow, and with one goroutine the race detector finds nothing")
	}
	client := dial(t, servers.Redis(t, servers.RedisOptions{}))
	type target struct {
		p         float64
		n, probes uint64
	}
	targets := []target{{1e-2, 20_000, 300_000}, {1e-4, 20_000, 2_000_000}}
	if *proof {
		targets = []target{{1e-2, 1_000_000, 1_000_000}, {1e-4, 1_000_000, 10_000_000}, {1e-6, 1_000_000, 100_000_000}}
	}
	for _, c := range targets {
		for _, growth := range []int{1, 8} {
			for _, load := range []string{"even", "zipf"} {
				t.Run(fmt.Sprintf("p=%g/n=%d/growth=%d/load=%s", c.p, c.n, growth, load), func(t *testing.T) {
					f := fresh(t, client, Config{Capacity: c.n / uint64(growth), FPR: c.p, Partitions: 16})
					if load == "zipf" {
						f.partition = zipfPartition(16)
					}
					measure(t, f, c.p, c.n, c.probes)
				})
			}
		}
	}
}

// measure adds n keys and looks up other keys. The filter claims to contain some of the other
// keys. The function compares their share with the configured rate, and with the rate for the
// actual sizes of the layers.
func measure(t *testing.T, f *Filter, p float64, n, probes uint64) {
	rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
	for left := n; left > 0; {
		batch := randomPrints(rng, int(min(left, 50_000)))
		if _, err := f.AddIfAbsent(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		left -= uint64(len(batch))
	}
	stored, rates := download(t, f), make([]float64, len(f.chains))
	for i, c := range f.chains {
		rates[i] = rateNow(t, f.client, c)
	}
	const asked = 20_000 // number of probes that are also looked up in Redis
	sample := randomPrints(rng, asked)
	answers, err := f.Contains(t.Context(), sample)
	if err != nil {
		t.Fatal(err)
	}
	hits, mean := 0, 0.0
	for i := range probes {
		fp := randomPrint(rng)
		if i < asked {
			fp = sample[i]
		}
		at := f.partition(fp, len(f.chains))
		known := stored.claims(f, at, fp)
		if i < asked && known != answers[i] {
			t.Fatalf("Contains of %x = %t, but the stored segments say %t", fp, answers[i], known)
		}
		mean += rates[at]
		if known {
			hits++
		}
	}
	// sigma includes the standard deviation of the number of hits, and 2 % of mean because the
	// expected rate is only approximate.
	sigma := math.Sqrt(mean + math.Pow(0.02*mean, 2))
	rate, want := float64(hits)/float64(probes), mean/float64(probes)
	off := (float64(hits) - mean) / sigma
	t.Logf("claimed %d of %d probes, a rate of %.3g, %+.2fσ from the rate %.3g that is expected for %d keys in these layers", hits, probes, rate, off, want, n)
	if math.Abs(off) > 5 {
		t.Errorf("rate %.3g, %+.1fσ from %.3g, want within 5σ", rate, off, want)
	}
	if limit := p*float64(probes) + 5*math.Sqrt(p*float64(probes)); float64(hits) > limit {
		t.Errorf("%d of %d probes are claimed, want at most %.0f (5σ above %g)", hits, probes, limit, p)
	}
}

// copied are the segments of a filter, by chain, layer, segment.
type copied [][][][]byte

func download(t *testing.T, f *Filter) copied {
	t.Helper()
	all := make(copied, len(f.chains))
	for i, c := range f.chains {
		for _, l := range *c.keyed.Load() {
			var segments [][]byte
			for _, key := range l.keys {
				segment, err := f.client.Get(t.Context(), key).Bytes()
				if err != nil {
					t.Fatal(err)
				}
				segments = append(segments, segment)
			}
			all[i] = append(all[i], segments)
		}
	}
	return all
}

func (all copied) claims(f *Filter, chain int, fp bloomstore.Fingerprint) bool {
	for number, segments := range all[chain] {
		l := f.layout.layers[number]
		segment, from := l.Locate(fp)
		if l.Known(segments[segment][from:from+int64(l.BlockBytes)], fp) {
			return true
		}
	}
	return false
}

// rateNow returns the false-positive rate that a chain should have for the counts of its keys.
func rateNow(t *testing.T, client redis.UniversalClient, c *Chain) float64 {
	t.Helper()
	absent := 1.0
	for _, l := range *c.keyed.Load() {
		keys, err := client.HGet(t.Context(), c.Record(), "keys"+l.layers).Uint64()
		if err != nil {
			t.Fatal(err)
		}
		absent *= 1 - sizing.ExactBlockedFalsePositiveRate(float64(l.Bits())/float64(keys), l.BlockBytes*8, uint(l.Hashes))
	}
	return 1 - absent
}

// zipfPartition returns a function that chooses the partitions of keys as if the keys belonged to
// 1000 hosts whose sizes follow Zipf's law.
func zipfPartition(partitions int) func(bloomstore.Fingerprint, int) int {
	rng, ends := rand.New(rand.NewPCG(1, 0)), make([]float64, partitions)
	for host := range 1000 {
		ends[rng.IntN(partitions)] += 1 / float64(host+1)
	}
	sum := 0.0
	for i, load := range ends {
		sum += load
		ends[i] = sum
	}
	return func(fp bloomstore.Fingerprint, _ int) int {
		at := float64(PartitionOf(fp, 1<<20)) / (1 << 20) * sum
		i, _ := slices.BinarySearch(ends, at)
		return min(i, partitions-1)
	}
}

// TestStatsOfFill compares the numbers that Stats computes from the fill with the number of
// keys that were added, and with the false-positive rate of random keys.
func TestStatsOfFill(t *testing.T) {
	client := dial(t, servers.Redis(t, servers.RedisOptions{}))
	rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 0))
	f := fresh(t, client, Config{Capacity: 10_000, FPR: 1e-2, Partitions: 4})
	kept := 0
	for range 3 {
		added, err := f.AddIfAbsent(t.Context(), randomPrints(rng, 9_000))
		if err != nil {
			t.Fatal(err)
		}
		for _, is := range added {
			if is {
				kept++
			}
		}
	}
	stats, err := f.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stats.Keys != uint64(kept) || len(stats.Layers) != 2 || stats.Layers[1].Chains != 4 {
		t.Errorf("Stats = %+v, want %d keys, and two layers in 4 chains", stats, kept)
	}
	if off := (stats.Estimate - float64(kept)) / stats.StdErr; math.Abs(off) > 5 || stats.StdErr > 0.02*float64(kept) {
		t.Errorf("estimate %.0f ± %.0f of %d keys, %.1fσ off, want within 5σ", stats.Estimate, stats.StdErr, kept, off)
	}
	const probes = 100_000
	hits := 0.0
	known, err := f.Contains(t.Context(), randomPrints(rng, probes))
	if err != nil {
		t.Fatal(err)
	}
	for _, claimed := range known {
		if claimed {
			hits++
		}
	}
	sigma := math.Hypot(math.Sqrt(stats.FPR/probes), 0.01*stats.FPR) // the sample of blocks errs by less than 1 %
	if off := (hits/probes - stats.FPR) / sigma; math.Abs(off) > 5 {
		t.Errorf("FPR %.5f from the fill, %.5f measured, %.1fσ off, want within 5σ", stats.FPR, hits/probes, off)
	}
	if empty, err := fresh(t, client, Config{Capacity: 100}).Stats(t.Context()); err != nil || empty.FPR != 0 || empty.Estimate != 0 || empty.Keys != 0 {
		t.Errorf("Stats of an empty filter = %+v, %v; want no keys and a rate of 0", empty, err)
	}
}

func TestConfigNamesAllFaults(t *testing.T) {
	_, err := Open(t.Context(), nil, Config{Name: "a{b}", Partitions: -1, FPR: 2})
	if err == nil {
		t.Fatal("Open with a config with three faults: no error")
	}
	for _, want := range []string{`Name is "a{b}"`, "Partitions is -1", "FPR is 2"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}
