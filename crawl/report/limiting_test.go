package report

import (
	"slices"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
)

func TestLimitingKind(t *testing.T) {
	const s = time.Second
	for _, test := range []struct {
		name  string
		g     Gauges
		kind  Kind
		words string
	}{
		{"nothing known", Gauges{}, Unknown, "not known yet"},
		{"one polite host", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 1, Parked: 1, Delay: s}, Hosts: 1, DelayFlag: s},
			Politeness, "politeness: 1 host, 1 request/s (--delay 1s)"},
		{"many polite hosts, some being asked", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 320, Asking: 20, Parked: 300, Delay: s}, Hosts: 5000, DelayFlag: s},
			Politeness, "politeness: 5,000 hosts, 5,000 requests/s (--delay 1s)"},
		{"a slower delay than the flag's", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 2, Parked: 2, Delay: 5 * s}, Hosts: 2, DelayFlag: s},
			Politeness, "politeness: 2 hosts, 0.4 requests/s (5s between requests)"},
		{"dead hosts beside a polite one", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 1, Parked: 1, BackingOff: 10, NextTry: 12 * s, Delay: s}, Hosts: 11, DelayFlag: s},
			Backoff, "back-off: 10 hosts wait after failures, the next try in 12s (--backoff)"},
		{"a dead host", Gauges{Worker: fetcher.Progress{Slots: 64, BackingOff: 1, NextTry: 90 * s, Delay: s}, Hosts: 1, DelayFlag: s},
			Backoff, "back-off: 1 host waits after failures, the next try in 1m30s (--backoff)"},
		{"a dead host among polite ones", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 2, Parked: 2, BackingOff: 1, Delay: s}, Hosts: 6, DelayFlag: s},
			Politeness, "politeness: 5 hosts, 5 requests/s (--delay 1s)"},
		{"dead hosts that have nothing queued", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 2, Parked: 2, BackingOff: 10, Delay: s}, Hosts: 2, DelayFlag: s},
			Politeness, "politeness: 2 hosts, 2 requests/s (--delay 1s)"},
		{"hosts left alone by another worker, none held", Gauges{Worker: fetcher.Progress{Slots: 64}, Hosts: 3},
			Politeness, "politeness: 3 hosts that must not be asked yet"},
		{"hosts are due, and being leased just now", Gauges{Worker: fetcher.Progress{Slots: 64, Due: true}, Hosts: 3},
			Unknown, "not known yet"},
		{"one host without delay", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 1, Asking: 1}, Hosts: 1},
			Network, "network: 1 host being asked (--host-concurrency)"},
		{"some late, slots free", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 60, Asking: 2, Late: 40, Parked: 18}, Hosts: 60},
			Network, "network: 42 hosts being asked, 40 late"},
		{"all slots used, others due", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 128, Asking: 64, Due: true}, Hosts: 1000},
			Network, "network: 64 of 64 hosts being asked (--concurrency)"},
		{"all slots used, most hosts parked", Gauges{Worker: fetcher.Progress{Slots: 2, Held: 128, Asking: 2, Parked: 120}, Hosts: 1000},
			Network, "network: 2 of 2 hosts being asked (--concurrency)"},
		{"one slot free, most hosts parked", Gauges{Worker: fetcher.Progress{Slots: 2, Held: 128, Asking: 1, Parked: 120, Delay: s}, Hosts: 128},
			Politeness, "politeness: 128 hosts, 128 requests/s (1s between requests)"},
		{"half parked, half asked", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 4, Asking: 2, Parked: 2, Delay: s}, Hosts: 4, DelayFlag: s},
			Politeness, "politeness: 4 hosts, 4 requests/s (--delay 1s)"},
		{"pages wait for the store", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 4, Asking: 2, StoreWaiting: 40}, Hosts: 4},
			Store, "store: 40 pages wait for it"},
		{"pages wait for a part of the store", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 4, Asking: 2, StoreWaiting: 1, StoreAway: 61 * s}, Hosts: 1},
			Network, "network: 2 hosts being asked (--host-concurrency)"},
		{"waiting pages fill their memory", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 900, Asking: 2, StoreWaiting: 400, StoreAway: 61 * s, StoreFull: true, Parked: 800}, Hosts: 900},
			Store, "store: 400 pages wait for it, unavailable for 1m01s; no request starts before"},
		{"full and waiting for the store", Gauges{Worker: fetcher.Progress{Slots: 2, Held: 4, Asking: 2, StoreWaiting: 3}, Hosts: 40},
			Store, "store: 3 pages wait for it"},
		{"few wait for the store beside many polite hosts", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 900, Asking: 30, StoreWaiting: 90, Parked: 800, Delay: s}, Hosts: 900},
			Politeness, "politeness: 900 hosts, 900 requests/s (1s between requests)"},
		{"most ask for robots.txt", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 20, Asking: 15, RobotsWaiting: 12, Due: true}, Hosts: 20},
			Robots, "robots.txt: 12 hosts wait"},
		{"one robots.txt", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 1, Asking: 1, RobotsWaiting: 1}, Hosts: 1},
			Robots, "robots.txt: 1 host waits"},
		{"slow names", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 64, Asking: 64, RobotsWaiting: 60, NamesWaiting: 61}, Hosts: 64},
			Names, "names: 61 look-ups wait for the name server"},
		{"few descriptors", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 128, Asking: 64, Due: true, FewDescriptors: true}, Hosts: 1000},
			Descriptors, "descriptors: 64 of 64 hosts being asked (ulimit -n)"},
		{"few descriptors and few hosts", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 8, Asking: 8, FewDescriptors: true}, Hosts: 8},
			Network, "network: 8 hosts being asked (--host-concurrency)"},
		{"names, and more hosts that wait for a slot", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 128, Asking: 64, RobotsWaiting: 120, NamesWaiting: 60}, Hosts: 128},
			Names, "names: 60 look-ups wait for the name server"},
		{"one slow name", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 64, Asking: 64, NamesWaiting: 1}, Hosts: 64},
			Network, "network: 64 of 64 hosts being asked (--concurrency)"},
		{"no name server", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 64, Asking: 64, Down: "lookup a.test: no answer"}, Hosts: 64},
			Machine, "this machine: lookup a.test: no answer"},
		{"memory", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 1200, Asking: 64, ShortMemory: true}, Hosts: 5000, CPU: 1, Cores: 2},
			Memory, "memory: 1,200 hosts held, and no more until there is room (--memory)"},
		{"the rate", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 64, Asking: 64, RateWaiting: 1}, Hosts: 64, Rate: 10, CPU: 1, Cores: 2},
			Rate, "--rate 10"},
		{"a small rate", Gauges{Worker: fetcher.Progress{RateWaiting: 1}, Rate: 0.25}, Rate, "--rate 0.25"},
		{"the bandwidth", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 64, Asking: 64, BandwidthWaiting: 3}, Hosts: 64, Bandwidth: 2 << 20, CPU: 1, Cores: 2},
			Bandwidth, "--bandwidth 2MiB"},
		{"the cores", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 64, Asking: 64}, Hosts: 64, CPU: 0.95, Cores: 2},
			CPU, "CPU: 1.9 of 2 cores"},
		{"the cores, just not", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 64, Asking: 64}, Hosts: 64, CPU: 0.89, Cores: 1},
			Network, "network: 64 of 64 hosts being asked (--concurrency)"},
		{"a store that is silent, whatever it said before", Gauges{Worker: fetcher.Progress{RateWaiting: 1}, Paused: true, CPU: 1, Silent: 12 * s, StoreName: "Redis"},
			Store, "store: Redis has not answered for 12s"},
		{"a silent store without a name", Gauges{Empty: true, Silent: 90 * s}, Store, "store: it has not answered for 1m30s"},
		{"paused while hosts wait", Gauges{Worker: fetcher.Progress{RateWaiting: 1}, Paused: true, Hosts: 3}, Paused, "paused (crawler resume)"},
		{"a new crawl", Gauges{Worker: fetcher.Progress{Slots: 64}, Empty: true, Feeding: true}, Feeding, "waiting for seeds"},
		{"seeds come while hosts wait", Gauges{Worker: fetcher.Progress{Slots: 64, Held: 1, Parked: 1, Delay: s}, Hosts: 1, Feeding: true, DelayFlag: s},
			Politeness, "politeness: 1 host, 1 request/s (--delay 1s)"},
		{"empty", Gauges{Worker: fetcher.Progress{Slots: 64}, Empty: true}, Empty, "empty: nothing is queued"},
	} {
		if got := test.g.Kind(); got != test.kind {
			t.Errorf("%s: %+v is limited by %s, want %s", test.name, test.g, got, test.kind)
		}
		if got := (Factor{test.kind, test.g}).Words(); got != test.words {
			t.Errorf("%s: words %q, want %q", test.name, got, test.words)
		}
		if !slices.Contains(Kinds, test.kind) {
			t.Errorf("%s is not among Kinds", test.kind)
		}
	}
}

