package memory

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
	"github.com/bloomfrontier/crawler/sizing"
)

// RedisServer is a Redis to weigh in.
type RedisServer struct {
	Options *redis.UniversalOptions
	Close   func() error // what the caller took to provide it
}

// OpenRedis provides a Redis: a fresh one for each measurement, or one that is
// used for other things too, whose changes then count.
type OpenRedis func(ctx context.Context) (RedisServer, error)

// InRedis returns what can be kept in Redis: the filter of a crawl at each of
// rates, its queue, and what people use. hasBloom: the server has BF.RESERVE.
func InRedis(open OpenRedis, rates []float64, hasBloom bool) (all []Subject) {
	for _, p := range rates {
		all = append(all, crawlFilter(open, p))
	}
	for _, hosts := range []uint64{10, 1000, 100_000} {
		all = append(all, crawlQueue(open, hosts))
	}
	all = append(all,
		Subject{Name: "Redis SET of URLs", Usual: true, Most: most, Add: 3 * time.Microsecond, Predict: exactStore("Redis SET of URLs"),
			Weigh: weighRedis(open, plainSet(func(i uint64, _ *rand.Rand) string { return urlOf(i) }))},
		Subject{Name: "Redis SET of 8-byte hashes", Usual: true, Most: most, Add: 3 * time.Microsecond, Predict: exactStore("Redis SET of 8-byte hashes"),
			Weigh: weighRedis(open, plainSet(func(_ uint64, rng *rand.Rand) string {
				return string(binary.LittleEndian.AppendUint64(nil, rng.Uint64()))
			}))},
		Subject{Name: "Redis key for each URL", Most: most, Add: 4 * time.Microsecond, Weigh: weighRedis(open, keyEach)},
	)
	if hasBloom {
		for _, p := range rates {
			all = append(all, moduleFilter(open, p))
		}
	}
	return all
}

// keeper keeps n items in a Redis and takes them away again when keep is over.
// base is called when all is there that does not depend on the items, if that
// is to be left out.
type keeper func(ctx context.Context, server *redis.UniversalOptions, n uint64, base func() error, progress func(float64)) (drop func(context.Context) error, err error)

