package sizing

// What Postgres 15 keeps for the exact tier: pages of 8192 bytes, rows behind a
// header of 24 and aligned to 8, with a line pointer of 4.
const (
	pageBytes = 8192
	pageRows  = pageBytes - 24       // what rows can take of a page
	indexRoom = (pageRows-16)/28 - 1 // entries of a uuid in an index page, beside its high key
	keyRow    = 24 + 24 + 4          // fingerprint, round, status, class, outcome

	pendingRow = 24 + 24 + 4 // fingerprint, since when
)

// TierFinished returns what n finished keys that count as seen for ever take on
// disk in the exact tier, when a tenth of them waits at a time and the server
// vacuums as it does by itself: the finished version of a row goes to where an
// earlier one was. Within 5 % of Postgres 15 (10⁵ to 10⁷ keys).
func TierFinished(n uint64) uint64 {
	const versions = 1.09
	return uint64(versions*heap(n, keyRow) + index(n))
}

// TierWaiting returns the least and the most that n exact keys with URLs of
// urlBytes each (the mean) take on disk while they wait to be fetched: the most
// until the server has vacuumed what says that they are not queued yet, and has
// given its pages back, which it does not whenever it vacuums.
func TierWaiting(n uint64, urlBytes int) (least, most uint64) {
	length := 1
	if urlBytes > 126 {
		length = 4
	}
	row := 24 + (24+length+urlBytes+7)/8*8 + 4
	tables := heap(n, keyRow) + heap(n, row) + 2*index(n)
	const since = 8 // of the index on when a key became pending: many have the same
	pending := heap(n, pendingRow) + index(n) + since*float64(n)
	return uint64(tables), uint64(tables + pending)
}

// heap returns the bytes of a table's pages.
func heap(rows uint64, rowBytes int) float64 {
	inPage := uint64(max(pageRows/rowBytes, 1)) // a row that exceeds a page is stored out of line; not for URLs
	return float64((rows+inPage-1)/inPage) * pageBytes
}

// index returns the bytes of an index on fingerprints, which come in no order:
// leaves, the pages above them, and the one that describes it.
func index(keys uint64) float64 {
	leaves := leafPages(float64(keys), indexRoom)
	return (leaves*(1+1/(0.69*indexRoom)) + 1) * pageBytes
}
