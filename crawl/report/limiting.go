package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/internal/human"
)

// Gauges describe a worker and the crawl at one moment. A host is being asked while a
// request to it is under way. Each host that the worker has leased is being asked, or is in
// one of the waiting states. The pages in Worker.StoreWaiting are counted apart from these hosts.
type Gauges struct {
	Worker    fetcher.Progress
	Hosts     int           // hosts with queued or leased URLs, held or not
	Paused    bool          // the user has paused the crawl
	Empty     bool          // nothing is queued or leased
	Feeding   bool          // seeds are still being read
	Silent    time.Duration // how long the store has not answered; 0 means that it answers
	StoreName string        // name of a silent store in messages, such as Redis; empty means "it"
	CPU       float64       // share of all cores that the process uses, 0 to 1
	Cores     int           // number of all cores
	DelayFlag time.Duration // --delay
	Rate      float64       // --rate, 0 if none
	Bandwidth int64         // --bandwidth, bytes per second, 0 if none

	Waits    *Waits // what the hosts wait for, some seconds old; nil means not known
	Idle     bool   // no process runs the crawl
	Pages    uint64 // that count towards MaxPages
	MaxPages uint64 // 0 means no limit
	Full     bool   // --max-queued is reached: links are refused
}

// Kind names something that limits a crawl.
type Kind string

// The kinds. JSON and metrics use the same names.
const (
	Unknown   Kind = "unknown" // too early to say
	Paused    Kind = "paused"
	Feeding   Kind = "seeds" // the crawl waits for seeds
	Empty     Kind = "empty"
	Rate      Kind = "rate"
	Bandwidth Kind = "bandwidth"
	CPU       Kind = "cpu"
	Network   Kind = "network"
	Store     Kind = "store"
	Robots    Kind = "robots"
	Names     Kind = "names"
	// Descriptors means that the process cannot open enough files for more connections.
	Descriptors Kind = "descriptors"
	Politeness  Kind = "politeness"
	Backoff     Kind = "backoff"
	Machine     Kind = "machine"
	Memory      Kind = "memory"
	MaxPages    Kind = "max_pages"
	Stopped     Kind = "stopped" // no process runs the crawl
	// The kinds of hosts that wait for something else than their delay or the end of a back-off; see Wait.
	Blocking    Kind = "blocked"
	PausedHosts Kind = "paused_hosts"
	Retries     Kind = "retry"
	LostWorker  Kind = "lost_worker"
)

// Kinds lists all kinds. A table shows kinds with equal shares in this order.
var Kinds = []Kind{Politeness, Network, CPU, Store, Robots, Names, Backoff, Retries, Blocking, PausedHosts, LostWorker,
	Rate, Bandwidth, Machine, Memory, Descriptors, MaxPages, Paused, Feeding, Empty, Stopped, Unknown}

// busyCPU is a share of the CPU time of all cores. A process that uses this share or more
// counts as limited by the CPU.
const busyCPU = 0.9

