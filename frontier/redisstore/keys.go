package redisstore

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"strconv"
	"sync/atomic"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/internal/redisbits"
)

// docs/reference/redis-keys.md describes the content, the growth and the writers of each key.

// Keys of the whole crawl, with one hash tag: {name}.
func (c *Config) cardKey() string    { return "crawler:{" + c.Name + "}" }
func (c *Config) workersKey() string { return c.cardKey() + ":workers" }
func (c *Config) heardKey() string   { return c.cardKey() + ":heard" }
func (c *Config) ackedKey() string   { return c.cardKey() + ":acked" }
func (c *Config) scopeKey() string   { return c.cardKey() + ":scope" }

func (c *Config) notesKey() string    { return c.cardKey() + ":notes" }
func (c *Config) journalsKey() string { return c.cardKey() + ":journals" }

// partition is one part of a crawl: a set of hosts whose keys are on one node. The names of
// its keys are short, because each line of the append-only file contains one.
type partition struct {
	number int
	tag    string // {id:number}: prefix of all its keys

	meta        string // hash with counters, the epoch, and the record of the filter's chain: see the fields below
	due         string // sorted set, host by due time: hosts that have ready items and are not leased
	leased      string // sorted set, host by deadline
	delayed     string // sorted set, delayed items by the time when they are ready: see delayedSeqBytes
	exact       string // set of fingerprints of exact items; with Config.Exact, only of those that are queued or leased, and of pages that wait for a later visit
	shadow      string // set of the fingerprints of sampled items, with which the filter's errors are measured
	failedHosts string // set of hosts that have failed items
	readmitted  string // hash, fingerprint of a readmitted item: see readmit.lua
	lost        string // hash, fingerprints of lost items by the number of the worker that had added them: see ledger

	filter    atomic.Pointer[redisbits.Chain] // its record is in meta; the keys of its segments are meta + "0.0" and so on
	node      atomic.Pointer[node]            // its last known node; nil if it was not looked up yet
	misplaced atomic.Bool                     // the node must be looked up again
}

// Fields of partition.meta, in addition to those of the filter's chain (head, layers, keys1,
// keys2, …). All are counters except epoch. These sums hold in each partition:
//
//	added = the sum of all fieldAdded
//	found = added + other
//	other = seen + the sum of all fieldRefused
//	added = queued + leased + done + failed
//
// A link that is seen or refused is counted in the partition of the page that has the link.
// Scripts use more fields, which docs/reference/redis-keys.md lists.
const (
	// In the name of a field, fieldAdded is followed by the number of a worker. The field counts
	// the items that this worker added. The number 0 stands for all processes that are not
	// workers.
	fieldAdded           = "a"
	fieldOther           = "other" // offers that were not added
	fieldSeen            = "seen"
	fieldRefused         = "r:" // followed by a reason
	fieldQueued          = "queued"
	fieldLeased          = "leased"
	fieldDone            = "done"
	fieldFailed          = "failed"
	fieldDelayed         = "delayed" // part of queued
	fieldChecks          = "check:added"
	fieldChecksQueued    = "check:queued" // part of queued
	fieldChecksLeased    = "check:leased" // part of leased
	fieldRetries         = "retries"
	fieldPages           = "pages"
	fieldPagesAgain      = "pages_again"
	fieldFailedAgain     = "failed_again"
	fieldBytes           = "bytes"
	fieldRecords         = "records"
	fieldOutcome         = "o:"   // followed by an outcome
	fieldCause           = "err:" // followed by a cause
	fieldRepeats         = "repeats"
	fieldHosts           = "hosts"   // hosts with queued or leased items
	fieldCounted         = "counted" // hosts in partition.counts
	fieldPromoted        = "promoted"
	fieldRecovered       = "recovered"
	fieldRenewed         = "renewed"    // readmitted items, and items with Decision Again, that were queued although the filter claimed to contain them
	fieldTop             = "top"        // the latest round that an item has had
	fieldLater           = "later"      // items that were queued in the round after top, because the filter claimed to contain them; see add.lua
	fieldKnown           = "known"      // keys that MarkSeen put into the filter; no item was added for them
	fieldGeneration      = "generation" // changes with each readmission in the crawl; see exceptions
	fieldReadmitted      = "readmitted" // fields of partition.readmitted
	fieldReplaced        = "replaced"   // failed items that were readmitted and queued, so they are in no list of failed items; part of failed
	fieldShadowNew       = "sh:new"
	fieldShadowLost      = "sh:lost"
	fieldShadowForgotten = "sh:forgotten"
	fieldEpoch           = "epoch" // run id of the last epoch that the partition noticed
)

