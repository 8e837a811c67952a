package localstore

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// canonicalURL draws a URL and its host key. Schemes and hosts are common or rare, and the
// port is optional. Sometimes the URL does not contain the host key.
func canonicalURL(t *rapid.T) (url, host string) {
	host = rapid.StringMatching(`[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?|\[::1\]|127\.0\.0\.1`).Draw(t, "host")
	port := rapid.SampledFrom([]string{"", "", ":8080", ":1"}).Draw(t, "port")
	scheme := rapid.SampledFrom([]string{"https://", "http://", "http://", "ftp://"}).Draw(t, "scheme")
	named := rapid.SampledFrom([]string{host, host, "www." + host, host + ".evil", ""}).Draw(t, "named")
	rest := rapid.StringMatching(`(/[!-~é]{0,30}(\?[!-~]{0,20})?)?`).Draw(t, "rest")
	return scheme + named + port + rest, host
}

// TestEntryKeepsTheItem: an item does not change when it is encoded and decoded.
func TestEntryKeepsTheItem(t *testing.T) {
	t.Parallel()
	hasher := bloomstore.NewHasher(bloomstore.Key{1, 2, 3})
	rapid.Check(t, func(t *rapid.T) {
		url, host := canonicalURL(t)
		want := frontier.Item{
			URL: url, Host: host, Fingerprint: hasher.Fingerprint(url),
			Depth: rapid.Uint16().Draw(t, "depth"), Hops: rapid.Uint8().Draw(t, "hops"),
			Priority: frontier.Priority(rapid.IntRange(0, frontier.Priorities-1).Draw(t, "priority")),
			Class:    frontier.Class(rapid.IntRange(0, maxClass).Draw(t, "class")),
			Attempts: rapid.Uint8().Draw(t, "attempts"), Deliveries: rapid.Uint8().Draw(t, "deliveries"),
			Added: frontier.Moment(rapid.Uint16().Draw(t, "added")), Round: rapid.Uint32().Draw(t, "round"), Submission: rapid.StringN(0, 40, frontier.MaxSubmission).Draw(t, "submission"),
		}
		copy(want.Referrer[:], rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "referrer"))
		row := appendEntry(nil, &want)
		got, err := decodeEntry(row, host, hasher)
		if err != nil || got != want {
			t.Errorf("row %q of %+v decodes to %+v, %v", row, want, got, err)
		}
		plain := strings.HasPrefix(url, "http") && strings.HasPrefix(url[strings.Index(url, "//")+2:], host+"/")
		if most := 6 + 3 + 5 + 8 + len(url) - len("http://") - len(host); plain && want.Submission == "" && len(row) > most {
			t.Errorf("row of %q has %d bytes, want at most %d: its host is in its key", url, len(row), most)
		}
	})
}

func TestRowsKeepWhatTheySay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Uint64()
		h := host{
			due: rapid.Int64().Draw(t, "due"), indexed: rapid.Int64().Draw(t, "indexed"), delay: rapid.Int64().Draw(t, "delay"),
			added: number.Draw(t, "added"), delayed: number.Draw(t, "delayed"), last: rapid.Int64().Draw(t, "last"),
		}
		if h.last != 0 {
			h.counts = frontier.HostCounts{Done: number.Draw(t, "done"), Failed: number.Draw(t, "failed"), Pages: number.Draw(t, "pages"), Bytes: number.Draw(t, "bytes")}
			if causes := rapid.MapOf(rapid.String(), number).Draw(t, "causes"); len(causes) > 0 {
				h.counts.Causes = causes
			}
		}
		for p := range h.waiting {
			h.waiting[p], h.head[p] = number.Draw(t, "waiting"), number.Draw(t, "head")
		}
		var got host
		if err := decodeHost(appendHost(nil, &h), &got); err != nil || !reflect.DeepEqual(got, h) {
			t.Errorf("decoded host %+v, %v, want %+v", got, err, h)
		}
		o := outcome{
			outcome: rapid.SampledFrom(frontier.Outcomes[:]).Draw(t, "outcome").Outcome, status: rapid.IntRange(0, 999).Draw(t, "status"),
			round: rapid.Uint32().Draw(t, "round"), seq: number.Draw(t, "seq"), finished: rapid.Int64().Draw(t, "finished"),
		}
		if got, err := decodeOutcome(appendOutcome(nil, o)); err != nil || got != o {
			t.Errorf("decoded outcome %+v, %v, want %+v", got, err, o)
		}
		x := exactKeyRow{class: frontier.Class(rapid.IntRange(1, maxClass).Draw(t, "class")),
			done: rapid.Uint64Range(0, 3).Draw(t, "rounds done"), failed: rapid.Uint64Range(0, 3).Draw(t, "rounds failed")}
		if got, err := decodeExact(appendExact(nil, x)); err != nil || got != x {
			t.Errorf("decoded exact key %+v, %v, want %+v", got, err, x)
		}
		at := queuePos{frontier.Priority(rapid.IntRange(0, frontier.Priorities-1).Draw(t, "p")), number.Draw(t, "at")}
		l := lease{host: &host{key: rapid.StringN(1, 30, -1).Draw(t, "key")}, inFlight: rapid.IntRange(1, math.MaxInt32).Draw(t, "in flight"),
			held: []heldItem{{at: at}}, aside: []queuePos{at, at}}
		row, err := decodeLease(appendLease(nil, &l))
		if err != nil || row.host != l.host.key || row.inFlight != l.inFlight || len(row.held) != 1 || len(row.aside) != 2 ||
			row.held[0] != at || row.aside[1] != at {
			t.Errorf("decoded lease %+v, %v, want %+v", row, err, l)
		}
	})
}