// Kind returns what limits the crawl at this moment. It is the first of these that
// applies:
//
//   - store: the store does not answer. In this case, the other gauges can be too old to use.
//   - paused: the user has paused the crawl.
//   - seeds: nothing is queued or leased, and seeds are still being read.
//   - empty: nothing is queued or leased.
//   - max_pages: the crawl has as many pages as it may have.
//   - stopped: no process runs the crawl.
//   - machine: the proxy or the name server of this machine does not answer, or the
//     machine has no descriptor or port left.
//   - store: the pages that wait for the store fill their memory, so that no request starts.
//   - memory: the worker leases no more hosts, to stay within --memory.
//   - rate, bandwidth: a request waits for --rate or --bandwidth.
//   - cpu: the process uses 90 % of all cores or more.
//   - the kind for which most hosts wait.
//
// A host can wait for its delay (politeness), for the name server (names), for an
// answer (network), for the store, for its robots.txt (robots), or for its next attempt
// after a failure (backoff); or the kind of Waits: all its URLs wait for another attempt (retry), a wall blocks it,
// it is paused, or a worker that has died still has its lease (lost_worker). If several kinds have the same number of hosts, Kind returns the
// first of them in this order: politeness, names, network, store, robots, backoff, and those of Waits.
//
// If most of the hosts being asked wait for the name server, all hosts being asked count
// for names. If a lack of descriptors prevents more requests, the kind is descriptors
// instead of network. Hosts that this worker has not leased count for politeness, except
// those that count for backoff. But none of them counts for politeness if the store has a
// due host that no worker has leased. While all slots are in use, no host counts for
// politeness or backoff, because a host that becomes due has to wait for a slot.
func (g Gauges) Kind() Kind {
	switch {
	case g.Silent > 0:
		return Store
	case g.Paused:
		return Paused
	case g.Empty && g.Feeding:
		return Feeding
	case g.Empty:
		return Empty
	case g.MaxPages > 0 && g.Pages >= g.MaxPages:
		return MaxPages
	case g.Idle:
		return Stopped
	case g.Worker.Down != "":
		return Machine
	case g.Worker.StoreFull:
		return Store
	case g.Worker.ShortMemory:
		return Memory
	case g.Worker.RateWaiting > 0:
		return Rate
	case g.Worker.BandwidthWaiting > 0:
		return Bandwidth
	case g.CPU >= busyCPU:
		return CPU
	}
	parked, failed := g.Worker.Parked, g.backingOff()
	if !g.Worker.Due {
		parked += max(g.Hosts-g.Worker.Held-failed, 0)
	}
	blocked, paused, retries, lost := g.waiting(WaitBlocked), g.waiting(WaitPaused), g.waiting(WaitRetry), g.waiting(WaitLost)
	parked = max(parked-paused-retries-lost-max(blocked-failed, 0), 0)
	failed = max(failed-blocked, 0)
	if g.Worker.Slots == 0 { // no worker of this process
		failed = g.waiting(WaitBackoff)
		parked = max(parked-failed-g.waiting(WaitWorker)-g.waiting(WaitRobots)-g.waiting(WaitDue), 0)
	}
	if g.full() {
		parked, failed = 0, 0
	}
	most, kind := 0, Unknown
	for _, group := range []struct {
		hosts int
		kind  Kind
	}{
		{parked, Politeness},
		{g.naming(), Names},
		{g.Worker.Asking + g.Worker.Late - g.Worker.RobotsWaiting, g.network()},
		{g.Worker.StoreWaiting, Store},
		{g.Worker.RobotsWaiting, Robots},
		{failed, Backoff},
		{retries, Retries},
		{blocked, Blocking},
		{paused, PausedHosts},
		{lost, LostWorker},
	} {
		if group.hosts > most {
			most, kind = group.hosts, group.kind
		}
	}
	return kind
}

// waiting returns how many hosts wait for w. It is 0 if not all hosts were counted.
func (g Gauges) waiting(w Wait) int {
	if g.Waits == nil || g.Waits.Of > g.Waits.Hosts {
		return 0
	}
	return int(g.Waits.By[w].Hosts)
}

// naming returns how many hosts count as waiting for the name server. If most of the
// hosts being asked wait for the name server, then all hosts that wait for an answer or
// for robots.txt count. Otherwise naming returns 0.
func (g Gauges) naming() int {
	if asking := g.Worker.Asking + g.Worker.Late; 2*g.Worker.NamesWaiting > asking {
		return max(asking, g.Worker.RobotsWaiting)
	}
	return 0
}

// network returns Descriptors if a lack of descriptors prevents more requests, and
// Network otherwise.
func (g Gauges) network() Kind {
	if g.full() && g.Worker.FewDescriptors {
		return Descriptors
	}
	return Network
}

// backingOff returns the number of hosts that wait after a failure. The result is at most
// the number of hosts that this worker has not leased.
func (g Gauges) backingOff() int { return min(g.Worker.BackingOff, max(g.Hosts-g.Worker.Held, 0)) }

