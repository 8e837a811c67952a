// Package redisbits lays out Bloom filters in plain Redis, single server or
// Cluster, of any size: no module, no string beyond 32 MiB.
//
// It owns where the bits are (Layout, Layer), what every stored piece says of
// itself (headers), how a filter grows under one hash tag (Chain), how it is
// asked in bulk (Reader) and how a script changes it (Block). Filter puts these
// together to a set of fingerprints and nothing else, which other programs have
// from the public package of the same name. A script
// that changes more than bits in one step is its author's (package redisstore),
// and so are clients, their addresses and passwords. Sizes come from package
// sizing; docs/design/filter.md describes what is stored, byte by byte.
//
// A filter never forgets in silence. What is missing, short, of another type,
// of other parameters or somebody else's is an ErrFilterLost or an
// ErrParamsMismatch, never an empty filter: a block that is not there fails the
// read that wants it; a segment that was put in the place of another fails the
// add that would change it, and any read at the latest a second later, when the
// headers are looked at again. What no header shows is a server that lost its
// last moments (an append-only file synced every second, a failover): it forgets
// what was added in them, as it does of all its data.
package redisbits

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
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

var validName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// withDefaults returns c with zero fields filled in, or all its faults but those
// of the params it leads to.
func (c Config) withDefaults() (Config, error) {
	c.Capacity = cmp.Or(c.Capacity, 10_000_000)
	c.Partitions = cmp.Or(c.Partitions, 16)
	var errs []error
	if !validName.MatchString(c.Name) {
		errs = append(errs, fmt.Errorf("Name is %q, want 1 to 64 letters, digits, dots, underscores, hyphens", c.Name))
	}
	if c.Partitions < 1 || c.Partitions > maxPartitions {
		errs = append(errs, fmt.Errorf("Partitions is %d, want 1 to %d", c.Partitions, maxPartitions))
	}
	return c, errors.Join(errs...)
}

// params returns what each chain is made for. Its capacity is its part of the
// keys and four standard deviations of that, so that chance alone makes none grow.
func (c Config) params() Params {
	each := float64(c.Capacity) / float64(c.Partitions)
	return Params{
		Capacity: uint64(math.Ceil(each + 4*math.Sqrt(each))),
		FPR:      c.FPR, Growth: c.Growth, BlockBits: c.BlockBits,
	}
}

// Filter is a bloomstore.Filter in Redis. It is safe for concurrent use, and any
// number of processes may have the same one open.
//
// A call changes each chain in one step: of racers on one fingerprint one wins.
// Commands that add are never sent twice by the client; when a connection fails
// during AddIfAbsent, the error is returned, and prints may or may not have been
// recorded (see bloomstore.Filter). Reads are repeated as the client's options
// say.
type Filter struct {
	client    redis.UniversalClient
	layout    *Layout
	chains    []*Chain
	partition func(fp bloomstore.Fingerprint, partitions int) int // PartitionOf, but in tests
	readers   sync.Pool                                           // of *Reader
}

var _ bloomstore.Filter = (*Filter)(nil)

