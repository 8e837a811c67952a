package sizing

// What the embedded store keeps, measured with pebble 2.1 where no arithmetic
// says it: compression, tombstones, and logs that it keeps to write over.
const (
	localEntry = 14 + 12 // of a queue's row, beside path and query: entry, and what of its key is not the row before's
	localDense = 14 + 6  // the same where neighbours share more of their keys, and everything is compacted: of ten million
	localExact = 22      // of the row of an exact key
	localLog   = 160     // of the logs, for a URL
	localExtra = 1.12    // what has not been compacted yet
	localLogs  = 70e6    // all logs that are kept
)

// LocalQueue returns the least and the most that n URLs of urlBytes each (the
// mean) that wait take in the directory of the embedded store, beside the
// filter's file. How far between depends on when its logs were last written over
// (up to 70 MB of them are kept) and its tables compacted. URLs that compress
// well, as those of one site do, take less.
func LocalQueue(n uint64, urlBytes int, exact bool) (least, most uint64) {
	text := float64(max(urlBytes-len("https://")-HostBytes, 1))
	log := float64(localLog)
	if exact {
		text, log = text+localExact, log+localExact
	}
	count := float64(n)
	return uint64(count * (text + localDense)), uint64(count*(text+localEntry)*localExtra + min(count*log, localLogs))
}
