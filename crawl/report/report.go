package report

import (
	"math"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/topk"
)

// Version is the version of Report's JSON form. Fields may be added under
// one version; none is renamed or gets another meaning.
const Version = 1

// Report is the account of a crawl. Its JSON form is stable and made for programs.
// WriteText and WriteSummary print it for people. Parts that are nil were not
// measured and are left out.
type Report struct {
	Version int       `json:"version"` // Version
	Crawl   string    `json:"crawl"`   // its directory or id
	Made    time.Time `json:"made"`
	End     string    `json:"end"`              // why the run ended, or that it is running, in words
	Resume  string    `json:"resume,omitempty"` // the command that goes on with it; empty means that there is nothing to go on with

	// ResumeNotes name what Resume needs and does not contain: passwords, variables.
	ResumeNotes []string `json:"resume_notes,omitempty"`

	Run      *Run                        `json:"run,omitempty"`
	Seeds    *Seeds                      `json:"seeds,omitempty"`
	Books    frontier.Books              `json:"books"`           // of the whole crawl
	Fault    string                      `json:"fault,omitempty"` // why the books do not balance; empty means that they do
	Outcomes map[frontier.Outcome]uint64 `json:"outcomes,omitempty"`
	Pages    uint64                      `json:"pages"`   // what --max-pages counts
	Retries  uint64                      `json:"retries"` // URLs queued again after an attempt that failed
	Delayed  uint64                      `json:"delayed"` // of those queued
	Hosts    uint64                      `json:"hosts"`   // hosts with queued or leased URLs
	Records  string                      `json:"records"` // where they are
	// MissingRecords were lost from their files, and the user accepted that.
	MissingRecords uint64 `json:"missing_records,omitempty"`
	Answers        string `json:"answers,omitempty"` // where those are that were kept; empty means none were

	Limits []Share   `json:"limits,omitempty"`        // what limited this run, longest first
	Top    *TopHosts `json:"top_hosts,omitempty"`     // of this run
	TopAll *TopHosts `json:"top_hosts_all,omitempty"` // of the whole crawl, with what this run added to it
	// Errors are the attempts of the whole crawl that failed, by cause, with what
	// this run added to them.
	Errors    []CauseCount    `json:"errors_by_cause,omitempty"`
	LastError *LastError      `json:"last_error,omitempty"` // of this run; nil means that no attempt failed
	Filter    *Filter         `json:"filter,omitempty"`
	FPR       *FalsePositives `json:"false_positives,omitempty"`
	Exact     *Exact          `json:"exact,omitempty"`
	Relays    []Relay         `json:"relays,omitempty"` // that deliver its events, by name
}

// Exact is the account of exact URLs.
type Exact struct {
	Keys *ExactKeys `json:"keys,omitempty"` // nil means that they are in the queue's own store
	// Recovered counts new exact URLs that the filter claimed: false positives that
	// did no harm. Promoted counts those that may have been bulk URLs before.
	Recovered uint64 `json:"recovered"`
	Promoted  uint64 `json:"promoted"`
	Outbox    uint64 `json:"outbox"` // notes that wait for Postgres
}

// ExactKeys counts the keys of an exact set in Postgres.
type ExactKeys struct {
	Pending uint64  `json:"pending"` // decided to be new, and not known to be queued
	Queued  uint64  `json:"queued"`
	Done    uint64  `json:"done"`
	Failed  uint64  `json:"failed"`
	Lag     float64 `json:"cleanup_lag_s"`   // how long the oldest expired key has waited for its deletion
	Fault   string  `json:"fault,omitempty"` // why they could not be counted
}

// total returns how many keys there are.
func (k *ExactKeys) total() uint64 { return k.Pending + k.Queued + k.Done + k.Failed }

// Run is the account of one run of a worker.
type Run struct {
	Started        time.Time `json:"started"`
	Seconds        float64   `json:"seconds"`
	Pages          uint64    `json:"pages"` // answers
	Bytes          uint64    `json:"bytes"` // of bodies, as they came
	Requests       uint64    `json:"requests"`
	RobotsRequests uint64    `json:"robots_requests"`
	Errors         uint64    `json:"errors"` // attempts that failed, of both kinds of requests
	PagesPerSecond float64   `json:"pages_per_s"`
	BytesPerSecond float64   `json:"bytes_per_s"`
	AddedPerSecond float64   `json:"added_per_s"` // new URLs
	// Outcomes counts the URLs that this worker finished.
	Outcomes map[frontier.Outcome]uint64 `json:"outcomes,omitzero"`
}

// Seeds counts the seeds that this run was given.
type Seeds struct {
	Added   uint64 `json:"added"`
	Known   uint64 `json:"known"`
	Refused uint64 `json:"refused"`
}

