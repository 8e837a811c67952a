package fetcher

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/topk"
)

// tally counts what a worker does, for Crawl.Progress.
type tally struct {
	requests, robots, errors, bytes, finished, pages, leasesLost atomic.Uint64

	meters meters

	answered atomic.Bool // a request for a page or a robots.txt was answered

	// the present state
	paying    atomic.Int64 // requests that wait because of the worker's rate limit
	overdrawn atomic.Int64 // requests that wait because of the worker's bandwidth limit
	storing   atomic.Int64 // completions that wait for the store
	ruling    atomic.Int64 // hosts that wait for a robots.txt
	due       atomic.Bool  // the store may have due hosts that were not leased
	idle      atomic.Bool  // no lease is held, no URLs are being added, and no host is due
	delay     atomic.Int64 // in ns; see Progress.Delay

	mu       sync.Mutex
	hosts    HostCounts
	outcomes map[frontier.Outcome]uint64
	causes   map[string]uint64 // of completions that the store has accepted
	last     *LastError        // nil means that no attempt has failed
	byForm   map[frontier.Reason]Refused

	scriptSeeds ScriptSeeds

	recent  [mostRecent]Recent // a ring; written counts the records that were put into it
	written uint64
}

// ScriptSeeds are seeds whose content scripts may build: see record.Record.MayNeedJS. The crawler
// finds no links in them.
type ScriptSeeds struct {
	Count uint64   `json:"count"`
	URLs  []string `json:"urls"` // of the first ones, at most ten
}

// Add adds other to s. URLs that s names already, because they were fetched again, are not counted twice.
func (s *ScriptSeeds) Add(other ScriptSeeds) {
	const most = 10
	s.Count += other.Count
	urls := slices.Clone(s.URLs)
	for _, url := range other.URLs {
		if slices.Contains(urls, url) {
			s.Count--
		} else if len(urls) < most {
			urls = append(urls, url)
		}
	}
	s.URLs = urls
}

// countScriptSeed counts a seed whose content scripts may build.
func (t *tally) countScriptSeed(url string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scriptSeeds.Add(ScriptSeeds{1, []string{url}})
}

// ScriptSeeds returns the seeds that this worker has fetched and whose content scripts may build.
func (c *Crawl) ScriptSeeds() ScriptSeeds {
	c.tally.mu.Lock()
	defer c.tally.mu.Unlock()
	return c.tally.scriptSeeds
}

// hostsCounted and causesCounted are the sizes of a worker's sketches. A topk.Sketch counts
// only the most frequent keys.
const (
	hostsCounted  = 1000
	causesCounted = 100 // reasons of HostCounts.NotTaken
)

// HostCounts are bounded sketches of the hosts with the most answers, errors and
// waits, and of the reasons why the data of pages was not taken.
type HostCounts struct {
	Pages   *topk.Sketch `json:"pages"`      // answers
	Errors  *topk.Sketch `json:"errors"`     // attempts that failed
	Waiting *topk.Sketch `json:"waiting_ms"` // ms that a worker held the host and waited for its delay
	// NotTaken counts the finished pages whose data was not taken, by record.Record.NotTaken.
	NotTaken *topk.Sketch `json:"not_taken"`
	Full     *topk.Sketch `json:"full"`      // URLs that the store refused with frontier.ReasonHostLimit
	SameText *topk.Sketch `json:"same_text"` // pages of hosts that answer every URL with the same text

	Causes map[string]string `json:"causes"` // by host: why its last attempt failed; some hosts in Errors have no entry

	Examples Examples `json:"examples"`
}

// Examples are the first failures for each frontier.Completion.Cause, at most three, of different URLs.
type Examples map[string][]Example

// Example is a failure.
type Example struct {
	Time  time.Time `json:"time"`
	URL   string    `json:"url"`
	Error string    `json:"error"`
}

// Add adds the examples of other.
func (e Examples) Add(other Examples) {
	const most = 3
	for cause, examples := range other {
		for _, x := range examples {
			if len(e[cause]) < most && !slices.ContainsFunc(e[cause], func(has Example) bool { return has.URL == x.URL }) {
				e[cause] = append(e[cause], x)
			}
		}
	}
}

// addExample keeps a failure as an example.
func (t *tally) addExample(cause string, example Example) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hosts.Examples.Add(Examples{cause: {example}})
}

// NewHostCounts returns empty counts, into which others can be merged.
func NewHostCounts() HostCounts {
	return HostCounts{
		Pages: topk.New(hostsCounted), Errors: topk.New(hostsCounted), Waiting: topk.New(hostsCounted),
		NotTaken: topk.New(causesCounted), Full: topk.New(hostsCounted), SameText: topk.New(hostsCounted), Causes: make(map[string]string), Examples: make(Examples),
	}
}

// LastError is the last attempt that failed.
type LastError struct {
	Time  time.Time `json:"time"`
	Host  string    `json:"host,omitempty"` // host key; empty means that this machine could not make the request
	Error string    `json:"error"`
}

