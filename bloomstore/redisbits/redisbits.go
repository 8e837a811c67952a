// Package redisbits keeps a bloomstore.Filter in plain Redis, single server or
// Cluster, of any size: no module, no string beyond 32 MiB.
//
// It owns what a program sees of such a filter. How bits are laid out, read and
// changed is package internal/redisbits's, which the queue of a crawl in Redis
// builds on as well; docs/design/filter.md describes what is stored, byte by byte.
// Clients, their addresses and passwords are the caller's.
//
// A filter never forgets in silence. What is missing, short, of another type, of
// other parameters or of another filter is a bloomstore.ErrFilterLost or a
// bloomstore.ErrParamsMismatch, never an empty filter. A server that lost its last
// moments (an append-only file synced every second, a failover) forgets what was
// added in them, as it does of all its data, and no error shows it.
package redisbits

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	bits "github.com/bloomfrontier/crawler/internal/redisbits"
)

// Config describes a Filter. All but Name is fixed when the filter is created:
// Open with other values is refused.
type Config struct {
	Name       string  // of the filter in its Redis: 1 to 64 of A-Z a-z 0-9 . _ -
	Capacity   uint64  // keys that the first layers hold together; 0 means ten million
	FPR        float64 // false-positive rate never passed (see Growth), in [1e-12, 1); 0 means 1e-6
	Growth     Growth  // what happens beyond Capacity
	BlockBits  int     // of one block, a power of two from 256 to 65536; 0 means 1024
	Partitions int     // chains of layers, each with a hash tag of its own, that share the keys: 1 to 16384; 0 means 16
}

// Growth says what a filter does with more keys than its capacity.
type Growth = bits.Growth

const (
	// GrowthOn adds layers, each for twice the keys of the one before. The first
	// gets 0.9 of the false-positive rate and the others share the rest, so the
	// rate holds however many keys come.
	GrowthOn = bits.GrowthOn
	// GrowthOff keeps one layer, which gets the whole rate. Beyond Capacity the
	// rate rises above FPR; Stats tells how far.
	GrowthOff = bits.GrowthOff
)

// Stats describe a filter as of about one moment: its keys, sizes and rate, as a
// whole and layer by layer. What it says of the fill comes from blocks drawn at
// random.
type Stats = bits.Stats

// ErrEvicts reports a server that may evict any key when its memory is full.
var ErrEvicts = bits.ErrEvicts

// Filter is a bloomstore.Filter in Redis. It is safe for concurrent use, and any
// number of processes may have the same one open. It holds no connection of its
// own and needs no Close.
//
// Of racers on one fingerprint one wins. Commands that add are never sent twice by
// the client; when a connection fails during AddIfAbsent, the error is returned,
// and prints may or may not have been recorded. Reads are repeated as the client's
// options say.
type Filter struct{ bits *bits.Filter }

var _ bloomstore.Filter = (*Filter)(nil)

// Open returns the filter of that name, and creates it if there is none. A filter
// of other parameters is an ErrParamsMismatch that shows both, one that lost a part
// an ErrFilterLost, a server that may evict any key an ErrEvicts. A creation that was
// interrupted is taken up again.
//
// The client must read from primaries: a replica answers for the past.
func Open(ctx context.Context, client redis.UniversalClient, config Config) (*Filter, error) {
	filter, err := bits.Open(ctx, client, bits.Config(config))
	if err != nil {
		return nil, err
	}
	return &Filter{filter}, nil
}

// Delete removes the filter of that name, whatever is left of it, in steps that
// are short for the server. An interrupted Delete is taken up by the next one.
// No filter of that name is no error; a key of that name that is no filter's is
// left alone, with an ErrFilterLost.
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

// Stats reads sample random blocks of each layer, and the counts of all chains. A
// sample of 0 means 16,384 blocks: it knows a false-positive rate of 1e-6 to some
// percent.
func (f *Filter) Stats(ctx context.Context, sample int) (Stats, error) {
	return f.bits.Stats(ctx, sample)
}
