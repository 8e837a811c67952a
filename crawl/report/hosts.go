package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/internal/human"
)

// Hosts is a list of hosts of a crawl.
type Hosts struct {
	Hosts    []Host `json:"hosts"`             // the first ones, in the order that was asked for
	Selected uint64 `json:"selected"`          // how many hosts there are to list, also those that Hosts leaves out
	Waits    Waits  `json:"waits"`             // of the hosts with queued or leased URLs, of those that were selected
	Sampled  bool   `json:"sampled,omitempty"` // only a part of the hosts was looked at, so Selected is too low
	// Uncounted is how many of the selected hosts have no counts, because a crawl in Redis counts for a
	// million hosts. The records of the crawl have what was fetched from the others.
	Uncounted uint64 `json:"uncounted,omitempty"`
}

// Host is the state of a host, and what was fetched from it in the whole crawl.
type Host struct {
	Host    string            `json:"host"` // its key
	Queued  uint64            `json:"queued"`
	Delayed uint64            `json:"delayed,omitempty"` // part of Queued: for another attempt
	Leased  uint64            `json:"leased,omitempty"`
	Done    uint64            `json:"done"`
	Failed  uint64            `json:"failed"`
	Pages   uint64            `json:"pages"`
	Bytes   uint64            `json:"bytes"`  // of bodies, as they were received
	Errors  uint64            `json:"errors"` // attempts that failed, and URLs that failed without one
	Causes  map[string]uint64 `json:"errors_by_cause,omitempty"`
	// LastError is the text of the last error. In a crawl in Redis, it is forgotten a minute after the last URL of the
	// host was finished.
	LastError   string     `json:"last_error,omitempty"`
	LastErrorAt *time.Time `json:"last_error_at,omitempty"`

	Delay     human.Seconds `json:"delay_seconds"` // between the starts of two requests
	DelayBy   string        `json:"delay_by"`      // "set", "robots.txt" or "latency"
	WaitsFor  Wait          `json:"waits_for,omitempty"`
	Why       string        `json:"why,omitempty"` // more about WaitsFor, in words
	Next      *time.Time    `json:"next_request,omitempty"`
	Robots    string        `json:"robots,omitempty"`
	Traps     []string      `json:"traps,omitempty"`        // series of its URLs that say nothing new, # for each number
	SameText  uint64        `json:"same_text,omitempty"`    // pages with the same text, if nearly all of its pages have it
	OldestURL string        `json:"oldest_url,omitempty"`   // has waited for longest: see frontier.HostState
	Oldest    *time.Time    `json:"oldest_added,omitempty"` // when OldestURL was added, rounded down
	Finished  *time.Time    `json:"last_finished,omitempty"`
	Worker    string        `json:"worker,omitempty"` // that has leased the host, of a crawl in Redis
	Uncounted bool          `json:"uncounted,omitempty"`
	Visits    *HostVisits   `json:"visits,omitempty"` // of a crawl that visits pages again; nil if it knows no page of the host
}

// Trouble reports whether the host waits for something other than its turn, its delay or a worker.
func (h *Host) Trouble() bool {
	switch h.WaitsFor {
	case WaitBackoff, WaitBlocked, WaitRobots, WaitLost, WaitRetry:
		return true
	}
	return false
}

// HostSorts are the orders of hosts, by their names. In each order, the hosts that an operator looks for come first.
var HostSorts = map[string]func(a, b *Host) int{
	"queued": func(a, b *Host) int { return cmp.Compare(b.Queued+b.Leased, a.Queued+a.Leased) },
	"pages":  func(a, b *Host) int { return cmp.Compare(b.Pages, a.Pages) },
	"errors": func(a, b *Host) int { return cmp.Compare(b.Errors, a.Errors) },
	"wait":   func(a, b *Host) int { return later(b.Next, a.Next) },
	"oldest": func(a, b *Host) int {
		return cmp.Or(cmp.Compare(min(len(b.OldestURL), 1), min(len(a.OldestURL), 1)), later(a.Oldest, b.Oldest))
	},
}

func later(a, b *time.Time) int {
	var zero time.Time
	return cmp.Or(a, &zero).Compare(*cmp.Or(b, &zero))
}

// SortHosts sorts hosts by one of HostSorts, and hosts that are equal in it by their queues and names.
func SortHosts(hosts []Host, by string) {
	first := HostSorts[by]
	slices.SortFunc(hosts, func(a, b Host) int {
		return cmp.Or(first(&a, &b), cmp.Compare(b.Queued, a.Queued), cmp.Compare(a.Host, b.Host))
	})
}

