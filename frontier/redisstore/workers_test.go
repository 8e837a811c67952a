package redisstore

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// eventually waits until background work has made a condition true.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !happened(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited a minute for %s in vain", what)
		}
	}
}

// liveWorkers returns the live workers that a store sees.
func liveWorkers(t *testing.T, s *Store) (live []Worker) {
	t.Helper()
	workers, err := s.Workers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(workers, func(w Worker) bool { return !w.Live })
}

func partitionsOf(workers []Worker) (sum int) {
	for _, w := range workers {
		sum += w.Partitions
	}
	return sum
}

// TestWorkersAreListed: workers see each other and share the partitions. If one leaves, the
// others take over its partitions. A worker whose last heartbeat is old counts as dead.
func TestWorkersAreListed(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	cfg := config(server)
	cfg.Partitions = 32
	var stores []*Store
	for _, name := range []string{"one", "two", "three"} {
		cfg.Worker = name
		s, err := Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		stores = append(stores, s)
		if len(stores) > 1 {
			continue
		}
		// While it is alone, each partition is its own.
		mustAdd(t, s, testPages("a.test", 0, 10))
		if grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1)}); err != nil || len(grant.Leases) != 1 {
			t.Fatalf("Lease = %v, %v, want one lease", grant, err)
		}
	}
	looking, err := Inspect(t.Context(), Config{Redis: cfg.Redis, Name: cfg.Name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = looking.Close() })
	eventually(t, "sharing among three", func() bool {
		live := liveWorkers(t, looking)
		return len(live) == 3 && partitionsOf(live) == 32 && live[0].Leases+live[1].Leases+live[2].Leases == 1
	})
	for _, w := range liveWorkers(t, looking) {
		wantAdded, at := uint64(0), slices.IndexFunc(stores, func(s *Store) bool { return s.number == w.Number })
		if at == 0 {
			wantAdded = 10
		}
		if at < 0 || w.Name != stores[at].cfg.Worker || w.Added != wantAdded || w.PID == 0 || w.Host == "" || w.Started.IsZero() {
			t.Errorf("Workers lists %+v, want the name and number of a store, %d added items, and a process", w, wantAdded)
		}
	}

	if err := stores[2].Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "sharing among two", func() bool {
		live := liveWorkers(t, looking)
		return len(live) == 2 && partitionsOf(live) == 32
	})
	// The last heartbeat of this worker was long ago, so it counts as dead.
	late := redis.Z{Score: float64(time.Now().Add(-time.Minute).UnixMilli()), Member: stores[2].number}
	if err := server.Client().ZAdd(t.Context(), cfg.heardKey(), late).Err(); err != nil {
		t.Fatal(err)
	}
	if live := liveWorkers(t, looking); len(live) != 2 {
		t.Errorf("%d workers live, want 2", len(live))
	}
	workers, err := looking.Workers(t.Context())
	if err != nil || len(workers) != 3 || workers[2].Number != stores[2].number || workers[2].Silent < 50*time.Second {
		t.Errorf("workers are %+v (%v), want the dead one last", workers, err)
	}
}

// TestOwnershipOfPartitions: each partition has one owner. If a worker leaves, only its
// partitions get another owner.
func TestOwnershipOfPartitions(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, uint64(*seed)))
	const partitions = 256
	var live []int
	for range 8 {
		live = append(live, 1+rng.IntN(1<<20))
	}
	owners := func(live []int) (owner [partitions]int) {
		for _, worker := range live {
			for p, mine := range ownership(partitions, worker, live) {
				if mine && owner[p] != 0 {
					t.Fatalf("workers %d and %d both own partition %d", owner[p], worker, p)
				} else if mine {
					owner[p] = worker
				}
			}
		}
		return owner
	}
	before, after := owners(live), owners(live[1:])
	count := make(map[int]int)
	for p := range before {
		count[before[p]]++
		if before[p] == 0 || after[p] == 0 {
			t.Fatalf("partition %d has no owner", p)
		}
		if before[p] != live[0] && after[p] != before[p] {
			t.Errorf("partition %d goes from worker %d to worker %d, but only worker %d left", p, before[p], after[p], live[0])
		}
	}
	for _, worker := range live { // the mean is 32 and σ is 5.3; a difference of 5σ occurs by chance once in a million runs
		if n := count[worker]; n < 32-27 || n > 32+27 {
			t.Errorf("worker %d owns %d of %d partitions, want about 32 (live: %v)", worker, n, partitions, live)
		}
	}
}

// TestLostIsCounted lowers the number of items that a partition has added for a worker, as
// if the partition had lost some. That worker and other workers report the difference.
func TestLostIsCounted(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	cfg := config(server)
	worker := openStore(t, cfg)
	for _, host := range []string{"a.test", "b.test", "c.test", "d.test", "e.test"} {
		mustAdd(t, worker, testPages(host, 0, 20))
	}
	other := openStore(t, cfg)
	wantLost := func(want ...Loss) {
		t.Helper()
		for who, s := range map[string]*Store{"the worker": worker, "another worker": other} {
			got, err := s.Lost(t.Context())
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("Lost of %s = %v (%v), want %v", who, got, err, want)
			}
		}
	}
	eventually(t, "a heartbeat", func() bool {
		known, err := other.acknowledgedBy(context.WithoutCancel(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		sum := uint64(0)
		for _, n := range known[worker.number] {
			sum += n
		}
		return sum == 100
	})
	wantLost()
	p := worker.partition("c.test")
	if err := server.Client().HIncrBy(t.Context(), p.meta, fieldAdded+strconv.Itoa(worker.number), -3).Err(); err != nil {
		t.Fatal(err)
	}
	wantLost(Loss{Worker: worker.number, Partition: p.number, Items: 3})
}
