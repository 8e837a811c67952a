package sets

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/bloomfrontier/crawler/bloomstore/redisbits"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
)

// Redis is the server that has the sets. All its memory and processor time are
// attributed to the sets, so no other client should use it.
type Redis struct {
	URL     string // can have a password
	Options *redis.UniversalOptions
	Client  redis.UniversalClient
	Version string
}

// OpenRedis connects to the Redis at a URL, which must have a single address. The caller must
// call Close.
func OpenRedis(ctx context.Context, url string) (*Redis, error) {
	options, err := redisstore.ParseURL(url)
	if err != nil {
		return nil, err
	}
	r := &Redis{URL: url, Options: options, Client: NewClient(options)}
	info := r.Client.InfoMap(ctx, "server")
	if err := info.Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to Redis: %w", err), r.Close())
	}
	r.Version = info.Item("Server", "redis_version")
	return r, nil
}

// Close closes the connections.
func (r *Redis) Close() error { return r.Client.Close() }

// NewClient returns a client that sends no commands by itself. So it works with servers
// of any version.
func NewClient(options *redis.UniversalOptions) redis.UniversalClient {
	settings := *options
	settings.DisableIdentity = true
	settings.ContextTimeoutEnabled = true
	settings.ReadTimeout = time.Minute
	settings.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewUniversalClient(&settings)
}

// Info returns the numbers in the given sections of INFO. No sections means the default
// ones. Info adds "asking_memory", the memory of the connection that it used.
func Info(ctx context.Context, client redis.UniversalClient, sections ...string) (map[string]float64, error) {
	pipe := client.TxPipeline()
	asking, info := pipe.ClientInfo(ctx), pipe.Info(ctx, sections...) // in this order, because the answer of INFO takes memory too
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("ask Redis what it uses: %w", err)
	}
	numbers := map[string]float64{"asking_memory": float64(asking.Val().TotalMemory)}
	for line := range strings.Lines(info.Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			numbers[name] = n
		}
	}
	return numbers, nil
}

// Used is the resources that a server used since its start. A field is 0 if the server
// does not report it.
type Used struct {
	CPU  time.Duration
	Wire float64 // bytes, both ways
	Log  float64 // bytes
}

// used waits until all answered commands are in the log, and returns the resources used
// so far. Redis delays writes to its log for up to 2 s while it syncs earlier ones.
func (r *Redis) used(ctx context.Context) (Used, error) {
	const patience = 3 * time.Second // bounded, because other clients can write all the time
	for began := time.Now(); ; {
		info, err := Info(ctx, r.Client)
		if err != nil || info["aof_buffer_length"] == 0 || time.Since(began) > patience {
			seconds := info["used_cpu_sys"] + info["used_cpu_user"]
			return Used{
				time.Duration(seconds * float64(time.Second)), info["total_net_input_bytes"] + info["total_net_output_bytes"], info["aof_current_size"],
			}, err
		}
		select {
		case <-ctx.Done():
			return Used{}, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// inRedis returns a function that opens a set in a Redis.
func inRedis(r *Redis, open func(ctx context.Context, plan Plan) (*Set, error)) func(context.Context, Plan) (*Set, error) {
	return func(ctx context.Context, plan Plan) (*Set, error) {
		s, err := open(ctx, plan)
		if err == nil {
			s.Used = r.used
		}
		return s, err
	}
}

// RedisFilter returns the Kind for the filter of package redisbits.
func RedisFilter(r *Redis) Kind {
	return Kind{Name: "redisbits", Open: inRedis(r, func(ctx context.Context, plan Plan) (*Set, error) {
		config := redisbits.Config{Name: newName(), Capacity: plan.Capacity, FPR: plan.FPR, Growth: plan.Growth, Partitions: plan.Partitions}
		filter, err := redisbits.Open(ctx, r.Client, config)
		if err != nil {
			return nil, err
		}
		set := ofFilter(filter)
		set.Remove = func(ctx context.Context) error { return redisbits.Delete(ctx, r.Client, config.Name) }
		return set, nil
	})}
}

// RedisStore returns the Kind for the store of package redisstore.
func RedisStore(r *Redis) Kind {
	return Kind{Name: "redisstore", Open: inRedis(r, func(ctx context.Context, plan Plan) (*Set, error) {
		config := redisstore.Config{
			Redis: r.Options, Name: newName(), Capacity: plan.Capacity, FPR: plan.FPR, Growth: plan.Growth, Partitions: plan.Partitions,
		}
		store, err := redisstore.Open(ctx, config)
		if err != nil {
			return nil, err
		}
		set := ofStore(store)
		set.Remove = func(ctx context.Context) error {
			_, err := redisstore.Delete(ctx, config)
			return err
		}
		return set, nil
	})}
}

// RedisSet returns the Kind for a Redis SET that contains URLs or, if hashed is true, 8-byte
// hashes of URLs. The set sends one SADD for each link, because each link needs an answer.
func RedisSet(r *Redis, hashed bool) Kind {
	kind := Kind{Name: "SADD of URLs"}
	if hashed {
		kind.Name = "SADD of 8-byte hashes"
	}
	kind.Open = inRedis(r, func(context.Context, Plan) (*Set, error) {
		key, client := newName(), NewClient(r.Options)
		add := func(ctx context.Context, links Links) ([]bool, error) {
			answers := make([]*redis.IntCmd, links.Len())
			_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				for i := range answers {
					member := any(links.Offer(i).URL)
					if hashed {
						print := links.Print(i)
						member = print[:8]
					}
					answers[i] = pipe.SAdd(ctx, key, member)
				}
				return nil
			})
			return each(links, func(i int) bool { return answers[i].Val() > 0 }), err
		}
		return &Set{Add: add, Close: client.Close, Remove: func(ctx context.Context) error { return r.Client.Unlink(ctx, key).Err() }}, nil
	})
	return kind
}
