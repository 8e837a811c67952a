package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/internal/human"
)

// waiting returns n hosts of one kind, whose next requests are in one minute, two minutes and so on.
func waiting(n int, what Wait, next time.Time) (hosts []Host) {
	for i := range n {
		at := next.Add(time.Duration(i) * time.Minute)
		host := Host{Host: fmt.Sprintf("%s%d.test", what, i), Queued: 1, WaitsFor: what, Next: &at, Delay: human.Seconds(time.Second)}
		if what == WaitPaused || what == WaitRetry {
			host.Next = nil
		}
		hosts = append(hosts, host)
	}
	return hosts
}

// TestWaits: the line that says what a crawl waits for counts the hosts by reason, and names a command.
func TestWaits(t *testing.T) {
	now := time.Now()
	tomorrow := time.Date(now.Year()+1, 1, 2, 14, 2, 0, 0, time.Local)
	worker := fetcher.Progress{Slots: 64, Delay: time.Second}
	for _, c := range []struct {
		name  string
		hosts map[Wait]int
		of    int // more hosts of the crawl
		g     Gauges
		kind  Kind
		words string
	}{
		{"the line of the documentation", map[Wait]int{WaitDelay: 9, WaitBackoff: 2, WaitPaused: 1}, 0, Gauges{Worker: worker}, Politeness,
			"9 of 12 hosts wait for their delay (1s), 2 are backing off, the first until DATE 14:02, 1 is paused (crawler hosts --trouble)"},
		{"only delays, with a worker", map[Wait]int{WaitDelay: 3}, 0, Gauges{Worker: worker}, Politeness, "politeness: 3 hosts, 3 requests/s (1s between requests)"},
		{"only delays, without a worker of this process", map[Wait]int{WaitDelay: 3}, 0, Gauges{}, Politeness, "3 hosts wait for their delay (1s) (crawler set delay=TIME)"},
		{"a dead worker", map[Wait]int{WaitLost: 1}, 0, Gauges{Worker: worker}, LostWorker,
			"1 host waits until the lease of a dead worker ends at DATE 14:02 (crawler hosts --trouble)"},
		{"a dead worker beside a live one elsewhere", map[Wait]int{WaitLost: 3, WaitWorker: 2}, 0, Gauges{}, LostWorker,
			"3 of 5 hosts wait until the leases of dead workers end at DATE 14:02, 2 are being crawled (1s) (crawler hosts --trouble)"},
		{"walls", map[Wait]int{WaitBlocked: 2}, 0, Gauges{Worker: worker}, Blocking, "2 hosts are blocked, the first until DATE 14:02 (crawler hosts --trouble)"},
		{"paused hosts", map[Wait]int{WaitPaused: 2, WaitDelay: 1}, 0, Gauges{Worker: worker}, PausedHosts,
			"2 of 3 hosts are paused, 1 waits for its delay (1s) (crawler resume --host HOST)"},
		{"attempts", map[Wait]int{WaitRetry: 1}, 0, Gauges{}, Retries, "1 host waits for another attempt (crawler hosts --trouble)"},
		{"some of many hosts", map[Wait]int{WaitDelay: 9, WaitBackoff: 1}, 90, Gauges{Worker: worker}, Politeness,
			"of 10 of 100 hosts, 9 wait for their delay (1s), 1 is backing off until DATE 14:02 (crawler hosts --trouble)"},
		{"no process", map[Wait]int{WaitDelay: 2}, 0, Gauges{Idle: true}, Stopped, "no process runs it, and 2 hosts have queued URLs (crawler crawl)"},
		{"enough pages", map[Wait]int{WaitDelay: 2}, 0, Gauges{MaxPages: 1000, Pages: 1000, Idle: true}, MaxPages, "--max-pages 1,000 is reached (crawler set max-pages=N)"},
		{"a full queue", map[Wait]int{WaitDelay: 2}, 0, Gauges{Worker: worker, Full: true}, Politeness,
			"politeness: 2 hosts, 2 requests/s (1s between requests); --max-queued is reached, links are refused"},
	} {
		w := new(Waits)
		for wait, n := range c.hosts {
			for _, h := range waiting(n, wait, tomorrow) {
				w.Add(&h)
			}
		}
		w.Of = w.Hosts + uint64(c.of)
		c.g.Waits, c.g.Hosts = w, int(w.Of)
		if got := c.g.Kind(); got != c.kind {
			t.Errorf("%s: limited by %s, want %s", c.name, got, c.kind)
		}
		want := strings.ReplaceAll(c.words, "DATE", tomorrow.Format(time.DateOnly))
		if got := (Factor{c.kind, c.g}).Words(); got != want {
			t.Errorf("%s: words %q, want %q", c.name, got, want)
		}
		line := Factor{c.kind, c.g}.Line()
		if about := strings.Contains(want, "crawler hosts --trouble") || strings.Contains(want, "crawler set delay") || strings.Contains(want, "--host HOST"); about && line != want {
			t.Errorf("%s: the line is %q, want %q", c.name, line, want)
		}
	}
}

// TestMovedWaits: hosts that this worker has leased, and that wait for their delay, count as such.
func TestMovedWaits(t *testing.T) {
	w := new(Waits)
	for _, h := range waiting(5, WaitWorker, time.Now()) {
		w.Add(&h)
	}
	before := *w
	w.Move(7, WaitWorker, WaitDelay)
	if got := w.String(); got != "5 hosts wait for their delay (1s)" || before.By[WaitWorker].Hosts != 5 {
		t.Errorf("all hosts wait, but the words are %q; before %+v", got, before)
	}
}

// TestHostOrders: each order has the hosts first that it is for.
func TestHostOrders(t *testing.T) {
	at := func(d time.Duration) *time.Time { at := time.Unix(1_000_000, 0).Add(d); return &at }
	hosts := []Host{
		{Host: "done", Pages: 50, Finished: at(-time.Hour)},
		{Host: "queued", Queued: 9, Pages: 2, OldestURL: "q", Oldest: at(time.Hour)},
		{Host: "errors", Queued: 3, Errors: 7, Next: at(time.Minute), OldestURL: "e", Oldest: at(0)},
		{Host: "late", Queued: 2, Next: at(time.Hour), OldestURL: "l", Oldest: at(time.Minute)},
		{Host: "never", Queued: 1}, // all its URLs are delayed
	}
	for order, want := range map[string]string{
		"queued": "queued errors late never done", "pages": "done queued errors late never", "errors": "errors queued late never done",
		"wait": "late errors queued never done", "oldest": "errors late queued never done",
	} {
		sorted, names := append([]Host{}, hosts...), []string{}
		SortHosts(sorted, order)
		for i := range sorted {
			names = append(names, sorted[i].Host)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("order %s: %s, want %s", order, got, want)
		}
	}
	if len(HostSorts) != 5 {
		t.Errorf("%d orders, want the 5 that are tested", len(HostSorts))
	}
}
