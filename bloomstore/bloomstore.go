// Package bloomstore remembers fingerprints in Bloom filters.
//
// It owns the identity of a key (Fingerprint, Hasher), the contract of a filter
// (Filter) and how a filter grows without passing its target false-positive
// rate (Plan). Backends live below it: membits keeps the bits in memory. It
// knows nothing of URLs, hosts or queues (package frontier), and the arithmetic
// of filters is in package sizing.
package bloomstore

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/dchest/siphash"
)

// Fingerprint is the identity of a key: 16 bytes, uniform and independent of
// the keys' content for whoever does not know the Hasher's Key.
//
// 128 bits, because two of 10⁹ keys share a 64-bit identity with a probability
// of 2.7 %, and that would be a silent loss.
type Fingerprint [16]byte

// A Key makes a Hasher's fingerprints unpredictable: with a public hash a
// hostile site can craft links that fill a filter or collide in it (Gerbet,
// Kumar, Lauradoux, "The Power of Evil Choices in Bloom Filters", DSN 2015).
type Key [16]byte

// NewKey returns a random Key. All stores of one crawl must use the same.
func NewKey() Key {
	var key Key
	_, _ = rand.Read(key[:]) // never fails since Go 1.24: it ends the program instead
	return key
}

// Hasher makes fingerprints: SipHash-2-4-128 under a key. The zero Hasher uses
// the zero key, which everybody knows. It is safe for concurrent use.
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

// Filter is a set of fingerprints that may claim one that was never added, but
// never denies one that was. Implementations are safe for concurrent use and keep
// no reference to prints.
//
// Filter is the contract of the family of backends, which bloomtest tests, and
// of programs that need a filter alone. The crawl's stores use their backends
// directly: bits and queue entry must change in one step, and a store that called
// a Filter and then its queue could keep one without the other.
type Filter interface {
	// AddIfAbsent records prints and reports, index for index, which were not
	// there before. Equal prints within one call count as offered in order: the
	// first may be new, the rest are not. Of callers racing on one fingerprint
	// at most one is told true. On error some of prints may have been recorded:
	// a repeat can answer false for them.
	AddIfAbsent(ctx context.Context, prints []Fingerprint) (added []bool, err error)
	// Contains reports which of prints the filter claims to know.
	Contains(ctx context.Context, prints []Fingerprint) (known []bool, err error)
}

var (
	// ErrFilterLost reports that bits which were stored are not there any more:
	// a missing, short or damaged filter is never taken for an empty one.
	ErrFilterLost = errors.New("bloomstore: filter lost")
	// ErrParamsMismatch reports that stored bits were made with other
	// parameters, another layout version or for another crawl.
	ErrParamsMismatch = errors.New("bloomstore: filter has other parameters")
)
