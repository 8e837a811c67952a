package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/topk"
)

// Version is the version of Report's JSON form. Within one version, fields can be
// added, but no field gets another name or meaning.
const Version = 1

// Report is the account of a crawl. Its JSON form is stable and made for programs.
// WriteText and WriteSummary print it for people. Fields that are nil were not measured.
type Report struct {
	Version int       `json:"version"` // Version
	Crawl   string    `json:"crawl"`   // its directory, or NAME on REDIS
	Made    time.Time `json:"made"`
	End     string    `json:"end"`              // why the run ended, or that it is running, in words
	Resume  string    `json:"resume,omitempty"` // the command that resumes the crawl; empty means nothing is left

	// ResumeNotes list what Resume needs but does not contain, such as passwords and
	// environment variables.
	ResumeNotes []string `json:"resume_notes,omitempty"`

	Run      *Run                        `json:"run,omitempty"`
	Seeds    *Seeds                      `json:"seeds,omitempty"`
	Books    frontier.Books              `json:"books"`           // of the whole crawl
	Fault    string                      `json:"fault,omitempty"` // why the books do not balance; empty means that they do
	Outcomes map[frontier.Outcome]uint64 `json:"outcomes,omitempty"`
	// Results count the finished URLs by their answers. A URL that was finished in several rounds is
	// counted in each of them if AllRounds is set, and otherwise in its last one.
	Results   []Result `json:"results,omitempty"`
	AllRounds bool     `json:"all_rounds,omitempty"`
	// Denied are the seeds that the server refused or robots.txt forbids. It is nil unless this is so
	// for every seed of the crawl.
	Denied *DeniedSeeds `json:"denied_seeds,omitempty"`
	// Blocked are the hosts that walls block. It is nil unless only they had URLs left at the end of the run.
	Now     string        `json:"now,omitempty"` // as in Status; empty if the report is of the end of a run
	Blocked *BlockedHosts `json:"blocked_hosts,omitempty"`
	Checks  *Checks       `json:"checks,omitempty"`
	Pages   uint64        `json:"pages"`   // answers, which --max-pages limits
	Retries uint64        `json:"retries"` // how often a URL was queued again after a failed attempt
	Delayed uint64        `json:"delayed"` // queued URLs that wait for another attempt
	Hosts   uint64        `json:"hosts"`   // hosts with queued or leased URLs
	Records string        `json:"records"` // path of the file of records; empty if they are in Postgres, or on other machines
	// MissingRecords is the number of records that were lost from their files. The user
	// has accepted the loss.
	MissingRecords uint64 `json:"missing_records,omitempty"`
	Answers        string `json:"answers,omitempty"` // folder of the kept answers; empty means that none were kept

	// RefusedByForm has one URL for each reason for which this run refused URLs by their form.
	RefusedByForm []RefusedURL `json:"refused_by_form,omitempty"`

	Limits []Share   `json:"limits,omitempty"`        // what limited this run, longest first
	Top    *TopHosts `json:"top_hosts,omitempty"`     // of this run
	TopAll *TopHosts `json:"top_hosts_all,omitempty"` // of the whole crawl, with the part of this run
	// Errors are the failures of the whole crawl by frontier.Completion.Cause, most frequent first, with the part
	// of this run and examples.
	Errors Errors `json:"errors_by_cause,omitempty"`
	// NotTaken counts the finished pages of the whole crawl whose fields and text were not
	// taken, by the reason that their records have.
	NotTaken []CauseCount `json:"not_taken,omitempty"`
	// ScriptSeeds are seeds of the whole crawl that may need JavaScript; nil means that there are none.
	ScriptSeeds *ScriptSeeds       `json:"script_seeds,omitempty"`
	FullHosts   FullHosts          `json:"full_hosts,omitempty"`      // of the whole crawl, with the part of this run
	SameText    SameText           `json:"same_text_hosts,omitempty"` // of the whole crawl, with the part of this run
	LastError   *fetcher.LastError `json:"last_error,omitempty"`      // of this run; nil means that no attempt failed
	Filter      *Filter            `json:"filter,omitempty"`
	FPR         *FalsePositives    `json:"false_positives,omitempty"`
	Exact       *Exact             `json:"exact,omitempty"`
	Relays      []RelayStatus      `json:"relays,omitempty"` // relays that deliver the crawl's events
	Visits      *Visits            `json:"visits,omitempty"` // as in Status
	// Timeline has the counters over the life of the crawl; nil if the crawl has not run in this directory.
	Timeline *Timeline `json:"timeline,omitempty"`
}

