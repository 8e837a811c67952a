package speed

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/bloomstore/redisbits"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/localstore"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
)

// hosts is what links are spread over; those of one call are of few of them.
const hosts = 1000

// itemOf returns the i-th link: of the links of a page most are of one host.
func itemOf(i uint64) frontier.Item {
	host := "host" + strconv.FormatUint(i/32%hosts, 10) + ".example.org"
	return frontier.Item{
		URL:  "https://" + host + "/articles/of/some/length/" + strconv.FormatUint(1e9+i, 10) + ".html?page=next",
		Host: host, Depth: 3, Priority: frontier.PriorityPage, Referrer: frontier.Referrer{1, 2, 3, 4, 5, 6, 7, 8},
	}
}

// printOf returns the i-th fingerprint: real ones are keyed hashes, so numbers
// that look random are as good.
func printOf(i uint64) (fp bloomstore.Fingerprint) {
	random := rand.NewPCG(i, 1)
	binary.LittleEndian.PutUint64(fp[:8], random.Uint64())
	binary.LittleEndian.PutUint64(fp[8:], random.Uint64())
	return fp
}

// Memory is package membits.
func Memory() Subject {
	return Subject{Name: "membits", Open: func(_ context.Context, keys uint64) (*Opened, error) {
		filter, err := membits.New(membits.Config{Capacity: keys})
		if err != nil {
			return nil, err
		}
		return &Opened{Offer: offerTo(filter), Close: func(context.Context) error { return nil }}, nil
	}}
}

// Local is package localstore, in a folder below dir.
func Local(dir string) Subject {
	return Subject{Name: "localstore", Queue: true, Open: func(_ context.Context, keys uint64) (*Opened, error) {
		dir, err := os.MkdirTemp(dir, "speed-")
		if err != nil {
			return nil, err
		}
		store, err := localstore.Open(localstore.Config{Dir: dir, Delay: localstore.NoDelay, Filter: membits.Config{Capacity: keys}})
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		return &Opened{Offer: addTo(store), Store: store, Close: func(context.Context) error {
			return errors.Join(store.Close(), os.RemoveAll(dir))
		}}, nil
	}}
}

// OpenRedis starts a Redis, or returns one that is there.
type OpenRedis func(ctx context.Context) (RedisServer, error)

// RedisServer is a Redis, at best one that nobody else uses: what it uses counts
// as what is measured.
type RedisServer struct {
	Options *redis.UniversalOptions
	Client  redis.UniversalClient
	Close   func() error
}

// RedisFilter is package redisbits.
func RedisFilter(open OpenRedis) Subject {
	return Subject{Name: "redisbits", Open: func(ctx context.Context, keys uint64) (*Opened, error) {
		server, err := open(ctx)
		if err != nil {
			return nil, err
		}
		config := redisbits.Config{Name: newName(), Capacity: keys}
		filter, err := redisbits.Open(ctx, server.Client, config)
		if err != nil {
			return nil, errors.Join(err, server.Close())
		}
		return &Opened{Offer: offerTo(filter), Used: usedBy(server.Client), Close: func(ctx context.Context) error {
			return errors.Join(redisbits.Delete(ctx, server.Client, config.Name), server.Close())
		}}, nil
	}}
}

// RedisStore is package redisstore.
func RedisStore(open OpenRedis) Subject {
	return Subject{Name: "redisstore", Queue: true, Open: func(ctx context.Context, keys uint64) (*Opened, error) {
		server, err := open(ctx)
		if err != nil {
			return nil, err
		}
		config := redisstore.Config{
			Redis: server.Options, Name: newName(), FilterKeys: keys, Delay: redisstore.NoDelay, SeenCache: redisstore.NoSeenCache,
		}
		store, err := redisstore.Open(ctx, config)
		if err != nil {
			return nil, errors.Join(err, server.Close())
		}
		return &Opened{Offer: addTo(store), Store: store, Used: usedBy(server.Client), Close: func(ctx context.Context) error {
			err := store.Close()
			_, deleted := redisstore.Delete(ctx, config)
			return errors.Join(err, deleted, server.Close())
		}}, nil
	}}
}

func newName() string { return "bench-" + strconv.FormatUint(rand.Uint64(), 36) }

// offerTo offers fingerprints to a filter.
func offerTo(filter bloomstore.Filter) func(context.Context, uint64, uint64) (uint64, error) {
	return func(ctx context.Context, first, n uint64) (added uint64, err error) {
		prints := make([]bloomstore.Fingerprint, n)
		for i := range prints {
			prints[i] = printOf(first + uint64(i))
		}
		fresh, err := filter.AddIfAbsent(ctx, prints)
		for _, is := range fresh {
			if is {
				added++
			}
		}
		return added, err
	}
}

// addTo offers items to a store.
func addTo(store frontier.Store) func(context.Context, uint64, uint64) (uint64, error) {
	return func(ctx context.Context, first, n uint64) (added uint64, err error) {
		items := make([]frontier.Item, n)
		for i := range items {
			items[i] = itemOf(first + uint64(i))
		}
		verdicts, err := store.Add(ctx, items)
		for _, v := range verdicts {
			if v.Answer == frontier.Added {
				added++
			}
		}
		return added, err
	}
}