// weighRedis returns a Weigh for what keep keeps.
func weighRedis(open OpenRedis, keep keeper) func(context.Context, uint64, func(float64)) (weight Weight, err error) {
	return func(ctx context.Context, n uint64, progress func(float64)) (weight Weight, err error) {
		server, err := open(ctx)
		if err != nil {
			return Weight{}, err
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		before, err := observe(ctx, server.Options)
		if err != nil {
			return Weight{}, err
		}
		base := func() (err error) {
			before, err = observe(ctx, server.Options)
			return err
		}
		drop, err := keep(ctx, server.Options, n, base, progress)
		if drop != nil {
			defer func() { err = errors.Join(err, drop(context.WithoutCancel(ctx))) }()
		}
		if err != nil {
			return Weight{}, err
		}
		after, err := observe(ctx, server.Options)
		if err != nil {
			return Weight{}, err
		}
		return Weight{Bytes: after.memory - before.memory, Keys: after.keys - before.keys, By: "used_memory"}, nil
	}
}

// connect returns a client as this package needs it.
func connect(options *redis.UniversalOptions) redis.UniversalClient {
	settings := *options
	settings.DisableIdentity = true
	settings.ContextTimeoutEnabled = true
	settings.ReadTimeout = time.Minute
	settings.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewUniversalClient(&settings)
}

// filterBytes returns what the filters of all crawls take in a Redis: those of
// partitions that many hosts are in grow while a queue is filled.
func filterBytes(ctx context.Context, options *redis.UniversalOptions) (sum float64, err error) {
	client := connect(options)
	defer client.Close()
	err = eachServer(ctx, client, func(ctx context.Context, server *redis.Client) error {
		segments := server.Scan(ctx, 0, "{*:*}f[0-9]*.[0-9]*", 1000).Iterator()
		for segments.Next(ctx) {
			used, err := server.MemoryUsage(ctx, segments.Val()).Result()
			if err != nil {
				return err
			}
			sum += float64(used)
		}
		return segments.Err()
	})
	return sum, err
}

// observed is what a Redis says of itself.
type observed struct {
	memory float64 // used_memory
	keys   float64 // MEMORY USAGE of all keys, from a sample where there are many
}

// observe asks a Redis when it has come to rest: what is freed in the background
// is freed, and clients that were are gone with their buffers, as far as they are
// not somebody else's.
func observe(ctx context.Context, options *redis.UniversalOptions) (observed, error) {
	client := connect(options)
	defer client.Close()
	const (
		pause   = 150 * time.Millisecond
		patient = 8  // tries until others may keep their connections
		tries   = 80 // until it is weighed as it is
	)
	var last load
	for try := range tries {
		now, err := loadOf(ctx, client)
		if err != nil {
			return observed{}, err
		}
		if now == last && (now.clients == now.servers || try >= patient) {
			break
		}
		last = now
		select {
		case <-ctx.Done():
			return observed{}, ctx.Err()
		case <-time.After(pause):
		}
	}
	keys, err := memoryUsage(ctx, client)
	return observed{last.memory, keys}, err
}

// load is what all servers behind a client say of themselves, together. The
// memory is without that of the connection that asks: its buffers shrink while
// it waits, by as much as a small filter's tolerance.
type load struct{ memory, clients, servers float64 }

func loadOf(ctx context.Context, client redis.UniversalClient) (sum load, err error) {
	err = eachServer(ctx, client, func(ctx context.Context, server *redis.Client) error {
		pipe := server.TxPipeline()
		info, asking := pipe.InfoMap(ctx, "memory", "clients"), pipe.ClientInfo(ctx)
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		text := info.Val()
		memory, err := strconv.ParseFloat(text["Memory"]["used_memory"], 64)
		if err != nil {
			return fmt.Errorf("INFO memory: used_memory: %w", err)
		}
		clients, err := strconv.ParseFloat(text["Clients"]["connected_clients"], 64)
		if err != nil {
			return fmt.Errorf("INFO clients: connected_clients: %w", err)
		}
		sum = load{sum.memory + memory - float64(asking.Val().TotalMemory), sum.clients + clients, sum.servers + 1}
		return nil
	})
	return sum, err
}

// eachServer calls visit for the servers behind client, one at a time.
func eachServer(ctx context.Context, client redis.UniversalClient, visit func(context.Context, *redis.Client) error) error {
	switch c := client.(type) {
	case *redis.Client:
		return visit(ctx, c)
	case *redis.ClusterClient:
		var one sync.Mutex // masters are visited at once
		return c.ForEachMaster(ctx, func(ctx context.Context, server *redis.Client) error {
			one.Lock()
			defer one.Unlock()
			return visit(ctx, server)
		})
	default:
		return fmt.Errorf("weigh in a %T: neither a server nor a cluster", client)
	}
}

// memoryUsage returns what MEMORY USAGE says of all keys together: of each where
// they are few, else of random ones.
func memoryUsage(ctx context.Context, client redis.UniversalClient) (float64, error) {
	const few, sample = 5000, 2000
	total, err := client.DBSize(ctx).Result()
	if err != nil || total == 0 {
		return 0, err
	}
	var keys []string
	if total <= few {
		scan := client.Scan(ctx, 0, "*", 1000).Iterator()
		for scan.Next(ctx) {
			keys = append(keys, scan.Val())
		}
		if err := scan.Err(); err != nil {
			return 0, err
		}
	}
	for total > few && len(keys) < sample {
		key, err := client.RandomKey(ctx).Result()
		if err != nil {
			return 0, err
		}
		keys = append(keys, key)
	}
	sum := 0.0
	for _, key := range keys {
		used, err := client.MemoryUsage(ctx, key, 100).Result()
		if err != nil {
			return 0, err
		}
		sum += float64(used)
	}
	return sum / float64(len(keys)) * float64(total), nil
}

// crawlFilter weighs the filter of a crawl as it is created: even load.
func crawlFilter(open OpenRedis, p float64) Subject {
	return Subject{
		Name: fmt.Sprintf("filter of a crawl in Redis, p = %g", p), Family: "filter of a crawl in Redis", Ours: true, FPR: p,
		Add: 100 * time.Nanosecond,
		Weigh: weighRedis(open, func(ctx context.Context, server *redis.UniversalOptions, n uint64, base func() error, _ func(float64)) (func(context.Context) error, error) {
			if err := errors.Join(warm(ctx, server), base()); err != nil {
				return nil, err
			}
			config := crawlConfig(server, n, p)
			store, err := redisstore.Open(ctx, config)
			if err != nil {
				return nil, err
			}
			return deleter(config), store.Close()
		}),
		Predict: func(n uint64) (low, high float64) {
			layout := sizing.SizeRedis(sizing.RedisPlan{Keys: n, FPR: p, Growth: true, Hosts: max(n/100, 1)})
			return float64(layout.Even.Bytes), float64(layout.Even.Bytes)
		},
	}
}

// warm creates a crawl, adds to it and deletes it, so that the server has what it
// keeps once for all crawls: scripts, and what its own interpreter takes.
func warm(ctx context.Context, server *redis.UniversalOptions) error {
	config := crawlConfig(server, 1000, 1e-6)
	store, err := redisstore.Open(ctx, config)
	if err != nil {
		return err
	}
	return errors.Join(enqueue(ctx, store, 1, 1, func(float64) {}), store.Close(), deleter(config)(ctx))
}

func crawlConfig(server *redis.UniversalOptions, n uint64, p float64) redisstore.Config {
	return redisstore.Config{
		Redis: server, Name: "bench-" + strconv.FormatUint(rand.Uint64(), 36), FilterKeys: n, FPR: p,
		SeenCache: redisstore.NoSeenCache, Delay: redisstore.NoDelay,
	}
}

func deleter(config redisstore.Config) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := redisstore.Delete(ctx, config)
		return err
	}
}

