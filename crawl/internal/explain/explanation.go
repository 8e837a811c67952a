package explain

import (
	"time"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/follow"
	"github.com/bloomfrontier/crawler/internal/human"
)

// Explanation explains one URL, in the order in which a crawl checks it. Parts that
// do not apply or are not known are empty. Passwords in URLs are left out.
type Explanation struct {
	Raw         string         `json:"raw"`                   // the URL as it was given
	Steps       []canon.Step   `json:"steps,omitempty"`       // from Raw to the canonical form
	Canonical   string         `json:"canonical,omitempty"`   // empty means that Raw has no canonical form
	Fingerprint string         `json:"fingerprint,omitempty"` // 32 hex digits
	Host        string         `json:"host,omitempty"`        // host key
	Rules       []Check        `json:"rules,omitempty"`       // what each rule would answer to a link now, in order
	Class       *Class         `json:"class,omitempty"`
	Robots      *Robots        `json:"robots,omitempty"`
	Address     *Address       `json:"address,omitempty"`
	HostFailure string         `json:"host_failure,omitempty"` // why the URL's host does not answer
	Trap        string         `json:"trap,omitempty"`         // why the URL ends without a request, if its series is a trap
	Filter      *Filter        `json:"filter,omitempty"`
	Store       *Store         `json:"store,omitempty"`
	Record      *record.Record `json:"record,omitempty"` // the last record of the URL
	// Referrers are the URL's referrer, the referrer of that page, and so on up to a
	// seed. MoreBehind reports that the list ends before a seed, because there are too
	// many referrers, or one has no record.
	Referrers  []string `json:"referrers,omitempty"`
	MoreBehind bool     `json:"more_behind,omitempty"`
	Verdict    Verdict  `json:"verdict"`
}

// Check is the answer that one rule of the crawl gives for a link to the URL.
type Check struct {
	Rule    string          `json:"rule"` // name of a follow.Rule, or of a check in Located.More
	Answer  follow.Answer   `json:"answer"`
	Reason  frontier.Reason `json:"reason,omitempty"`  // if Answer is Refuses
	Setting string          `json:"setting,omitempty"` // as on the command line
	Asked   []string        `json:"asked,omitempty"`   // for the rule "scope": a seed must have one of these hosts or domains
	By      string          `json:"by,omitempty"`      // the host, domain or regular expression that decided
	Words   string          `json:"words"`
}

// Class says what decides whether the URL is new: the filter or an exact set.
type Class struct {
	Name  string `json:"name"`           // "bulk" means that the filter decides; other names mean that an exact set decides
	Rule  string `json:"rule,omitempty"` // the rule of --exact that gives the URL this class
	Words string `json:"words"`
}

// Robots says whether robots.txt permits the URL, as far as that is known.
type Robots struct {
	Origin    string        `json:"origin"`
	Access    Access        `json:"access"`
	Rule      string        `json:"rule,omitempty"`       // the rule that decided, as "Disallow: /x"; empty means none
	Rules     int           `json:"rules"`                // number of rules in the file for this crawler
	FetchedAt *time.Time    `json:"fetched_at,omitempty"` // nil means not known
	AskedIn   human.Seconds `json:"asked_in_seconds"`     // time until the file is fetched again; 0 means now
	Failures  int           `json:"failures,omitempty"`   // requests in a row that failed
	Cause     string        `json:"cause,omitempty"`      // why the last of these requests failed
	Words     string        `json:"words"`
}

// Access is what robots.txt allows.
type Access string

const (
	Allowed     Access = "allowed"
	Disallowed  Access = "disallowed"
	NotFetched  Access = "not fetched yet"
	Unavailable Access = "unavailable" // all attempts failed; no page is requested until one succeeds
	Ignored     Access = "ignored"     // the crawl's settings ignore robots.txt for the host
)

// Address reports whether the crawl is allowed to dial the host.
type Address struct {
	Refused bool   `json:"refused"`
	Words   string `json:"words"`
}

// Filter is the answer of the filter. The filter decides only about URLs of the class "bulk".
// By default, seeds do not have this class.
type Filter struct {
	Known  bool    `json:"known"`
	FPR    float64 `json:"fpr"` // current probability that it claims to know a new URL
	Layers []Layer `json:"layers,omitempty"`
}

// Layer is one layer of a filter that grows. The filter claims to know a URL if one of its
// layers claims to know it.
type Layer struct {
	Known bool    `json:"known"`
	Fill  float64 `json:"fill"` // share of its bits that are set
	FPR   float64 `json:"fpr"`  // its current false-positive rate
}

// Store is the state of the URL in the store.
type Store struct {
	State     frontier.State   `json:"state"` // empty means that the URL was never queued
	Outcome   frontier.Outcome `json:"outcome,omitempty"`
	Status    int              `json:"status,omitempty"`
	Round     uint32           `json:"round"`
	Item      *Item            `json:"item,omitempty"` // only for URLs that are queued, leased or failed
	Queue     *Queue           `json:"queue,omitempty"`
	HostDueIn human.Seconds    `json:"host_due_in_seconds"` // 0 means due now
}

// Item has the data that the queue stores with a URL.
type Item struct {
	Depth      int    `json:"depth"`
	Hops       int    `json:"hops"`
	Priority   string `json:"priority"` // "seed", "page" or "asset"
	Attempts   int    `json:"attempts"`
	Deliveries int    `json:"deliveries"`
	Referrer   string `json:"referrer_id,omitempty"` // 16 hex digits
}

// Queue is the position of an item among the items of its host. For a URL that is not
// queued, all waiting items are ahead.
type Queue struct {
	Ahead   uint64        `json:"ahead"`         // items that will be leased before this one
	Waiting uint64        `json:"waiting"`       // all items of the host that wait, including this one and delayed ones
	Delay   human.Seconds `json:"delay_seconds"` // time until this item can be leased; 0 means at once
}

// Verdict is one line about why the URL was or was not crawled.
type Verdict struct {
	Answer string          `json:"answer"` // "refused", "seen", "would be queued", or the State
	Reason frontier.Reason `json:"reason,omitempty"`
	Words  string          `json:"words"`
}

func (v Verdict) String() string {
	line := v.Answer
	if v.Reason != "" {
		line += ": " + string(v.Reason)
	}
	if v.Words != "" {
		line += ": " + v.Words
	}
	return line
}