// full reports whether all slots are in use.
func (g Gauges) full() bool { return g.Worker.Slots > 0 && g.Worker.Asking >= g.Worker.Slots }

// Factor is a kind that limits a crawl, with the gauges that show it. The zero Factor
// means that the limit is not known.
type Factor struct {
	Kind   Kind
	Gauges Gauges // the newest gauges of this kind
}

// Limiting returns the most frequent kind of the moments in history. The argument history
// must be in the order of time. If several kinds are equally frequent, Limiting returns
// the one that was seen last. One moment is not enough, because even a busy host is
// sometimes between two requests.
//
// A pause and a silent store are exceptions: Limiting returns them at once. After one of
// them has ended, only the moments since its end count.
func Limiting(history []Gauges) Factor {
	for i := len(history) - 1; i >= 0; i-- {
		g := history[i]
		if g.Silent == 0 && !g.Paused {
			continue
		}
		if i == len(history)-1 {
			return Factor{g.Kind(), g}
		}
		history = history[i+1:]
		break
	}
	votes := make(map[Kind]int)
	last := make(map[Kind]int) // index of the newest vote
	for i, g := range history {
		kind := g.Kind()
		votes[kind]++
		last[kind] = i
	}
	winner := Unknown
	for kind, n := range votes {
		if n > votes[winner] || n == votes[winner] && last[kind] > last[winner] {
			winner = kind
		}
	}
	if votes[winner] == 0 {
		return Factor{Kind: Unknown}
	}
	return Factor{winner, history[last[winner]]}
}

// Words describes what limits the crawl, with the flag that would change that:
// "politeness: 1 host, 1 request/s (--delay 1s)".
func (f Factor) Words() string {
	words := f.words()
	if f.Gauges.Full {
		words += "; --max-queued is reached, links are refused"
	}
	return words
}

// Line is Words as a line of its own: "limited by politeness: 1 host, 1 request/s (--delay 1s)".
func (f Factor) Line() string {
	if f.Limits() && f.hostWords() == "" {
		return "limited by " + f.Words()
	}
	return f.Words()
}

func (f Factor) words() string {
	g := f.Gauges
	if hosts := f.hostWords(); hosts != "" {
		return hosts
	}
	switch f.Kind {
	case Paused:
		return "paused (crawler resume)"
	case Stopped:
		return fmt.Sprintf("no process runs it, and %s queued URLs (crawler crawl)", hasOrHave(g.Hosts))
	case MaxPages:
		return fmt.Sprintf("--max-pages %s is reached (crawler set max-pages=N)", human.Commas(g.MaxPages))
	case Feeding:
		return "waiting for seeds"
	case Empty:
		return "empty: nothing is queued"
	case Rate:
		return "--rate " + strconv.FormatFloat(g.Rate, 'g', -1, 64)
	case Bandwidth:
		size := human.Bytes(g.Bandwidth)
		return "--bandwidth " + size.String()
	case Machine:
		return "this machine: " + g.Worker.Down
	case Memory:
		return fmt.Sprintf("memory: %s held, and no more until there is room (--memory)", human.Plural(g.Worker.Held, "host"))
	case CPU:
		return fmt.Sprintf("CPU: %.1f of %s", g.CPU*float64(g.Cores), human.Plural(g.Cores, "core"))
	case Descriptors:
		return fmt.Sprintf("descriptors: %d of %s being asked (ulimit -n)", g.Worker.Asking, human.Plural(g.Worker.Slots, "host"))
	case Network:
		if g.full() {
			return fmt.Sprintf("network: %d of %s being asked (--concurrency)", g.Worker.Asking, human.Plural(g.Worker.Slots, "host"))
		}
		if g.Worker.Late > 0 {
			return fmt.Sprintf("network: %s being asked, %d late", human.Plural(g.Worker.Asking+g.Worker.Late, "host"), g.Worker.Late)
		}
		return fmt.Sprintf("network: %s being asked (--host-concurrency)", human.Plural(g.Worker.Asking, "host"))
	case Store:
		if g.Silent > 0 {
			return fmt.Sprintf("store: %s has not answered for %s", cmp.Or(g.StoreName, "it"), human.Span(g.Silent))
		}
		return "store: " + StoreWait(&g.Worker)
	case Robots:
		return "robots.txt: " + waitText(g.Worker.RobotsWaiting, "host")
	case Names:
		return fmt.Sprintf("names: %s for the name server", waitText(g.Worker.NamesWaiting, "look-up"))
	case Politeness:
		return "politeness: " + g.politeness()
	case Backoff:
		return fmt.Sprintf("back-off: %s after failures, the next try in %s (--backoff)", waitText(g.backingOff(), "host"), human.Span(g.Worker.NextTry))
	default:
		return "not known yet"
	}
}