// crawlQueue weighs the URLs that wait in a crawl, beside its filter and however
// that grows.
func crawlQueue(open OpenRedis, hosts uint64) Subject {
	var before, after float64 // what the filter takes
	fill := func(ctx context.Context, server *redis.UniversalOptions, n uint64, base func() error, progress func(float64)) (func(context.Context) error, error) {
		if err := warm(ctx, server); err != nil {
			return nil, err
		}
		config := crawlConfig(server, n, 1e-6)
		store, err := redisstore.Open(ctx, config)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(store.Close(), base()); err != nil {
			return deleter(config), err
		}
		if before, err = filterBytes(ctx, server); err != nil {
			return deleter(config), err
		}
		if store, err = redisstore.Open(ctx, config); err != nil {
			return deleter(config), err
		}
		if err := errors.Join(enqueue(ctx, store, n, hosts, progress), store.Close()); err != nil {
			return deleter(config), err
		}
		after, err = filterBytes(ctx, server)
		return deleter(config), err
	}
	return Subject{
		Name: fmt.Sprintf("queue in Redis, %d hosts", hosts), Ours: true, Most: most, Add: 40 * time.Microsecond,
		Weigh: func(ctx context.Context, n uint64, progress func(float64)) (Weight, error) {
			weight, err := weighRedis(open, fill)(ctx, n, progress)
			grown := after - before
			return Weight{Bytes: weight.Bytes - grown, By: weight.By + " beside the filter", Keys: weight.Keys - grown}, err
		},
		Predict: func(n uint64) (low, high float64) {
			bytes := float64(sizing.RedisQueue(n, hosts, urlBytes))
			return bytes, bytes
		},
	}
}