// Open returns the filter of that name, and creates it if there is none. A filter
// of other parameters is an ErrParamsMismatch that shows both, one that lost a part
// an ErrFilterLost, a server that may evict any key an ErrEvicts. A creation that was
// interrupted is taken up again.
//
// The client must read from primaries: a replica answers for the past.
func Open(ctx context.Context, client redis.UniversalClient, config Config) (*Filter, error) {
	config, err := config.withDefaults()
	layout, layoutErr := NewLayout(config.params())
	if err := errors.Join(err, layoutErr); err != nil {
		return nil, fmt.Errorf("redisbits: %w", err)
	}
	if err := CheckServer(ctx, client); err != nil {
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

// deedKey is the key of a filter's deed, a hash of the fields head (a header
// whose partition is the number of partitions), and ready when all chains were
// created: from then on a chain that is not there is lost, not new.
func deedKey(name string) string { return "{" + name + "}f" }

func chainPrefix(name string, partition int) string {
	return "{" + name + ":" + strconv.Itoa(partition) + "}"
}

func (f *Filter) open(ctx context.Context, config Config) error {
	key := deedKey(config.Name)
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
	mine.id = idOf(head) // whoever came first named it
	if err := checkHeader(key, []byte(head), mine.head()); err != nil {
		return err
	}
	f.chains = f.layout.chains(mine.id, config)
	if fields[1] != nil {
		return each(len(f.chains), func(i int) error { return f.chains[i].Open(ctx, f.client) })
	}
	if err := each(len(f.chains), func(i int) error { return f.chains[i].Create(ctx, f.client) }); err != nil {
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

// each calls do for 0..n-1, eight at a time, and returns their errors. Calls
// that did not begin before the first error are left out.
func each(n int, do func(i int) error) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	next := 0
	for range min(n, 8) {
		wg.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for next < n && len(errs) == 0 {
				i := next
				next++
				mu.Unlock()
				err := do(i)
				mu.Lock()
				if err != nil {
					errs = append(errs, err)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Delete removes the filter of that name, whatever is left of it, in steps that
// are short for the server. An interrupted Delete is taken up by the next one.
// No filter of that name is no error; a key of that name that is no filter's is
// left alone, with an ErrFilterLost.
func Delete(ctx context.Context, client redis.UniversalClient, name string) error {
	key := deedKey(name)
	head, err := client.HGet(ctx, key, "head").Result()
	if errors.Is(err, redis.Nil) {
		return nil
	} else if err != nil {
		return fmt.Errorf("delete filter %q: %w", name, lostType(err))
	}
	deed, err := decodeHead(key, head)
	if err != nil {
		return fmt.Errorf("delete filter %q: %w", name, err)
	}
	layout, err := NewLayout(deed.params)
	if err != nil {
		return fmt.Errorf("delete filter %q: %w", name, err)
	}
	chains := layout.chains(deed.id, Config{Name: name, Partitions: deed.partition})
	if err := each(len(chains), func(i int) error { return chains[i].Delete(ctx, client) }); err != nil {
		return fmt.Errorf("delete filter %q: %w", name, err)
	}
	if err := client.Unlink(ctx, key).Err(); err != nil {
		return fmt.Errorf("delete filter %q: %w", name, err)
	}
	return nil
}

// Contains reports which of prints the filter claims to know; see
// bloomstore.Filter.
func (f *Filter) Contains(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	known := make([]bool, len(prints))
	err := f.windows(ctx, prints, func(r *Reader, w *window) error {
		return f.contains(ctx, r, w, known)
	})
	if err != nil {
		return nil, fmt.Errorf("look up %d fingerprints: %w", len(prints), err)
	}
	return known, nil
}

// contains answers the questions of w. That a print is absent is certain once
// the chain is seen to have no layer that was not asked.
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

// maxWindow is how many fingerprints of a call are worked on at a time: so many
// blocks are kept in memory.
const maxWindow = 4096

// window is a part of a call's fingerprints that have no answer yet.
type window struct {
	asks  []Ask
	index []int // of each in the call
}

// windows calls do with one window of prints after the other.
func (f *Filter) windows(ctx context.Context, prints []bloomstore.Fingerprint, do func(*Reader, *window) error) error {
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
		if err := do(r, &w); err != nil {
			return err
		}
	}
	return nil
}

// keep drops what still does not hold for, keeping the order.
func (w *window) keep(still func(ask *Ask, index int) bool) {
	n := 0
	for i := range w.asks {
		if still(&w.asks[i], w.index[i]) {
			w.asks[n], w.index[n] = w.asks[i], w.index[i]
			n++
		}
	}
	w.asks, w.index = w.asks[:n], w.index[:n]
}

// chains returns the chains that are asked, once each.
func (w *window) chains() []*Chain {
	var chains []*Chain
	seen := make(map[*Chain]bool)
	for i := range w.asks {
		if c := w.asks[i].Chain; !seen[c] {
			seen[c] = true
			chains = append(chains, c)
		}
	}
	return chains
}