// TopHosts are the hosts with the largest counts, largest first. They are from a
// bounded sketch: a count is never too low, and Over is how much too high it may
// be.
type TopHosts struct {
	Pages   []HostCount `json:"pages,omitempty"`
	Errors  []HostCount `json:"errors,omitempty"`
	Waiting []HostCount `json:"waiting_ms,omitempty"` // how long requests waited for the host's delay, in ms
}

// HostCount is one of TopHosts.
type HostCount struct {
	Host  string `json:"host"`
	Count uint64 `json:"count"`
	Over  uint64 `json:"over,omitempty"`
	Run   uint64 `json:"this_run,omitempty"` // part of Count; of a whole crawl's counts only
	Cause string `json:"cause,omitempty"`    // of errors: why the last one happened
}

// CauseCount counts attempts that failed for one cause. It is from a sketch like
// those of TopHosts.
type CauseCount struct {
	Cause string `json:"cause"`
	Count uint64 `json:"count"`
	Over  uint64 `json:"over,omitempty"`
	Run   uint64 `json:"this_run,omitempty"` // part of Count
}

// CauseCounts returns the n most frequent causes in all, each with its count in
// run. All includes run.
func CauseCounts(all, run *topk.Sketch, n int) []CauseCount {
	var counts []CauseCount
	for _, c := range HostCountsBeside(all, run, n) {
		counts = append(counts, CauseCount{Cause: c.Host, Count: c.Count, Over: c.Over, Run: c.Run})
	}
	return counts
}

// HostCounts returns the n hosts of a sketch with the largest counts.
func HostCounts(hosts *topk.Sketch, n int) []HostCount {
	top := hosts.Top(n)
	counts := make([]HostCount, len(top))
	for i, entry := range top {
		counts[i] = HostCount{Host: entry.Key, Count: entry.Count, Over: entry.Over}
	}
	return counts
}

// HostCountsBeside returns HostCounts(all, n), each with its count in run. All
// includes run.
func HostCountsBeside(all, run *topk.Sketch, n int) []HostCount {
	counts := HostCounts(all, n)
	for i := range counts {
		counts[i].Run = run.Count(counts[i].Host)
	}
	return counts
}

// Filter describes the filter that remembers bulk URLs.
type Filter struct {
	Keys     uint64  `json:"keys"`
	Capacity uint64  `json:"capacity"`
	Bytes    uint64  `json:"bytes"`
	Growth   bool    `json:"growth"` // a full layer is followed by another
	Layers   []Layer `json:"layers"` // oldest first
}

// Layer is one layer of a Filter.
type Layer struct {
	Keys     uint64   `json:"keys"`
	Capacity uint64   `json:"capacity"`
	Bits     uint64   `json:"bits"`
	Hashes   uint     `json:"hashes"`
	Fill     float64  `json:"fill"`                // share of the bits that is set
	FPR      float64  `json:"fpr"`                 // that it claims a URL never offered, now
	Target   float64  `json:"target"`              // what FPR is when it is full
	FullIn   *float64 `json:"full_in_s,omitempty"` // seconds until it is, at the pace now; nil means that it takes no more, or nothing comes
}

// SecondsToFull returns how long a layer takes to fill at this rate of new URLs,
// or nil if it is full or the rate is 0.
func SecondsToFull(keys, capacity uint64, addedPerSecond float64) *float64 {
	if keys >= capacity || !(addedPerSecond > 0) || math.IsInf(addedPerSecond, 1) {
		return nil
	}
	seconds := float64(capacity-keys) / addedPerSecond
	return &seconds
}

// FalsePositives are three estimates of the current probability that a URL never
// offered is taken for a known one, each from another source; and the expected loss.
type FalsePositives struct {
	Estimated *Figure `json:"estimated,omitempty"` // from the fill of sampled blocks
	Probed    *Figure `json:"probed,omitempty"`    // from random fingerprints
	Shadow    *Figure `json:"shadow,omitempty"`    // from an exact sample of all URLs; of the whole crawl, not of now
	Lost      *Lost   `json:"lost,omitempty"`
}

// Figure is a probability with its 95 % interval.
type Figure struct {
	P      float64 `json:"p"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Hits   uint64  `json:"hits,omitempty"`   // false positives among Trials
	Trials uint64  `json:"trials,omitempty"` // 0 means P was not counted
}

// Lost is the expected number of new URLs that were taken for known ones so
// far: the sum, over the new URLs found, of the estimate when each was found.
// The number itself is within Low and High with 95 %.
type Lost struct {
	Expected float64 `json:"expected"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}