// WriteText prints a table of the hosts.
func (l *Hosts) WriteText(w io.Writer) error {
	rows := [][]string{{"host", "queued", "oldest", "pages", "failed", "errors", "size", "delay", "next request", "waits for"}}
	for i := range l.Hosts {
		h := &l.Hosts[i]
		next, waits := "", h.WaitsFor.one()
		if h.Next != nil {
			next = clock(*h.Next)
		}
		if h.Why != "" {
			waits += ": " + h.Why
		}
		if h.Visits != nil && h.Visits.TooSlow() {
			waits += "; " + h.Visits.String()
		}
		rows = append(rows, []string{
			human.Printable(h.Host), human.Commas(h.Queued + h.Leased), h.age(), human.Commas(h.Pages), human.Commas(h.Failed), human.Commas(h.Errors),
			human.IBytes(h.Bytes), h.delay(), next, human.Printable(clipped(waits, 160)),
		})
	}
	var b strings.Builder
	for _, line := range human.Columns(rows, 0, 7, 8, 9) {
		b.WriteString(line + "\n")
	}
	if n := l.Selected - uint64(len(l.Hosts)); n > 0 {
		fmt.Fprintf(&b, "and %s more\n", human.Plural(n, "host"))
	}
	if l.Uncounted > 0 {
		fmt.Fprintf(&b, "%s without counts: Redis counts for a million hosts (crawler output --where 'host = HOST' has their pages)\n", human.Plural(l.Uncounted, "host"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// age returns for how long the oldest URL has waited.
func (h *Host) age() string {
	if h.Oldest == nil {
		return ""
	}
	return human.Span(time.Since(*h.Oldest))
}

func (h *Host) delay() string {
	return time.Duration(h.Delay).String() + " (" + h.DelayBy + ")"
}

// WriteText prints all that is known of the host.
func (h *Host) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", human.Printable(h.Host))
	fact(&b, "queued", fmt.Sprintf("%s, %s delayed, %s leased", human.Commas(h.Queued), human.Commas(h.Delayed), human.Commas(h.Leased)))
	if h.Uncounted {
		fact(&b, "done", "not counted: Redis counts for a million hosts")
	} else {
		fact(&b, "done", fmt.Sprintf("%s, %s, %s failed, %s", human.Commas(h.Done), human.Plural(h.Pages, "page"), human.Commas(h.Failed), human.IBytes(h.Bytes)))
	}
	fact(&b, "errors", breakdown(h.Causes))
	if h.LastError != "" {
		fact(&b, "last error", human.Printable(h.LastError)+", "+clock(*h.LastErrorAt))
	}
	fact(&b, "delay", h.delay())
	waits := h.WaitsFor.one()
	if h.Why != "" {
		waits += ": " + h.Why
	}
	fact(&b, "state", human.Printable(waits))
	if h.Next != nil {
		fact(&b, "next", clock(*h.Next))
	}
	if h.Visits != nil {
		fact(&b, "visits", h.Visits.String())
	}
	fact(&b, "robots.txt", human.Printable(h.Robots))
	for _, pattern := range h.Traps {
		fact(&b, "trap", human.Printable(pattern)+" says nothing new (--allow-series)")
	}
	if h.SameText > 0 {
		fact(&b, "same text", "nearly all URLs show the same text ("+human.Plural(h.SameText, "page")+"): perhaps an error")
	}
	if h.Oldest != nil {
		fact(&b, "oldest URL", human.Printable(h.OldestURL)+", added "+h.age()+" ago")
	}
	if h.Finished != nil {
		fact(&b, "finished", "the last URL at "+clock(*h.Finished))
	}
	fact(&b, "worker", human.Printable(h.Worker))
	_, err := io.WriteString(w, b.String())
	return err
}

// clipped cuts a text, of which a part comes from a server.
func clipped(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "?") + "..."
}

// clock returns a time as people write it, with the day if that is another one.
func clock(at time.Time) string {
	if at = at.Local(); at.Format(time.DateOnly) == time.Now().Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format("2006-01-02 15:04")
}

// Wait is what a host with queued or leased URLs waits for.
type Wait string

// What hosts wait for. JSON and metrics use the same names.
const (
	WaitWorker  Wait = "worker"      // none: a worker has leased it
	WaitDelay   Wait = "delay"       // the time of its next request
	WaitDomain  Wait = "domain"      // enough hosts of its domain are being crawled
	WaitDue     Wait = "free_worker" // it is due, and no worker has leased it yet
	WaitRetry   Wait = "retry"       // all its URLs wait for another attempt
	WaitBackoff Wait = "backoff"     // after failures of the host
	WaitRobots  Wait = "robots"      // its robots.txt could not be fetched
	WaitBlocked Wait = "blocked"     // by a wall
	WaitPaused  Wait = "paused"      // the policy pauses it
	WaitLost    Wait = "lost_worker" // the lease of a worker that has died
)

// waits has the words for each Wait, in the order in which Waits.String names equal numbers of hosts.
var waits = []struct {
	wait      Wait
	one, many string
}{
	{WaitWorker, "is being crawled", "are being crawled"},
	{WaitDelay, "waits for its delay", "wait for their delay"},
	{WaitDomain, "waits for its domain", "wait for their domain"},
	{WaitBackoff, "is backing off", "are backing off"},
	{WaitBlocked, "is blocked", "are blocked"},
	{WaitRobots, "waits for its robots.txt", "wait for their robots.txt"},
	{WaitRetry, "waits for another attempt", "wait for another attempt"},
	{WaitPaused, "is paused", "are paused"},
	{WaitLost, "waits until the lease of a dead worker ends", "wait until the leases of dead workers end"},
	{WaitDue, "is due and waits for a worker", "are due and wait for a worker"},
}

// AllWaits lists what hosts wait for.
func AllWaits() (all []Wait) {
	for _, w := range waits {
		all = append(all, w.wait)
	}
	return all
}

// Words says what a host waits for, such as "is paused".
func (w Wait) Words() string { return w.one() }

func (w Wait) one() string {
	for _, words := range waits {
		if words.wait == w {
			return words.one
		}
	}
	return "has no URLs left"
}

// Waits counts hosts with queued or leased URLs by what they wait for.
type Waits struct {
	Hosts uint64         `json:"hosts"` // the sum of By
	Of    uint64         `json:"of"`    // hosts of the crawl; if Hosts is less, only hosts that are due first were looked at
	By    map[Wait]Group `json:"by,omitempty"`
}

// Group is a number of hosts that wait for the same.
type Group struct {
	Hosts uint64        `json:"hosts"`
	Until time.Time     `json:"until,omitzero"` // when the first of them has waited; zero means that this is not known
	Delay human.Seconds `json:"delay_seconds"`  // of the hosts that wait for their delay: the shortest
}

// Add counts a host.
func (w *Waits) Add(h *Host) {
	if h.WaitsFor == "" {
		return
	}
	if w.By == nil {
		w.By = make(map[Wait]Group)
	}
	g := w.By[h.WaitsFor]
	if h.Next != nil && (g.Until.IsZero() || h.Next.Before(g.Until)) {
		g.Until = *h.Next
	}
	if g.Hosts == 0 || h.Delay < g.Delay {
		g.Delay = h.Delay
	}
	g.Hosts++
	w.By[h.WaitsFor] = g
	w.Hosts++
}

// AddRetries counts n hosts that wait for another attempt.
func (w *Waits) AddRetries(n uint64) {
	if n == 0 {
		return
	}
	if w.By == nil {
		w.By = make(map[Wait]Group)
	}
	g := w.By[WaitRetry]
	g.Hosts += n
	w.By[WaitRetry] = g
	w.Hosts += n
}

// Move counts n hosts that wait for one thing as hosts that wait for another one.
func (w *Waits) Move(n uint64, from, to Wait) {
	a, b := w.By[from], w.By[to]
	n = min(n, a.Hosts)
	if n == 0 {
		return
	}
	if b.Hosts == 0 || a.Delay < b.Delay {
		b.Delay = a.Delay
	}
	a.Hosts, b.Hosts = a.Hosts-n, b.Hosts+n
	w.By = maps.Clone(w.By)
	w.By[from], w.By[to] = a, b
}

// String says what the hosts wait for, the largest group first: "9 of 12 hosts wait for their delay (1s), 2 are
// backing off until 14:02:00, 1 is paused". It is empty if there are no hosts.
func (w *Waits) String() string {
	type part struct {
		hosts uint64
		words string
	}
	var parts []part
	for _, words := range waits {
		g := w.By[words.wait]
		if g.Hosts == 0 {
			continue
		}
		p := part{g.Hosts, words.many}
		if g.Hosts == 1 {
			p.words = words.one
		}
		switch until := clock(g.Until); {
		case words.wait == WaitDelay || words.wait == WaitWorker:
			if g.Delay > 0 {
				p.words += fmt.Sprintf(" (%s)", time.Duration(g.Delay))
			}
		case g.Until.IsZero():
		case words.wait == WaitLost:
			p.words += " at " + until
		case g.Hosts == 1:
			p.words += " until " + until
		default:
			p.words += ", the first until " + until
		}
		parts = append(parts, p)
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.hosts, a.hosts) })
	var b strings.Builder
	for i, p := range parts {
		switch {
		case i > 0:
			fmt.Fprintf(&b, ", %s %s", human.Commas(p.hosts), p.words)
		case w.Of > w.Hosts:
			fmt.Fprintf(&b, "of %s of %s, %s %s", human.Commas(w.Hosts), human.Plural(w.Of, "host"), human.Commas(p.hosts), p.words)
		case len(parts) == 1:
			fmt.Fprintf(&b, "%s %s", human.Plural(p.hosts, "host"), p.words)
		default:
			fmt.Fprintf(&b, "%s of %s %s", human.Commas(p.hosts), human.Plural(w.Hosts, "host"), p.words)
		}
	}
	return b.String()
}
