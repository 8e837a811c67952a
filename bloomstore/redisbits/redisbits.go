// Package redisbits keeps a bloomstore.Filter of any size in plain Redis, a single
// server or a Cluster. It needs no Redis module, and no string is longer than 32 MiB.
//
// It owns the public interface of this filter. Package internal/redisbits lays out,
// reads and changes the bits; the queue of a crawl in Redis uses that package, too.
// docs/design/filter.md describes what is stored, byte by byte. Clients, their
// addresses and passwords are left to the caller.
//
// A filter is never lost silently. If a part of it is missing or too short, has another
// type or other parameters, or belongs to another filter, the error is a
// bloomstore.ErrFilterLost or a bloomstore.ErrParamsMismatch. There is one exception: a
// server can lose its last writes in a failover, and also in a crash, because it syncs its
// append-only file only once a second. The keys in these writes are then lost, and no error
// reports the loss.
package redisbits

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	bits "github.com/bloomfrontier/crawler/internal/redisbits"
)

// Config describes a Filter. All fields except Name are fixed when the filter is
// created: Open refuses other values.
type Config struct {
	Name     string  // name of the filter: 1 to 64 of A-Z a-z 0-9 . _ -
	Capacity uint64  // keys that the first layers of all partitions are sized for; 0 means 10 million
	FPR      float64 // highest false-positive rate (see Growth), in [1e-12, 1); 0 means 1e-6
	Growth   Growth  // what happens beyond Capacity
	// BlockBits is the number of bits of a block, a power of two from 256 to 65536. 0 means
	// 1024. A layer consists of blocks, and all bits of a key in a layer are in one block.
	BlockBits int
	// Partitions is the number of partitions, 1 to 16384. 0 means 16. Each key belongs to one
	// partition. Each partition has its own chain of layers and its own hash tag.
	Partitions int
}

// Growth is what a filter does with more keys than its capacity.
type Growth = bloomstore.Growth

// The values of Growth; see bloomstore.
const (
	GrowthOn  = bloomstore.GrowthOn
	GrowthOff = bloomstore.GrowthOff
)

// Stats describe a filter: its keys, sizes and rate, as a whole and for each layer.
// Keys can be added while the Stats are collected. The fill is measured in blocks chosen
// at random.
type Stats = bits.Stats

// ErrEvicts reports a server that can evict any key when its memory is full.
var ErrEvicts = bits.ErrEvicts

// Filter is a bloomstore.Filter in Redis. It is safe for concurrent use, and any number
// of processes can use the same filter. It holds no connection of its own and needs no
// Close.
//
// If several callers add one fingerprint at the same time, one of them gets true. The
// client never repeats a command that adds: if a connection fails during AddIfAbsent,
// the error is returned, and it is unknown which of the prints were recorded. Reads are
// repeated according to the client's options.
type Filter struct{ bits *bits.Filter }

var _ bloomstore.Filter = (*Filter)(nil)

// Open returns the filter named in config, and creates it if there is none. It
// finishes a creation that was interrupted. If the filter has other parameters, the
// error is an ErrParamsMismatch that shows the stored and the wanted ones. If a
// part of it is lost, the error is an ErrFilterLost, and if the server can evict
// any key, an ErrEvicts.
//
// The client must read from primaries, because a replica can lag behind.
func Open(ctx context.Context, client redis.UniversalClient, config Config) (*Filter, error) {
	filter, err := bits.Open(ctx, client, bits.Config(config))
	if err != nil {
		return nil, err
	}
	return &Filter{filter}, nil
}

// Delete removes the filter with this name, even if parts of it are lost, in steps that
// are short for the server. The next Delete continues an interrupted one. If there is
// no such filter, Delete returns nil. If a key with this name is not a filter, Delete
// leaves the key alone and returns an ErrFilterLost.
func Delete(ctx context.Context, client redis.UniversalClient, name string) error {
	return bits.Delete(ctx, client, name)
}

// AddIfAbsent implements bloomstore.Filter.
func (f *Filter) AddIfAbsent(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	return f.bits.AddIfAbsent(ctx, prints)
}

// Contains implements bloomstore.Filter.
func (f *Filter) Contains(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	return f.bits.Contains(ctx, prints)
}

// Stats reads the counts of all chains and 16,384 random blocks of each layer, enough to
// measure a false-positive rate of 1e-6 with an error of some percent.
func (f *Filter) Stats(ctx context.Context) (Stats, error) { return f.bits.Stats(ctx) }