// Checks is the account of links that lead out of the scope. Books counts the checks too.
type Checks struct {
	frontier.Checks
	OK      uint64 `json:"ok"`
	Broken  uint64 `json:"broken"`
	Unknown uint64 `json:"unknown"`
	// NotChecked counts links that lead out and were not checked. A URL can be the target of several.
	NotChecked uint64 `json:"not_checked"`
}

// ChecksOf returns the account of a crawl with these counters, or nil if no link leads out.
func ChecksOf(stats *frontier.Stats) *Checks {
	c := Checks{
		Checks: stats.Checks, NotChecked: stats.Refused[frontier.ReasonScope] + stats.Refused[frontier.ReasonExternal],
		OK: stats.Outcomes[frontier.CheckOK], Broken: stats.Outcomes[frontier.CheckBroken], Unknown: stats.Outcomes[frontier.CheckUnknown],
	}
	if c.Added+c.NotChecked == 0 {
		return nil
	}
	return &c
}

// words returns the account in a line.
func (c *Checks) words() string {
	if c == nil {
		return ""
	}
	var parts []string
	if c.Added > 0 {
		parts = append(parts, fmt.Sprintf("%s = %s ok + %s broken + %s unknown + %s queued + %s leased", human.Plural(c.Added, "URL"),
			human.Commas(c.OK), human.Commas(c.Broken), human.Commas(c.Unknown), human.Commas(c.Queued), human.Commas(c.Leased)))
	}
	switch {
	case c.NotChecked > 0 && c.Added > 0:
		parts = append(parts, human.Plural(c.NotChecked, "link")+" not checked")
	case c.NotChecked > 0:
		parts = append(parts, human.Plural(c.NotChecked, "link")+" not checked (--check-external checks them)")
	}
	return strings.Join(parts, "; ")
}

// Exact is the account of exact URLs, which are stored in rows of their own. For all other
// URLs, the bulk URLs, the filter decides whether they are new.
type Exact struct {
	Keys *ExactKeys `json:"keys,omitempty"` // nil means that the exact keys are in the store of the queue
	// Recovered counts the new exact URLs that the filter claimed to contain: false
	// positives that did no harm. Promoted counts the new exact URLs that might have
	// been bulk URLs before.
	Recovered uint64 `json:"recovered"`
	Promoted  uint64 `json:"promoted"`
}

// ExactKeys counts the keys of an exact set in Postgres.
type ExactKeys struct {
	Pending uint64  `json:"pending"` // keys of new URLs; it is not known yet whether they are queued
	Queued  uint64  `json:"queued"`
	Done    uint64  `json:"done"`
	Failed  uint64  `json:"failed"`
	Due     uint64  `json:"cleanup_due"`     // expired keys that wait for their deletion
	Lag     float64 `json:"cleanup_lag_s"`   // how long the oldest expired key has waited for its deletion
	Fault   string  `json:"fault,omitempty"` // why the keys could not be counted
}

// total returns how many keys there are.
func (k *ExactKeys) total() uint64 { return k.Pending + k.Queued + k.Done + k.Failed }

// Run is the account of one run of a worker.
type Run struct {
	Started        time.Time `json:"started"`
	Seconds        float64   `json:"seconds"`
	Pages          uint64    `json:"pages"` // answers
	Bytes          uint64    `json:"bytes"` // of bodies, as they were received
	Requests       uint64    `json:"requests"`
	RobotsRequests uint64    `json:"robots_requests"`
	Errors         uint64    `json:"errors"` // failed attempts for pages and for robots.txt
	PagesPerSecond float64   `json:"pages_per_s"`
	BytesPerSecond float64   `json:"bytes_per_s"`
	AddedPerSecond float64   `json:"added_per_s"` // new URLs
	// Outcomes counts the URLs that this worker finished.
	Outcomes map[frontier.Outcome]uint64 `json:"outcomes,omitzero"`
}