func newPartition(crawl string, number int) *partition {
	tag := "{" + crawl + ":" + strconv.Itoa(number) + "}"
	return &partition{
		number: number, tag: tag,
		meta: tag + "f", due: tag + "d", leased: tag + "l", delayed: tag + "z",
		exact: tag + "x", shadow: tag + "s", failedHosts: tag + "F", lost: tag + "L",
		readmitted: tag + "r",
	}
}

// chain returns the partition's filter as this process last read it.
func (p *partition) chain() *redisbits.Chain { return p.filter.Load() }

// Keys of one host.
func (p *partition) queue(priority int, host string) string {
	return p.tag + string('0'+byte(priority)) + host // list of entries
}
func (p *partition) active(host string) string { return p.tag + "a" + host } // hash: its lease
func (p *partition) host(host string) string   { return p.tag + "h" + host } // hash: its state
func (p *partition) failed(host string) string { return p.tag + "e" + host } // list of failed entries

// budget returns the key of the hash that counts the items of a host, and the field of the
// host in that hash. There are 256 such hashes in a partition, so that each stays small
// enough for the compact encoding of Redis.
func (p *partition) budget(host bloomstore.Fingerprint) (key, field string) {
	return p.tag + "b" + hashOf(host), string(host[:8])
}

// counts returns the key of the hash that has the counts of a host under its host key. There are 256
// such hashes in a partition, too.
func (p *partition) counts(host bloomstore.Fingerprint) string { return p.tag + "c" + hashOf(host) }

// hashOf returns two hexadecimal digits, which choose one of 256 hashes for a host.
func hashOf(host bloomstore.Fingerprint) string { return hex.EncodeToString(host[8:9]) }

// places returns the key of the hash that has the places of the hosts of a site, and queue the key of the sorted set
// of the hosts that wait for one: see lease.lua.
func (p *partition) places(site string) string    { return p.tag + "p" + site }
func (p *partition) siteQueue(site string) string { return p.tag + "q" + site }

// partitionOf returns the number of a partition, given the fingerprint of the site or the host key that decides it.
func partitionOf(of bloomstore.Fingerprint, partitions int) int {
	number, _ := bits.Mul64(binary.LittleEndian.Uint64(of[8:]), uint64(partitions))
	return int(number)
}

// partition returns the partition of a host. If the crawl was created with a rate of sites, all hosts of a site are
// in one partition.
func (s *Store) partition(host string) *partition {
	return s.partitionAt(host, s.hasher.Fingerprint(host))
}

// partitionAt is partition for a host with the given fingerprint.
func (s *Store) partitionAt(host string, print bloomstore.Fingerprint) *partition {
	if site := s.siteOf(host); site != "" && site != host {
		print = s.hasher.Fingerprint(site)
	}
	return s.parts[partitionOf(print, len(s.parts))]
}

// siteOf returns the site of a host, or "" if its site has no rate in this crawl.
func (s *Store) siteOf(host string) string {
	if !s.card.BySite {
		return ""
	}
	return policy.Site(host)
}

// rateOf returns the rate of the site of a host; 0 means that there is no limit.
func (s *Store) rateOf(host string) float64 {
	own := s.cfg.Policy().Host(host)
	if s.siteOf(host) == "" {
		return 0
	}
	return own.DomainRate
}

// delayedSeqBytes is the length of the number at the start of a member of
// partition.delayed. The number is big-endian, comes from field z of meta and makes
// the member unique. The host key, a zero byte and the entry follow it.
const delayedSeqBytes = 8
