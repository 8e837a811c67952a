package sizing

import "fmt"

// HostBytes is how long host names are taken to be where only the length of
// URLs is given: "https://", so many bytes, and the rest is path and query.
const HostBytes = 22

// pathBytes returns how long path and query of a URL are.
func pathBytes(urlBytes int) float64 { return float64(max(urlBytes-len("https://")-HostBytes, 1)) }

// RedisQueue returns what URLs of urlBytes each (the mean) that wait in the queue
// of a crawl with the default number of partitions add to used_memory, beside
// the filter, when all hosts have equally many. Fewer hosts with more take less.
// The coefficients are measured: the result is within 10 % of Redis 7.0.15 for
// 10⁵ to 10⁷ URLs on 10 to 10⁵ hosts. It panics if urlBytes is not positive.
func RedisQueue(queued, hosts uint64, urlBytes int) uint64 {
	if urlBytes < 1 {
		panic(fmt.Sprintf("sizing: URLs of %d bytes", urlBytes))
	}
	const entry, rounding, host, partition = 15, 1.06, 350, 700
	hosts = min(hosts, queued)
	urls := rounding * float64(queued) * (pathBytes(urlBytes) + entry)
	return uint64(urls + host*float64(hosts) + partition*float64(min(hosts, DefaultPartitions)))
}

// LocalQueue returns the least and the most that n URLs of urlBytes each (the
// mean) that wait take in the directory of the embedded store, beside the
// filter's file: measured with pebble 2.1, to 10 %. How far between depends on
// when its logs were last written over (up to 70 MB of them are kept) and its
// tables compacted. URLs that compress well, as those of one site do, take less.
func LocalQueue(n uint64, urlBytes int, exact bool) (least, most uint64) {
	const (
		row, dense = 26, 20 // of a queue's row beside path and query; when everything is compacted
		exactRow   = 22     // of an exact key
		logged     = 160    // of the logs, for a URL
		logs       = 70e6   // all logs that are kept
		stale      = 1.12   // what has not been compacted yet
	)
	text, log := pathBytes(urlBytes), float64(logged)
	if exact {
		text, log = text+exactRow, log+exactRow
	}
	count := float64(n)
	return uint64(count * (text + dense)), uint64(count*(text+row)*stale + min(count*log, logs))
}

// TierFinished returns what n finished keys that count as seen for ever take on
// disk in the exact tier, when a tenth of them waits at a time and the server
// vacuums as it does by itself: the finished version of a row goes to where an
// earlier one was. Measured with Postgres 15 (10⁵ to 10⁷ keys), to 10 %.
func TierFinished(n uint64) uint64 { return 98 * n }

// TierWaiting returns the least and the most that n exact keys with URLs of
// urlBytes each (the mean) take on disk while they wait to be fetched: the most
// until the server has vacuumed what says that they are not queued yet, and has
// given its pages back, which it does not whenever it vacuums. Measured as
// TierFinished is.
func TierWaiting(n uint64, urlBytes int) (least, most uint64) {
	return n * uint64(197+urlBytes), n * uint64(299+urlBytes)
}