// TestLimitingByMajority: Limiting returns the most frequent kind, but returns a pause or
// a silent store at once.
func TestLimitingByMajority(t *testing.T) {
	parked := Gauges{Worker: fetcher.Progress{Slots: 64, Held: 1, Parked: 1, Delay: time.Second}, Hosts: 1}
	asking := Gauges{Worker: fetcher.Progress{Slots: 64, Held: 1, Asking: 1}, Hosts: 1}
	later := Gauges{Worker: fetcher.Progress{Slots: 64, Held: 2, Parked: 2, Delay: time.Second}, Hosts: 2}
	none, silent := Gauges{}, Gauges{Silent: time.Second}
	for _, test := range []struct {
		name    string
		history []Gauges
		want    Factor
	}{
		{"no history", nil, Factor{Kind: Unknown}},
		{"nothing known", []Gauges{none}, Factor{Unknown, none}},
		{"one moment", []Gauges{parked}, Factor{Politeness, parked}},
		{"most, with the newest figures", []Gauges{parked, later, asking}, Factor{Politeness, later}},
		{"a tie goes to the newer", []Gauges{parked, asking}, Factor{Network, asking}},
		{"the other way", []Gauges{asking, parked}, Factor{Politeness, parked}},
		{"a tie with what is not known", []Gauges{none, parked}, Factor{Politeness, parked}},
		{"known before, not now", []Gauges{parked, none}, Factor{Unknown, none}},
		{"a store that is silent now", []Gauges{parked, parked, silent}, Factor{Store, silent}},
		{"a store that was silent", []Gauges{parked, silent, parked}, Factor{Politeness, parked}},
		{"a pause, at once", []Gauges{parked, parked, parked, {Paused: true}}, Factor{Paused, Gauges{Paused: true}}},
		{"the end of a pause, at once", []Gauges{asking, {Paused: true}, {Paused: true}, {Paused: true}, parked}, Factor{Politeness, parked}},
		{"the end of a silence, at once", []Gauges{asking, silent, silent, parked}, Factor{Politeness, parked}},
		{"a plurality", []Gauges{{Paused: true}, parked, asking, parked, {Empty: true}}, Factor{Politeness, parked}},
	} {
		if got := Limiting(test.history); got != test.want {
			t.Errorf("%s: Limiting = %+v, want %+v", test.name, got, test.want)
		}
	}
}