// Seeds counts the seeds of this run by their answers.
type Seeds struct {
	Added   uint64 `json:"added"`
	Known   uint64 `json:"known"`
	Refused uint64 `json:"refused"`
}

// DeniedSeeds are seeds that must not be crawled.
type DeniedSeeds struct {
	Count uint64       `json:"count"`
	Seeds []DeniedSeed `json:"seeds"` // the first ones, at most ten
}

// Add adds a seed.
func (d *DeniedSeeds) Add(seed DeniedSeed) {
	const most = 10
	if d.Count++; len(d.Seeds) < most {
		d.Seeds = append(d.Seeds, seed)
	}
}

// DeniedSeed is a seed, or the target to which it redirects, that must not be crawled.
type DeniedSeed struct {
	URL    string `json:"url"`
	Status int    `json:"status,omitempty"` // 401, 403, 429 or 451; 0 means that robots.txt forbids the URL
	Why    string `json:"why,omitempty"`    // the error in the record
}

// BlockedHosts are hosts that walls block.
type BlockedHosts struct {
	Count uint64        `json:"count"`
	Hosts []BlockedHost `json:"hosts"` // the first ones, at most ten
}

// Add adds a host.
func (b *BlockedHosts) Add(host BlockedHost) {
	const most = 10
	if b.Count++; len(b.Hosts) < most {
		b.Hosts = append(b.Hosts, host)
	}
}

// BlockedHost is a host whose URLs stay queued because a wall refuses requests.
type BlockedHost struct {
	Host    string    `json:"host"`
	Why     string    `json:"why"` // the reason and the sign of the wall
	Queued  uint64    `json:"queued"`
	NextTry time.Time `json:"next_try"` // it is not requested earlier
}

// String returns the host and why it is blocked, safe for a terminal.
func (h *BlockedHost) String() string {
	return fmt.Sprintf("%s: %s; %s queued, next try at %s", human.Printable(h.Host), human.Printable(h.Why),
		human.Plural(h.Queued, "URL"), h.NextTry.Local().Format("2006-01-02 15:04"))
}

// ScriptSeeds are seeds that have a script, no link and hardly any text, so that they may need
// JavaScript, which the crawler does not run.
type ScriptSeeds struct {
	Count uint64   `json:"count"`
	URLs  []string `json:"urls"` // of the first ones, at most ten
}

// RefusedURL is a URL that was refused because it looks like a URL of a trap.
type RefusedURL struct {
	Reason   frontier.Reason `json:"reason"`
	URL      string          `json:"url"`      // at most the first 200 bytes
	Referrer string          `json:"referrer"` // the page that has the link; at most the first 200 bytes
	Rule     string          `json:"rule"`     // the limit, in words
	Flag     string          `json:"flag"`     // with this flag, no URL is refused for Reason
}

// TopHosts are the hosts with the largest counts, largest first. The counts are from a
// sketch of bounded size: a count is never too low, and at most Over too high.
type TopHosts struct {
	Pages   []HostCount `json:"pages,omitempty"`
	Errors  []HostCount `json:"errors,omitempty"`
	Waiting []HostCount `json:"waiting_ms,omitempty"` // how long requests waited for the host's delay, in ms
}

// HostCount is an entry of TopHosts.
type HostCount struct {
	Host  string `json:"host"`
	Count uint64 `json:"count"`
	Over  uint64 `json:"over,omitempty"`
	Run   uint64 `json:"this_run,omitempty"` // this run's part of Count, if Count is for the whole crawl
	Cause string `json:"cause,omitempty"`    // for errors, the cause of the last one
}

// CauseCount counts pages for one cause. The count is from a sketch, as
// the counts in TopHosts are.
type CauseCount struct {
	Cause string `json:"cause"`
	Count uint64 `json:"count"`
	Over  uint64 `json:"over,omitempty"`
	Run   uint64 `json:"this_run,omitempty"` // this run's part of Count
}

// Errors are failures by cause.
type Errors []ErrorCount

// ErrorCount counts the failures for one cause.
type ErrorCount struct {
	Cause    string            `json:"cause"`
	Count    uint64            `json:"count"`
	Run      uint64            `json:"this_run,omitempty"` // this run's part of Count
	Examples []fetcher.Example `json:"examples,omitempty"` // at most three
}

