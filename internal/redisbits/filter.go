// Package redisbits stores Bloom filters of any size in plain Redis, a single server or
// a Cluster. It needs no module, and no string is longer than 32 MiB.
//
// It owns the position of each bit (Layout, Layer), the headers of all stored strings,
// the growth of a filter under one hash tag (Chain), look-ups in bulk (Reader) and
// changes in a script (Block). Filter combines these into a set of fingerprints, which
// other programs use through the public package with the same name. A caller that changes
// bits and other data in one step, such as package redisstore, has a script of its own. Clients,
// their addresses and passwords are left to the caller. Sizes come from package sizing.
// docs/design/filter.md describes what is stored, byte by byte.
//
// A filter is never lost silently. If a part is missing or short, has another type or
// other parameters, or belongs to another filter, the error is an ErrFilterLost or an
// ErrParamsMismatch. A read fails if its block is missing. An add fails if the segment
// that it would change was replaced. Reads fail within a second after a segment was
// replaced, when the headers are verified again. There is one exception: if a server
// loses its last writes (an append-only file synced every second, a failover), the keys
// in these writes are lost, and the headers do not show it.
package redisbits

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/name"
)

// Config describes a Filter: see Config of the public package, and Params.
type Config struct {
	Name       string
	Capacity   uint64 // of all chains together
	FPR        float64
	Growth     Growth
	BlockBits  int
	Partitions int
}

const maxPartitions = 1 << 14 // a cluster has no more slots

// withDefaults returns c with its zero fields filled in, or all its faults. It does not
// check the fields that NewLayout checks.
func (c Config) withDefaults() (Config, error) {
	c.Capacity = cmp.Or(c.Capacity, 10_000_000)
	c.Partitions = cmp.Or(c.Partitions, 16)
	var errs []error
	if !name.Valid(c.Name) {
		errs = append(errs, fmt.Errorf("Name is %q, want %s", c.Name, name.Form))
	}
	if c.Partitions < 1 || c.Partitions > maxPartitions {
		errs = append(errs, fmt.Errorf("Partitions is %d, want 1 to %d", c.Partitions, maxPartitions))
	}
	return c, errors.Join(errs...)
}

// Params returns the params of each chain. The capacity is the chain's share of the keys
// plus four standard deviations, so that hardly any chain grows by chance alone.
func (c Config) Params() Params {
	each := float64(c.Capacity) / float64(c.Partitions)
	return Params{
		Capacity: uint64(math.Ceil(each + 4*math.Sqrt(each))),
		FPR:      c.FPR, Growth: c.Growth, BlockBits: c.BlockBits,
	}
}

// Filter is a bloomstore.Filter in Redis. Its documentation is in the public package
// bloomstore/redisbits. A call changes a chain in steps of at most maxPerScript fingerprints.
type Filter struct {
	client    redis.UniversalClient
	layout    *Layout
	chains    []*Chain
	partition func(fp bloomstore.Fingerprint, partitions int) int // PartitionOf, except in tests
	readers   sync.Pool                                           // of *Reader
}

var _ bloomstore.Filter = (*Filter)(nil)

// Open does what Open of package bloomstore/redisbits says.
func Open(ctx context.Context, client redis.UniversalClient, config Config) (*Filter, error) {
	config, err := config.withDefaults()
	layout, layoutErr := NewLayout(config.Params())
	if err := errors.Join(err, layoutErr); err != nil {
		return nil, fmt.Errorf("redisbits: %w", err)
	}
	if err := checkServer(ctx, client); err != nil {
		return nil, fmt.Errorf("open filter %q: %w", config.Name, err)
	}
	f := newFilter(client, layout, nil)
	if err := f.open(ctx, config); err != nil {
		return nil, fmt.Errorf("open filter %q: %w", config.Name, err)
	}
	return f, nil
}

func newFilter(client redis.UniversalClient, layout *Layout, chains []*Chain) *Filter {
	f := &Filter{client: client, layout: layout, chains: chains, partition: PartitionOf}
	f.readers.New = func() any { return NewReader(client) }
	return f
}

// filterKey returns the key of a filter's own record, a hash with the fields head and ready. The
// field head has the same form as the first bytes of a chain's header (see header.head), except
// that it has the total number of partitions where a chain's header has the index of the chain's
// partition. The field ready is set when all chains were created. From then on, a missing chain
// means that the filter has lost data.
func filterKey(name string) string { return "{" + name + "}f" }

func chainPrefix(name string, partition int) string {
	return "{" + name + ":" + strconv.Itoa(partition) + "}"
}

func (f *Filter) open(ctx context.Context, config Config) error {
	key := filterKey(config.Name)
	mine := header{params: f.layout.params, partition: config.Partitions}
	_, _ = rand.Read(mine.id[:]) // never fails since Go 1.24
	if err := f.client.HSetNX(ctx, key, "head", mine.head()).Err(); err != nil {
		return fmt.Errorf("write key %q: %w", key, lostType(err))
	}
	fields, err := f.client.HMGet(ctx, key, "head", "ready").Result()
	if err != nil {
		return fmt.Errorf("read key %q: %w", key, err)
	}
	head, _ := fields[0].(string)
	mine.id = idOf(head) // the id that the first process has set
	if err := checkHeader(key, []byte(head), mine.head()); err != nil {
		return err
	}
	f.chains = f.layout.chains(mine.id, config)
	if fields[1] != nil {
		return Each(ctx, f.chains, func(ctx context.Context, c *Chain) error { return c.Open(ctx, f.client) })
	}
	err = Each(ctx, f.chains, func(ctx context.Context, c *Chain) error { return c.Create(ctx, f.client) })
	if err != nil {
		return err
	}
	return f.client.HSet(ctx, key, "ready", 1).Err()
}