// hostWords says what the hosts wait for, and which command shows or changes that. It is empty if something else limits
// the crawl, or if they only wait for their turn and their delay, and this process has a worker, which knows more.
func (f Factor) hostWords() string {
	g := f.Gauges
	if g.Waits == nil || !slices.Contains([]Kind{Politeness, Backoff, Retries, Blocking, PausedHosts, LostWorker, Unknown}, f.Kind) {
		return ""
	}
	most := Wait("")
	for _, of := range waits {
		if of.wait != WaitWorker && of.wait != WaitDelay && of.wait != WaitDue && g.Waits.By[of.wait].Hosts > g.Waits.By[most].Hosts {
			most = of.wait
		}
	}
	hint := "crawler hosts --trouble"
	switch {
	case most == WaitPaused:
		hint = "crawler resume --host HOST"
	case most == WaitDomain:
		hint = "crawler set domain-rate=N"
	case most != "":
	case g.Worker.Slots > 0:
		return ""
	case g.Waits.By[WaitDelay].Hosts+g.Waits.By[WaitWorker].Hosts > 0:
		hint = "crawler set delay=TIME"
	default:
		hint = "crawler hosts"
	}
	words := g.Waits.String()
	if words != "" {
		words += " (" + hint + ")"
	}
	return words
}

// hasOrHave returns a text such as "1 host has" or "2 hosts have".
func hasOrHave(hosts int) string {
	if hosts == 1 {
		return "1 host has"
	}
	return human.Plural(hosts, "host") + " have"
}

// StoreWait says how many pages of a worker wait for the store.
func StoreWait(p *fetcher.Progress) string {
	words := waitText(p.StoreWaiting, "page") + " for it"
	if p.StoreAway > 0 {
		words += ", unavailable for " + human.Span(p.StoreAway)
	}
	if p.StoreFull {
		words += "; no request starts before"
	}
	return words
}

// Limits reports whether something limits the crawl. A paused crawl, or one that
// has nothing to fetch, is not limited.
func (f Factor) Limits() bool {
	switch f.Kind {
	case Paused, Feeding, Empty, Stopped, Unknown, "":
		return false
	}
	return true
}

func (g Gauges) politeness() string {
	hosts := max(g.Hosts-g.backingOff(), g.Worker.Held, 1)
	if g.Worker.Delay <= 0 {
		return human.Plural(hosts, "host") + " that must not be asked yet"
	}
	perSecond := float64(hosts) / g.Worker.Delay.Seconds()
	requests := human.PerSecond(perSecond) + " requests/s"
	if perSecond == 1 {
		requests = "1 request/s"
	}
	why := g.Worker.Delay.String() + " between requests" // because of Settings.Hosts, robots.txt or a slow host
	if g.Worker.Delay == g.DelayFlag {
		why = "--delay " + g.Worker.Delay.String()
	}
	return fmt.Sprintf("%s, %s (%s)", human.Plural(hosts, "host"), requests, why)
}

// waitText returns a text such as "1 page waits" or "2 pages wait".
func waitText(n int, what string) string {
	if n == 1 {
		return "1 " + what + " waits"
	}
	return human.Plural(n, what) + " wait"
}