// String returns the host and the error, safe for a terminal.
func (e *LastError) String() string {
	if e.Host == "" {
		return human.Printable(e.Error)
	}
	return human.Printable(e.Host + ": " + e.Error)
}

// failed counts an attempt that failed, and stores its cause. An empty host means that
// this machine could not make the request.
func (t *tally) failed(host, cause string) {
	cause = clip(cause)
	t.errors.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = &LastError{Time: time.Now().UTC(), Host: host, Error: cause}
	if host == "" {
		return
	}
	t.hosts.Errors.Add(host, 1)
	t.hosts.noteCause(host, cause)
}

// clip bounds the text of an error, because a part of it may come from a server.
func clip(cause string) string {
	const most = 300
	return strings.ToValidUTF8(cause[:min(len(cause), most)], "?")
}

// Merge adds the counts of other. It skips the sketches that are nil in other.
func (c *HostCounts) Merge(other HostCounts) {
	for _, pair := range [][2]*topk.Sketch{
		{c.Pages, other.Pages}, {c.Errors, other.Errors}, {c.Waiting, other.Waiting},
		{c.NotTaken, other.NotTaken}, {c.Full, other.Full}, {c.SameText, other.SameText},
	} {
		if pair[1] != nil {
			pair[0].Merge(pair[1])
		}
	}
	for host, cause := range other.Causes {
		c.noteCause(host, cause)
	}
	c.Examples.Add(other.Examples)
}

// noteCause stores why the last attempt at a host failed, for up to hostsCounted hosts.
func (c *HostCounts) noteCause(host, cause string) {
	if _, known := c.Causes[host]; !known && len(c.Causes) >= hostsCounted {
		for other := range c.Causes {
			delete(c.Causes, other)
			break
		}
	}
	c.Causes[host] = cause
}

// count adds n to a host in one of the sketches of t.hosts.
func (t *tally) count(sketch *topk.Sketch, host string, n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sketch.Add(host, n)
}

// refusedByForm stores the first link that was refused for each reason of package trap.
func (t *tally) refusedByForm(link Refused) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.byForm[link.Reason]; known {
		return
	}
	if t.byForm == nil {
		t.byForm = map[frontier.Reason]Refused{}
	}
	t.byForm[link.Reason] = link
}

// RefusedByForm returns one link for each reason for which this worker refused links by the form
// of their URL (see Rules.Trap). The links are in the order of the reasons.
func (c *Crawl) RefusedByForm() []Refused {
	c.tally.mu.Lock()
	defer c.tally.mu.Unlock()
	return slices.SortedFunc(maps.Values(c.tally.byForm), func(a, b Refused) int { return cmp.Compare(a.Reason, b.Reason) })
}

// finish counts items whose completion the store has accepted.
func (t *tally) finish(done []frontier.Completion) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range done {
		if done[i].Disposition == frontier.Finish {
			t.outcomes[done[i].Outcome]++
		}
		if done[i].Cause != "" {
			t.causes[done[i].Cause]++
		}
	}
}

// Outcomes counts the items that this worker has finished, by outcome.
func (c *Crawl) Outcomes() map[frontier.Outcome]uint64 {
	c.tally.mu.Lock()
	defer c.tally.mu.Unlock()
	return maps.Clone(c.tally.outcomes)
}

// Causes counts the failures in this worker's completions, by frontier.Completion.Cause.
func (c *Crawl) Causes() map[string]uint64 {
	c.tally.mu.Lock()
	defer c.tally.mu.Unlock()
	return maps.Clone(c.tally.causes)
}

// Hosts calls the function read with the worker's sketches. The function must
// not keep them.
func (c *Crawl) Hosts(read func(HostCounts)) {
	c.tally.mu.Lock()
	defer c.tally.mu.Unlock()
	read(c.tally.hosts)
}

