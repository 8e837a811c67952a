package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/internal/bench/sets"
	"github.com/bloomfrontier/crawler/sizing"
)

// InRedis returns the subjects in Redis: the filter of a crawl at each of the rates, the
// queue of a crawl, and common alternatives. If other clients use the Redis r, their changes
// are measured too.
func InRedis(r *sets.Redis, rates []float64) (all []Subject) {
	for _, p := range rates {
		all = append(all, crawlFilter(r, p))
	}
	for _, hosts := range []uint64{10, 1000, 100_000} {
		all = append(all, crawlQueue(r, hosts))
	}
	for i, name := range []string{"Redis SET of URLs", "Redis SET of 8-byte hashes"} {
		all = append(all, Subject{Name: name, Most: maxItems, Predict: exactStore(name), By: "used_memory",
			Weigh: weighSet(r, sets.RedisSet(r, i == 1))})
	}
	return all
}

// fill creates and fills a set in a Redis.
type fill func(ctx context.Context, n uint64) (*sets.Set, error)

// weighRedis returns a weigh function that measures the data in a Redis. It closes the set
// before the final measurement.
func weighRedis(r *sets.Redis, fill fill) weigh {
	return func(ctx context.Context, n uint64) (bytes float64, err error) {
		// A first crawl makes the server allocate the memory that all crawls share: scripts
		// and their interpreter.
		first, err := filled(ctx, sets.RedisStore(r), sets.Plan{Capacity: 1000}, urls(1, 1))
		if err != nil {
			return 0, err
		}
		if err := first.End(ctx); err != nil {
			return 0, err
		}
		before, err := usedMemory(ctx, r.Options)
		if err != nil {
			return 0, err
		}
		set, err := fill(ctx, n)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, set.Remove(context.WithoutCancel(ctx))) }()
		if err := set.Close(); err != nil {
			return 0, err
		}
		after, err := usedMemory(ctx, r.Options)
		return after - before, err
	}
}

// weighSet returns a weigh function for a set of URLs.
func weighSet(r *sets.Redis, kind sets.Kind) weigh {
	return weighRedis(r, func(ctx context.Context, n uint64) (*sets.Set, error) {
		return filled(ctx, kind, sets.Plan{Capacity: n}, urls(n, urlHosts))
	})
}

// filled opens a set, adds links to it and returns it.
func filled(ctx context.Context, kind sets.Kind, plan sets.Plan, links sets.Range) (*sets.Set, error) {
	set, err := kind.Open(ctx, plan)
	if err != nil {
		return nil, err
	}
	const batch = 1000
	for all := links.N; links.First < all; links.First += batch {
		links.N = min(batch, all-links.First)
		if _, err := set.Add(ctx, links); err != nil {
			return nil, errors.Join(err, set.End(ctx))
		}
	}
	return set, nil
}

// crawlFilter returns the subject for the filter of a new crawl.
func crawlFilter(r *sets.Redis, p float64) Subject {
	return Subject{
		Name: fmt.Sprintf("filter of a crawl in Redis, p = %g", p), Ours: true, FPR: p,
		By: "used_memory",
		Weigh: weighRedis(r, func(ctx context.Context, n uint64) (*sets.Set, error) {
			return sets.RedisStore(r).Open(ctx, sets.Plan{Capacity: n, FPR: p})
		}),
		Predict: exactly(func(n uint64) uint64 {
			return sizing.SizeRedis(sizing.RedisPlan{Keys: n, FPR: p, Growth: true}).Bytes
		}),
	}
}

// crawlQueue returns the subject for the queued URLs of a crawl. It subtracts the memory
// of the filter. This memory depends on how the URLs are distributed, because the filter
// grows in partitions that have more URLs than others.
func crawlQueue(r *sets.Redis, hosts uint64) Subject {
	var filter float64
	whole := weighRedis(r, func(ctx context.Context, n uint64) (*sets.Set, error) {
		set, err := filled(ctx, sets.RedisStore(r), sets.Plan{Capacity: n}, urls(n, hosts))
		if err != nil {
			return nil, err
		}
		if filter, err = filterBytes(ctx, r); err != nil {
			return nil, errors.Join(err, set.End(ctx))
		}
		return set, nil
	})
	return Subject{
		Name: fmt.Sprintf("queue in Redis, %d hosts", hosts), Ours: true, Most: maxItems,
		By: "used_memory beside the filter",
		Weigh: func(ctx context.Context, n uint64) (float64, error) {
			bytes, err := whole(ctx, n)
			return bytes - filter, err
		},
		Predict: exactly(func(n uint64) uint64 { return sizing.RedisQueue(n, hosts, sets.URLBytes) }),
	}
}

// filterBytes returns the memory of the filters of all crawls in a Redis.
func filterBytes(ctx context.Context, r *sets.Redis) (sum float64, err error) {
	segments := r.Client.Scan(ctx, 0, "{*:*}f[0-9]*.[0-9]*", 1000).Iterator()
	for segments.Next(ctx) {
		used, err := r.Client.MemoryUsage(ctx, segments.Val()).Result()
		if err != nil {
			return 0, err
		}
		sum += float64(used)
	}
	return sum, segments.Err()
}

// usedMemory waits until a Redis is idle, and returns the memory that the server then uses.
// By then, the server has freed memory in the background, and our other clients and their
// buffers are gone. The memory includes the clients of other programs. It does not include
// the connection of usedMemory itself, because the buffers of this connection shrink during
// the wait. For a small filter, the shrinking would change the result by as much as the
// tolerance allows.
func usedMemory(ctx context.Context, options *redis.UniversalOptions) (bytes float64, err error) {
	client := sets.NewClient(options)
	defer func() { err = errors.Join(err, client.Close()) }()
	const (
		pause   = 150 * time.Millisecond
		patient = 8  // number of tries in which usedMemory waits for other connections to end
		tries   = 80 // number of tries after which usedMemory returns the last value
	)
	var last, clients float64
	for try := range tries {
		info, err := sets.Info(ctx, client, "memory", "clients") // not all sections, because the server would need a second buffer for a long answer
		if err != nil {
			return 0, err
		}
		used := info["used_memory"] - info["asking_memory"]
		rest := used == last && info["connected_clients"] == clients
		last, clients = used, info["connected_clients"]
		if rest && (clients == 1 || try >= patient) {
			break
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(pause):
		}
	}
	return last, nil
}
