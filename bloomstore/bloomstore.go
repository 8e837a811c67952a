// Package bloomstore remembers fingerprints in Bloom filters.
//
// It owns the identity of a key (Fingerprint, Hasher) and the contract of a filter
// (Filter). Backends are in its subpackages: membits keeps the bits in memory,
// redisbits in Redis, and countbits keeps counters in memory, so that keys can be deleted. URLs, hosts and queues are left to package frontier, and the
// arithmetic of filters to package sizing.
package bloomstore

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/dchest/siphash"
)

// Fingerprint is the identity of a key: 16 bytes that look random to anyone
// without the Hasher's Key.
//
// It has 128 bits because 64 would not suffice: the probability that any two of
// 10⁹ keys share a 64-bit hash is 2.7 %, and one of them would be lost silently.
type Fingerprint [16]byte

// Key is the secret that makes a Hasher's fingerprints unpredictable. Without a
// secret a hostile site can craft links that fill a filter or collide in it
// (Gerbet, Kumar, Lauradoux, "The Power of Evil Choices in Bloom Filters", DSN
// 2015).
type Key [16]byte

// NewKey returns a random Key. All stores of one crawl must use the same key.
func NewKey() Key {
	var key Key
	_, _ = rand.Read(key[:]) // never fails since Go 1.24: it ends the program instead
	return key
}

// Hasher makes fingerprints: SipHash-2-4-128 under a key. The zero Hasher uses
// the zero key, which is not secret. It is safe for concurrent use.
type Hasher struct{ k0, k1 uint64 }

// NewHasher returns the Hasher of key.
func NewHasher(key Key) Hasher {
	return Hasher{k0: le64(key[:8]), k1: le64(key[8:])}
}

// Fingerprint returns the identity of s under the Hasher's key.
func (h Hasher) Fingerprint(s string) Fingerprint {
	lo, hi := siphash.Hash128(h.k0, h.k1, bytesOf(s))
	var f Fingerprint
	putLE64(f[:8], lo)
	putLE64(f[8:], hi)
	return f
}

// Filter is a set of fingerprints. It can claim to contain a fingerprint that was never
// added. It always claims to contain those that were added. Implementations are safe
// for concurrent use and keep no reference to prints.
//
// All backends implement Filter; package bloomtest tests them. The stores of a crawl do not
// use this interface. They must change the filter and the queue in one step, because a crash
// between two separate changes could lose a URL. So they set the bits by other functions.
type Filter interface {
	// AddIfAbsent records prints and reports, index for index, which of them are new.
	// If prints contains a fingerprint several times, only the first can be new. If
	// several callers add one fingerprint at the same time, at most one gets true.
	// After an error, some of the prints might have been recorded; a repeated call
	// reports false for these.
	AddIfAbsent(ctx context.Context, prints []Fingerprint) (added []bool, err error)
	// Contains reports, index for index, which of the prints the filter claims to
	// contain.
	Contains(ctx context.Context, prints []Fingerprint) (known []bool, err error)
}

// Growth is what a filter does with more keys than its capacity, the number of keys
// that it is sized for.
type Growth uint8

const (
	// GrowthOn adds layers, each for twice the keys of the one before. The first layer
	// gets 0.9 of the false-positive rate, and the later layers share the other 0.1. So
	// the rate stays below the configured one for any number of keys.
	GrowthOn Growth = iota
	// GrowthOff keeps one layer, which gets the whole rate. Beyond the capacity the
	// rate rises above the configured one.
	GrowthOff
)

var (
	// ErrFilterLost reports a stored filter that is missing, short or damaged. It is
	// never replaced by an empty filter.
	ErrFilterLost = errors.New("bloomstore: filter lost")
	// ErrParamsMismatch reports a stored filter that has other parameters, has
	// another layout version, or belongs to another crawl.
	ErrParamsMismatch = errors.New("bloomstore: filter has other parameters")
)