// enqueue adds n items of so many hosts.
func enqueue(ctx context.Context, store frontier.Store, n, hosts uint64, progress func(float64)) error {
	const batch = 1000
	for from := uint64(0); from < n; from += batch {
		items := make([]frontier.Item, 0, batch)
		for i := from; i < min(from+batch, n); i++ {
			items = append(items, itemOf(i, hosts))
		}
		if _, err := store.Add(ctx, items); err != nil {
			return err
		}
		progress(float64(from) / float64(n))
	}
	return nil
}

// plain is the key of whatever needs one only.
const plain = "crawler-bench"

// plainSet keeps members in one SET.
func plainSet(member func(i uint64, rng *rand.Rand) string) keeper {
	return func(ctx context.Context, server *redis.UniversalOptions, n uint64, _ func() error, progress func(float64)) (func(context.Context) error, error) {
		rng := rand.New(rand.NewPCG(n, 0))
		err := pipelined(ctx, server, n, progress, func(pipe redis.Pipeliner, i uint64) { pipe.SAdd(ctx, plain, member(i, rng)) })
		return func(ctx context.Context) error { return unlink(ctx, server, plain) }, err
	}
}

// keyEach keeps a key for each URL, the way of SETNX.
func keyEach(ctx context.Context, server *redis.UniversalOptions, n uint64, _ func() error, progress func(float64)) (func(context.Context) error, error) {
	err := pipelined(ctx, server, n, progress, func(pipe redis.Pipeliner, i uint64) { pipe.SetNX(ctx, urlOf(i), 1, 0) })
	drop := func(ctx context.Context) error {
		return pipelined(ctx, server, n, func(float64) {}, func(pipe redis.Pipeliner, i uint64) { pipe.Unlink(ctx, urlOf(i)) })
	}
	return drop, err
}

// moduleFilter weighs the filter of the server's Bloom module.
func moduleFilter(open OpenRedis, p float64) Subject {
	return Subject{
		Name: fmt.Sprintf("BF.RESERVE, p = %g", p), Family: "BF.RESERVE", FPR: p, Add: 4 * time.Microsecond,
		Weigh: weighRedis(open, func(ctx context.Context, server *redis.UniversalOptions, n uint64, _ func() error, progress func(float64)) (func(context.Context) error, error) {
			client := connect(server)
			err := client.BFReserve(ctx, plain, p, int64(n)).Err()
			if err = errors.Join(err, client.Close()); err != nil {
				return nil, err
			}
			err = pipelined(ctx, server, n, progress, func(pipe redis.Pipeliner, i uint64) { pipe.BFAdd(ctx, plain, urlOf(i)) })
			return func(ctx context.Context) error { return unlink(ctx, server, plain) }, err
		}),
	}
}

// HasBloom reports whether the server has the commands of a Bloom module.
func HasBloom(ctx context.Context, client redis.UniversalClient) (bool, error) {
	commands, err := client.Do(ctx, "COMMAND", "INFO", "BF.RESERVE").Slice()
	return err == nil && len(commands) == 1 && commands[0] != nil, err
}

// pipelined sends a command for each of 0..n-1, over a connection of its own.
func pipelined(ctx context.Context, server *redis.UniversalOptions, n uint64, progress func(float64), command func(redis.Pipeliner, uint64)) (err error) {
	client := connect(server)
	defer func() { err = errors.Join(err, client.Close()) }()
	const batch = 1000
	pipe := client.Pipeline()
	for i := range n {
		command(pipe, i)
		if pipe.Len() < batch && i+1 < n {
			continue
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		progress(float64(i) / float64(n))
	}
	return nil
}

func unlink(ctx context.Context, server *redis.UniversalOptions, key string) error {
	client := connect(server)
	return errors.Join(client.Unlink(ctx, key).Err(), client.Close())
}
