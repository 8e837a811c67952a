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
// queue of a crawl, and common alternatives. Each subject is measured in a Redis that the
// function open returns. If other clients use that server, their changes are measured too.
// hasBloom reports whether the server has the command BF.RESERVE.
func InRedis(open sets.OpenRedis, rates []float64, hasBloom bool) (all []Subject) {
	for _, p := range rates {
		all = append(all, crawlFilter(open, p))
	}
	for _, hosts := range []uint64{10, 1000, 100_000} {
		all = append(all, crawlQueue(open, hosts))
	}
	for i, name := range []string{"Redis SET of URLs", "Redis SET of 8-byte hashes"} {
		all = append(all, Subject{Name: name, Usual: true, Most: maxItems, Add: 3 * time.Microsecond, Predict: exactStore(name), By: "used_memory",
			Weigh: weighSet(open, func(open sets.OpenRedis) sets.Kind { return sets.RedisSet(open, i == 1) }, 0)})
	}
	for _, p := range rates {
		if hasBloom {
			all = append(all, Subject{Name: fmt.Sprintf("BF.RESERVE, p = %g", p), Family: "BF.RESERVE", FPR: p, Add: 4 * time.Microsecond,
				By: "used_memory", Weigh: weighSet(open, sets.RedisBloom, p)})
		}
	}
	return all
}

// fill creates and fills a set in a Redis.
type fill func(ctx context.Context, in sets.OpenRedis, n uint64, progress func(share float64)) (*sets.Set, error)

// weighRedis returns a weigh function that measures the data in a Redis. It closes the set
// before the final measurement.
func weighRedis(open sets.OpenRedis, fill fill) weigh {
	return func(ctx context.Context, n uint64, progress func(float64)) (bytes float64, err error) {
		r, err := open(ctx)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		kept := *r
		kept.Close = func() error { return nil } // the set must not close the server
		in := func(context.Context) (*sets.Redis, error) { return &kept, nil }
		// A first crawl makes the server allocate the memory that all crawls share: scripts
		// and their interpreter.
		first, err := filled(ctx, sets.RedisStore(in), sets.Plan{Capacity: 1000}, urls(1, 1), func(float64) {})
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
		set, err := fill(ctx, in, n, progress)
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
func weighSet(open sets.OpenRedis, kind func(sets.OpenRedis) sets.Kind, p float64) weigh {
	return weighRedis(open, func(ctx context.Context, in sets.OpenRedis, n uint64, progress func(float64)) (*sets.Set, error) {
		return filled(ctx, kind(in), sets.Plan{Capacity: n, FPR: p}, urls(n, urlHosts), progress)
	})
}

// filled opens a set, adds links to it and returns it.
func filled(ctx context.Context, kind sets.Kind, plan sets.Plan, links sets.Range, progress func(share float64)) (*sets.Set, error) {
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
		progress(float64(links.First) / float64(all))
	}
	return set, nil
}

// crawlFilter returns the subject for the filter of a new crawl. The prediction assumes
// that each partition has the same number of keys.
func crawlFilter(open sets.OpenRedis, p float64) Subject {
	return Subject{
		Name: fmt.Sprintf("filter of a crawl in Redis, p = %g", p), Family: "filter of a crawl in Redis", Ours: true, FPR: p,
		Add: 100 * time.Nanosecond, By: "used_memory",
		Weigh: weighRedis(open, func(ctx context.Context, in sets.OpenRedis, n uint64, _ func(float64)) (*sets.Set, error) {
			return sets.RedisStore(in).Open(ctx, sets.Plan{Capacity: n, FPR: p})
		}),
		Predict: exactly(func(n uint64) uint64 {
			return sizing.SizeRedis(sizing.RedisPlan{Keys: n, FPR: p, Growth: true, Hosts: max(n/100, 1)}).Even.Bytes
		}),
	}
}

// crawlQueue returns the subject for the queued URLs of a crawl. It subtracts the memory
// of the filter. This memory depends on how the URLs are distributed, because the filter
// grows in partitions that have more URLs than others.
func crawlQueue(open sets.OpenRedis, hosts uint64) Subject {
	var filter float64
	whole := weighRedis(open, func(ctx context.Context, in sets.OpenRedis, n uint64, progress func(float64)) (*sets.Set, error) {
		set, err := filled(ctx, sets.RedisStore(in), sets.Plan{Capacity: n}, urls(n, hosts), progress)
		if err != nil {
			return nil, err
		}
		if filter, err = filterBytes(ctx, in); err != nil {
			return nil, errors.Join(err, set.End(ctx))
		}
		return set, nil
	})
	return Subject{
		Name: fmt.Sprintf("queue in Redis, %d hosts", hosts), Ours: true, Most: maxItems, Add: 40 * time.Microsecond,
		By: "used_memory beside the filter",
		Weigh: func(ctx context.Context, n uint64, progress func(float64)) (float64, error) {
			bytes, err := whole(ctx, n, progress)
			return bytes - filter, err
		},
		Predict: exactly(func(n uint64) uint64 { return sizing.RedisQueue(n, hosts, sets.URLBytes) }),
	}
}

// filterBytes returns the memory of the filters of all crawls in a Redis.
func filterBytes(ctx context.Context, in sets.OpenRedis) (sum float64, err error) {
	r, err := in(ctx)
	if err != nil {
		return 0, err
	}
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