func (l *Layout) chains(id ID, config Config) []*Chain {
	chains := make([]*Chain, config.Partitions)
	for i := range chains {
		chains[i] = l.Chain(id, i, chainPrefix(config.Name, i))
	}
	return chains
}

// Each calls the function visit once for each element of list, and returns the first error. At
// most 16 of these calls run at a time. After an error, Each starts no more calls.
func Each[E any](ctx context.Context, list []E, visit func(context.Context, E) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, e := range list {
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return visit(ctx, e)
		})
	}
	return group.Wait()
}

// Delete does what Delete of package bloomstore/redisbits says.
func Delete(ctx context.Context, client redis.UniversalClient, name string) error {
	if err := remove(ctx, client, name); err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("delete filter %q: %w", name, err)
	}
	return nil
}

// remove removes the filter with this name. It returns redis.Nil if there is no such filter.
func remove(ctx context.Context, client redis.UniversalClient, name string) error {
	key := filterKey(name)
	head, err := client.HGet(ctx, key, "head").Result()
	if err != nil {
		return lostType(err)
	}
	stored, err := decodeHead(key, head)
	if err != nil {
		return err
	}
	layout, err := NewLayout(stored.params)
	if err != nil {
		return err
	}
	chains := layout.chains(stored.id, Config{Name: name, Partitions: stored.partition})
	err = Each(ctx, chains, func(ctx context.Context, c *Chain) error { return c.Delete(ctx, client) })
	if err != nil {
		return err
	}
	return client.Unlink(ctx, key).Err()
}

// Contains reports which of the prints the filter claims to contain; see
// bloomstore.Filter.
func (f *Filter) Contains(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	known := make([]bool, len(prints))
	err := f.eachWindow(ctx, prints, func(r *Reader, w *window) error {
		return f.contains(ctx, r, w, known)
	})
	if err != nil {
		return nil, fmt.Errorf("look up %d fingerprints: %w", len(prints), err)
	}
	return known, nil
}

// contains looks up the fingerprints of w and stores the answers in the argument known. If no
// layer claims a fingerprint, and its chain has more layers than were read, contains looks the
// fingerprint up again.
func (f *Filter) contains(ctx context.Context, r *Reader, w *window, known []bool) error {
	for len(w.asks) > 0 {
		if err := r.Read(ctx, w.asks); err != nil {
			return err
		}
		w.keep(func(ask *Ask, index int) bool {
			known[index] = ask.Known
			return !ask.Known
		})
		if len(w.asks) == 0 {
			return nil
		}
		if err := refresh(ctx, f.client, w.chains()); err != nil {
			return err
		}
		w.keep(func(ask *Ask, _ int) bool { return ask.Chain.Layers() > ask.Layers() })
	}
	return nil
}

// maxWindow is the number of fingerprints of a call that are handled at a time. It limits
// the number of blocks in memory.
const maxWindow = 4096

// window is a part of the fingerprints of one call. It has only those without an answer yet.
type window struct {
	asks  []Ask
	index []int // for each element of asks, the index of its fingerprint in the call
}

// eachWindow divides prints into windows of at most maxWindow fingerprints, and calls
// the function visit once for each window, in order.
func (f *Filter) eachWindow(ctx context.Context, prints []bloomstore.Fingerprint, visit func(*Reader, *window) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := f.readers.Get().(*Reader)
	defer f.readers.Put(r)
	var w window
	for start := 0; start < len(prints); start += maxWindow {
		part := prints[start:min(start+maxWindow, len(prints))]
		w.asks, w.index = w.asks[:0], w.index[:0]
		for i, fp := range part {
			w.asks = append(w.asks, Ask{Chain: f.chains[f.partition(fp, len(f.chains))], Print: fp})
			w.index = append(w.index, start+i)
		}
		if err := visit(r, &w); err != nil {
			return err
		}
	}
	return nil
}

// keep removes from w the fingerprints for which wanted returns false. It does not change the
// order of the others.
func (w *window) keep(wanted func(ask *Ask, index int) bool) {
	n := 0
	for i := range w.asks {
		if wanted(&w.asks[i], w.index[i]) {
			w.asks[n], w.index[n] = w.asks[i], w.index[i]
			n++
		}
	}
	w.asks, w.index = w.asks[:n], w.index[:n]
}

// chains returns the chains of the fingerprints in w, each once.
func (w *window) chains() []*Chain {
	chains := make(map[*Chain]bool)
	for i := range w.asks {
		chains[w.asks[i].Chain] = true
	}
	return slices.Collect(maps.Keys(chains))
}