// Progress is what a worker has done since New. The store has the counters of the whole
// crawl.
type Progress struct {
	Requests   uint64 `json:"requests"` // for pages
	Robots     uint64 `json:"robots"`   // requests for robots.txt
	Errors     uint64 `json:"errors"`   // attempts that failed, including those for robots.txt
	Bytes      uint64 `json:"bytes"`    // of bodies, as received, before they are decompressed
	Finished   uint64 `json:"finished"` // items that reached an outcome after a request
	Pages      uint64 `json:"pages"`    // finished items that were answered
	LeasesLost uint64 `json:"leases_lost"`

	Answered  bool       `json:"answered"`             // a request for a page or a robots.txt was answered
	LastError *LastError `json:"last_error,omitempty"` // nil means that no attempt has failed

	// The present state.
	Held             int  `json:"hosts"`     // leases held
	Parked           int  `json:"waiting"`   // leases that wait for their host's delay, and are not late
	Slots            int  `json:"slots"`     // hosts that can be asked at once
	Asking           int  `json:"asking"`    // hosts being asked
	FewDescriptors   bool `json:"at_most"`   // Slots has reached the maximum that Config.MaxConnections allows
	Late             int  `json:"late"`      // late hosts being asked, which Asking does not count
	RateWaiting      int  `json:"paying"`    // requests that wait because of the worker's rate limit
	BandwidthWaiting int  `json:"overdrawn"` // requests that wait because of the worker's bandwidth limit
	StoreWaiting     int  `json:"storing"`   // completions waiting for the store
	RobotsWaiting    int  `json:"ruling"`    // hosts waiting for a robots.txt
	NamesWaiting     int  `json:"look_ups"`  // requests waiting for the address of a name
	Due              bool `json:"due_waits"` // the store may have due hosts that were not leased
	// Delay is the politeness delay of the host whose request had to wait most recently.
	// In a crawl of many hosts, that is nearly always the usual delay. 0 means that no
	// request had to wait.
	Delay time.Duration `json:"-"` // in JSON: delay_seconds
	// BackingOff counts the hosts that this worker gave back because they failed
	// and that are not due yet. NextTry is the time until the first of them is due.
	BackingOff int           `json:"backing_off"`
	NextTry    time.Duration `json:"-"` // in JSON: next_try_seconds
	// Stuck reports that nothing can be requested now. Either no host is due and no
	// URLs are being added, or this machine cannot make requests.
	Stuck bool `json:"stuck"`
	// Down is why this machine cannot make requests now; empty if it can.
	Down string `json:"down,omitempty"`
	// ShortMemory reports that Config.Scarce returned Memory, so that no more hosts
	// are leased.
	ShortMemory bool `json:"short_memory,omitempty"`
	// StoreAway is the time for which calls have been waiting until the store is available; 0 means that none waits.
	StoreAway time.Duration `json:"-"` // in JSON: store_away_seconds
	// StoreFull reports that no request starts, because the pages of StoreWaiting fill their memory.
	StoreFull bool `json:"store_full,omitempty"`
}

// progressJSON is the form of Progress in JSON, with durations in seconds.
type progressJSON struct {
	*plainProgress
	Delay   human.Seconds `json:"delay_seconds"`
	NextTry human.Seconds `json:"next_try_seconds"`
	Away    human.Seconds `json:"store_away_seconds"`
}

// plainProgress is a Progress without methods.
type plainProgress Progress

// MarshalJSON implements json.Marshaler.
func (p Progress) MarshalJSON() ([]byte, error) {
	return json.Marshal(progressJSON{(*plainProgress)(&p), human.Seconds(p.Delay), human.Seconds(p.NextTry), human.Seconds(p.StoreAway)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Progress) UnmarshalJSON(text []byte) error {
	form := progressJSON{plainProgress: (*plainProgress)(p)}
	err := json.Unmarshal(text, &form)
	p.Delay, p.NextTry, p.StoreAway = time.Duration(form.Delay), time.Duration(form.NextTry), time.Duration(form.Away)
	return err
}

// Progress returns the present counters. They are read one after the other, so they may
// differ by a few requests.
func (c *Crawl) Progress() Progress {
	held := c.held.Load()
	asking, slots, _ := c.slots.prompt.counts()
	late, _, _ := c.slots.late.counts()
	late = min(late, int(held)) // a lease can have ended between the two readings
	backingOff, nextTry := c.roster.backingOff(time.Now())
	c.tally.mu.Lock()
	last := c.tally.last
	c.tally.mu.Unlock()
	return Progress{
		Down: c.whyDown(asking + late), ShortMemory: c.squeezed.Load(), StoreFull: c.backlog.isFull(), StoreAway: c.storeAway.lasts(time.Now()),
		Requests: c.tally.requests.Load(), Robots: c.tally.robots.Load(), Errors: c.tally.errors.Load(),
		Bytes: c.tally.bytes.Load(), Finished: c.tally.finished.Load(), LeasesLost: c.tally.leasesLost.Load(),
		Held: int(held), Parked: int(min(max(held-c.ready.Load()-int64(late), 0), held-int64(late))), Slots: slots, Asking: asking, Late: late,
		FewDescriptors: c.cfg.Concurrency == 0 && slots == c.mostSlots() && slots < autoMax,
		RateWaiting:    int(c.tally.paying.Load()), BandwidthWaiting: int(c.tally.overdrawn.Load()), StoreWaiting: int(c.tally.storing.Load()), RobotsWaiting: int(c.tally.ruling.Load()),
		NamesWaiting: c.cfg.Client.LookUps(), Due: c.tally.due.Load(), Delay: time.Duration(c.tally.delay.Load()),
		Pages: c.tally.pages.Load(), Answered: c.tally.answered.Load(), LastError: last,
		BackingOff: backingOff, NextTry: nextTry, Stuck: c.tally.idle.Load() || c.machineDown.began.Load() != 0,
	}
}

func statusText(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}