// ErrorsOf returns the failures that whole counts, with their part in run.
func ErrorsOf(whole, run map[string]uint64, examples fetcher.Examples) (errors Errors) {
	for cause, n := range whole {
		errors = append(errors, ErrorCount{cause, n, run[cause], examples[cause]})
	}
	slices.SortFunc(errors, func(a, b ErrorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Cause, b.Cause))
	})
	return errors
}

// String returns the causes with their counts in a line.
func (e Errors) String() string {
	counts := make(map[string]uint64)
	for _, c := range e {
		counts[c.Cause] = c.Count
	}
	return breakdown(counts)
}

// WriteExamples prints each cause with its examples.
func (e Errors) WriteExamples(w io.Writer) error {
	for _, c := range e {
		_, err := fmt.Fprintf(w, "  %s: %s, %s in this run\n", c.Cause, human.Commas(c.Count), human.Commas(c.Run))
		for _, x := range c.Examples {
			if err == nil {
				_, err = fmt.Fprintf(w, "    %s %s: %s\n", x.Time.UTC().Format(time.RFC3339), human.Printable(x.URL), human.Printable(x.Error))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// CauseCounts returns the n most frequent causes of the whole crawl, each with its count
// in this run. The counts in whole must include the counts in run.
func CauseCounts(whole, run *topk.Sketch, n int) []CauseCount {
	var counts []CauseCount
	for _, c := range HostCountsBeside(whole, run, n) {
		counts = append(counts, CauseCount{Cause: c.Host, Count: c.Count, Over: c.Over, Run: c.Run})
	}
	return counts
}

// HostCounts returns the n hosts with the largest counts in a sketch.
func HostCounts(hosts *topk.Sketch, n int) []HostCount {
	top := hosts.Top(n)
	counts := make([]HostCount, len(top))
	for i, entry := range top {
		counts[i] = HostCount{Host: entry.Key, Count: entry.Count, Over: entry.Over}
	}
	return counts
}

// HostCountsBeside returns the hosts of HostCounts(whole, n). For each host, it adds the count
// in run. The counts in whole must include the counts in run.
func HostCountsBeside(whole, run *topk.Sketch, n int) []HostCount {
	counts := HostCounts(whole, n)
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
	Growth   bool    `json:"growth"` // a layer is added when the newest is full
	Layers   []Layer `json:"layers"` // oldest first

	Window *frontier.FilterWindow `json:"window,omitempty"` // if it forgets; it then has layers of several generations
}

// Layer is one layer of a Filter.
type Layer struct {
	frontier.FilterLayer
	// FullIn is the number of seconds until the layer is full at the current pace. It
	// is nil if the layer gets no more keys, or if no URLs are added.
	FullIn *float64 `json:"full_in_s,omitempty"`
}

// SecondsToFull returns how long a layer takes to fill at this rate of new URLs, or nil
// if the layer is full or the rate is 0.
func SecondsToFull(keys, capacity uint64, addedPerSecond float64) *float64 {
	if keys >= capacity || !(addedPerSecond > 0) || math.IsInf(addedPerSecond, 1) {
		return nil
	}
	seconds := float64(capacity-keys) / addedPerSecond
	return &seconds
}

// FalsePositives has three estimates of the current probability of a false positive,
// each from a different source. It also has the expected number of lost URLs.
type FalsePositives struct {
	Estimated *Figure `json:"estimated,omitempty"` // from the fill of the filter
	Probed    *Figure `json:"probed,omitempty"`    // from random fingerprints
	// Shadow is measured with a sample of the URLs. The URLs of the sample are also stored in
	// rows. Shadow is the mean over the whole crawl.
	Shadow *Figure `json:"shadow,omitempty"`
	Lost   *Lost   `json:"lost,omitempty"`
}

// Figure is a probability with its 95 % interval.
type Figure struct {
	P      float64 `json:"p"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Hits   uint64  `json:"hits,omitempty"`   // false positives among Trials
	Trials uint64  `json:"trials,omitempty"` // 0 means P was not counted
}

// Lost is the expected number of new URLs that were taken for known ones so far. It is
// the sum, over all new URLs, of the false-positive rate at the time when the URL was
// found. The true number is between Low and High with a probability of 95 %.
type Lost struct {
	Expected float64 `json:"expected"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}
