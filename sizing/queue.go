package sizing

import "fmt"

// HostBytes is the assumed length of host names if only the length of URLs is given. A
// URL then consists of "https://", a host name of HostBytes bytes, and path and query.
const HostBytes = 22

// pathBytes returns the length of path and query of a URL.
func pathBytes(urlBytes int) float64 { return float64(max(urlBytes-len("https://")-HostBytes, 1)) }

// RedisQueue returns the part of used_memory that queued URLs take in Redis, without the
// filter, in a crawl with the default number of partitions. urlBytes is the mean length
// of a URL. RedisQueue assumes that all hosts have equally many URLs; unequal hosts take
// less. The coefficients are measured: the result is within 10 % of Redis 7.0.15 for 10⁵
// to 10⁷ URLs on 10 to 10⁵ hosts. RedisQueue panics if urlBytes is not positive.
func RedisQueue(queued, hosts uint64, urlBytes int) uint64 {
	if urlBytes < 1 {
		panic(fmt.Sprintf("sizing: URLs of %d bytes", urlBytes))
	}
	const entry, rounding, host, partition = 15, 1.06, 350, 700
	hosts = min(hosts, queued)
	urls := rounding * float64(queued) * (pathBytes(urlBytes) + entry)
	return uint64(urls + host*float64(hosts) + partition*float64(min(hosts, DefaultPartitions)))
}

// RedisCounts returns the part of used_memory that the counts of finished URLs take in Redis, one for each host
// with such URLs, up to a million hosts. In a crawl with the default number of partitions and names of 23 bytes,
// it is measured: 65 bytes a host for a million hosts, and 132 for 30,000.
func RedisCounts(hosts uint64) uint64 {
	const few, each, more, most = 1 << 16, 132, 60, 1_000_000
	hosts = min(hosts, most)
	return each*min(hosts, few) + more*(hosts-min(hosts, few))
}

// LocalQueue returns the least and the most disk that n queued URLs take in the
// directory of the embedded store, without the filter's file. urlBytes is the mean
// length of a URL. The coefficients are measured with pebble 2.1, to 10 %. The actual
// size depends on when pebble last reused its logs (up to 70 MB of them are kept) and
// compacted its tables. URLs that compress well, such as those of one site, take less.
func LocalQueue(n uint64, urlBytes int, exact bool) (least, most uint64) {
	const (
		row, dense = 26, 20 // bytes of a queue's row without path and query: before and after compaction
		exactRow   = 22     // bytes of an exact key
		logged     = 160    // bytes of log for a URL
		logs       = 70e6   // maximum bytes of log
		stale      = 1.12   // factor for rows that have not been compacted yet
	)
	text, log := pathBytes(urlBytes), float64(logged)
	if exact {
		text, log = text+exactRow, log+exactRow
	}
	count := float64(n)
	return uint64(count * (text + dense)), uint64(count*(text+row)*stale + min(count*log, logs))
}

// PostgresFinished returns the bytes on disk that n finished exact keys take in Postgres, if
// the keys have no window, so that they never expire. It assumes that a tenth of the keys are
// waiting at any time, and that the server vacuums with its default settings, so that it
// reuses the space of old row versions. The coefficient is measured with Postgres 15 (10⁵ to
// 10⁷ keys), to 10 %.
func PostgresFinished(n uint64) uint64 { return 98 * n }

// PostgresWaiting returns the least and the most bytes on disk that n exact keys take
// in Postgres while they wait to be fetched. urlBytes is the mean length of a URL. A
// key that is not queued yet has an extra row. The size stays near its maximum until the
// server has vacuumed these rows and freed their pages. Not every vacuum frees pages. The
// coefficients are measured like that of PostgresFinished.
func PostgresWaiting(n uint64, urlBytes int) (least, most uint64) {
	return n * uint64(197+urlBytes), n * uint64(299+urlBytes)
}