// TestOutcomesHaveNumbers: every outcome of package frontier keeps its number in the rows
// on disk.
func TestOutcomesHaveNumbers(t *testing.T) {
	t.Parallel()
	want := []frontier.Outcome{
		frontier.OK, frontier.Redirect, frontier.ClientError, frontier.Robots, frontier.Address, frontier.Type,
		frontier.ServerError, frontier.Throttled, frontier.Network, frontier.HostDead, frontier.WorkerLost, frontier.Handler,
		frontier.Coding,
	}
	for i, outcome := range want {
		if row := appendOutcome(nil, result(outcome)); int(row[0]) != i+1 {
			t.Errorf("outcome %s has number %d, want %d", outcome, row[0], i+1)
		}
	}
}

func result(o frontier.Outcome) outcome { return outcome{outcome: o} }

// TestKeysSort: rows of a table sort by the fields that scans use.
func TestKeysSort(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z.]{1,5}`)
		a, b := name.Draw(t, "a"), name.Draw(t, "b")
		n, m := rapid.Uint64().Draw(t, "n"), rapid.Uint64().Draw(t, "m")
		if a == b && n < m && bytes.Compare(appendQueueKey(nil, a, queuePos{1, n}), appendQueueKey(nil, b, queuePos{1, m})) >= 0 {
			t.Errorf("the queue key of place %d does not sort before that of place %d", n, m)
		}
		key := appendQueueKey(nil, a, queuePos{2, n})
		if host, at, ok := splitQueueKey(key); !ok || string(host) != a || at != (queuePos{2, n}) {
			t.Errorf("splitQueueKey(%q) = %q, %v, %t, want %q, %v, true", key, host, at, ok, a, queuePos{2, n})
		}
		lower, upper := hostRange(tableQueue, b)
		if within := bytes.Compare(key, lower) >= 0 && bytes.Compare(key, upper) < 0; within != (a == b) {
			t.Errorf("range of host %q is %q to %q, row of host %q is %q: within the range %t, want %t",
				b, lower, upper, a, key, within, a == b)
		}
		due, delayed := int64(n>>1), delayedKey(int64(n>>1), m)
		if at, host := splitDueKey(appendDueKey(nil, due, a)); at != due || string(host) != a {
			t.Errorf("due key of host %q at %d decodes to host %q at %d", a, due, host, at)
		}
		if at, _ := splitDueKey(delayed); at != due {
			t.Errorf("delayed key at %d decodes to %d", due, at)
		}
		if host := hostOfFailed(failedKey(a, n)); string(host) != a {
			t.Errorf("failed key of host %q decodes to host %q", a, host)
		}
	})
}

// FuzzRows: decoding a damaged row gives an error or a row, but never a panic. A row that
// can be decoded can be encoded again.
func FuzzRows(f *testing.F) {
	hasher := bloomstore.NewHasher(bloomstore.Key{})
	item := frontier.Item{URL: "https://a.test/path", Host: "a.test", Depth: 300, Round: 70000}
	f.Add(appendEntry(nil, &item))
	f.Add(appendHost(nil, &host{due: 1 << 50, added: 7}))
	f.Add(appendHost(nil, &host{last: 1 << 50, counts: frontier.HostCounts{Done: 3, Causes: map[string]uint64{"reset": 300}}}))
	f.Add(appendLease(nil, &lease{host: &host{key: "a.test"}, inFlight: 3, aside: []queuePos{{1, 300}}}))
	f.Add(appendOutcome(nil, outcome{outcome: frontier.Network, status: 503, seq: 9}))
	f.Add(appendOutcome(nil, outcome{outcome: frontier.OK, status: 200, finished: 1 << 50}))
	f.Add(appendExact(nil, exactKeyRow{class: 4, done: 3, failed: 1}))
	f.Fuzz(func(t *testing.T, row []byte) {
		if it, err := decodeEntry(row, "a.test", hasher); err == nil {
			if again, err := decodeEntry(appendEntry(nil, &it), "a.test", hasher); err != nil || again != it {
				t.Errorf("row %q decodes to %+v; encoded and decoded again it is %+v, error %v", row, it, again, err)
			}
		}
		var h, again host
		if err := decodeHost(row, &h); err == nil {
			if err := decodeHost(appendHost(nil, &h), &again); err != nil || !reflect.DeepEqual(again, h) {
				t.Errorf("row %q decodes to %+v; encoded and decoded again it is %+v, error %v", row, h, again, err)
			}
		}
		if o, err := decodeOutcome(row); err == nil {
			if again, err := decodeOutcome(appendOutcome(nil, o)); err != nil || again != o {
				t.Errorf("row %q decodes to %+v; encoded and decoded again it is %+v, error %v", row, o, again, err)
			}
		}
		if x, err := decodeExact(row); err == nil {
			if again, err := decodeExact(appendExact(nil, x)); err != nil || again != x {
				t.Errorf("row %q decodes to %+v; encoded and decoded again it is %+v, error %v", row, x, again, err)
			}
		}
		if l, err := decodeLease(row); err == nil && len(l.host) > len(row) {
			t.Errorf("row %q decodes to a host of %d bytes, longer than the row", row, len(l.host))
		}
		_, _, _ = splitQueueKey(row)
	})
}
