package explain

import (
	"time"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/follow"
)

// Explanation explains one URL, in the order in which a crawl checks it. Parts that
// do not apply or are not known are empty. Passwords in URLs are left out.
type Explanation struct {
	Raw         string         `json:"raw"`                   // as given
	Steps       []canon.Step   `json:"steps,omitempty"`       // to the canonical form
	Canonical   string         `json:"canonical,omitempty"`   // empty means that it has no such form
	Fingerprint string         `json:"fingerprint,omitempty"` // 32 hex digits
	Host        string         `json:"host,omitempty"`        // host key
	Rules       []Check        `json:"rules,omitempty"`       // as they hold for a link now, in their order
	Class       *Class         `json:"class,omitempty"`
	Robots      *Robots        `json:"robots,omitempty"`
	Address     *Address       `json:"address,omitempty"`
	HostFailure string         `json:"host_failure,omitempty"` // why its host does not answer
	Filter      *Filter        `json:"filter,omitempty"`
	Store       *Store         `json:"store,omitempty"`
	Record      *record.Record `json:"record,omitempty"`      // its last one
	Referrers   []string       `json:"referrers,omitempty"`   // the page that named it, the one that named that, … to a seed
	MoreBehind  bool           `json:"more_behind,omitempty"` // Referrers ends before a seed: too many, or one has no record
	Verdict     Verdict        `json:"verdict"`
}

// Check is the answer of one of the crawl's rules to a link to the URL.
type Check struct {
	Rule    string          `json:"rule"` // a follow.Rule, or one of Located.More
	Answer  follow.Answer   `json:"answer"`
	Reason  frontier.Reason `json:"reason,omitempty"`  // with Refuses
	Setting string          `json:"setting,omitempty"` // as on the command line
	Asked   []string        `json:"asked,omitempty"`   // scope: keys, one of which has to be open
	By      string          `json:"by,omitempty"`      // what decided: a scope key or an expression
	Words   string          `json:"words"`
}

// Class tells whether the filter or an exact set decides if the URL is new.
type Class struct {
	Name  string `json:"name"`           // "bulk": the filter; of the others an exact store decides
	Rule  string `json:"rule,omitempty"` // of --exact, that gives it
	Words string `json:"words"`
}

// Robots is what robots.txt permits, as far as it is known.
type Robots struct {
	Origin    string        `json:"origin"`
	Access    Access        `json:"access"`
	Rule      string        `json:"rule,omitempty"`       // the one that decided, as "Disallow: /x"; none means no rule matches
	Rules     int           `json:"rules"`                // how many the file has for us
	FetchedAt *time.Time    `json:"fetched_at,omitempty"` // nil means not known
	AskedIn   time.Duration `json:"asked_in"`             // ns until it may be fetched again; 0 means before the next page
	Failures  int           `json:"failures,omitempty"`   // requests in a row that said nothing
	Cause     string        `json:"cause,omitempty"`      // why the last of them failed
	Words     string        `json:"words"`
}

// Access is what robots.txt allows.
type Access string

const (
	Allowed     Access = "allowed"
	Disallowed  Access = "disallowed"
	NotFetched  Access = "not fetched yet"
	Unavailable Access = "unavailable" // nothing is requested until it can be had
	Ignored     Access = "ignored"     // as the crawl's settings say
)

// Address reports whether the host may be dialled.
type Address struct {
	Refused bool   `json:"refused"`
	Words   string `json:"words"`
}

// Filter is the answer of the filter of bulk URLs. It decides for links only:
// seeds are looked up exactly.
type Filter struct {
	Known  bool    `json:"known"`
	FPR    float64 `json:"fpr"` // that it claims to know a URL never offered, now
	Layers []Layer `json:"layers,omitempty"`
}

// Layer is one layer of a filter that grows: a URL is known if any layer claims it.
type Layer struct {
	Known bool    `json:"known"`
	Fill  float64 `json:"fill"` // share of its bits that is set
	FPR   float64 `json:"fpr"`  // now
}

// Store is where the URL is. Durations are in nanoseconds.
type Store struct {
	State     frontier.State   `json:"state"` // empty means that it is neither queued nor was it ever
	Outcome   frontier.Outcome `json:"outcome,omitempty"`
	Status    int              `json:"status,omitempty"`
	Round     uint32           `json:"round"`
	Item      *Item            `json:"item,omitempty"` // with queued, leased and failed
	Queue     *Queue           `json:"queue,omitempty"`
	HostDueIn time.Duration    `json:"host_due_in"` // 0 means due now
}

// Item is what waits in the queue beside the URL.
type Item struct {
	Depth      int    `json:"depth"`
	Hops       int    `json:"hops"`
	Priority   string `json:"priority"` // "seed", "page" or "asset"
	Attempts   int    `json:"attempts"`
	Deliveries int    `json:"deliveries"`
	Referrer   string `json:"referrer_id,omitempty"` // 16 hex digits
}

// Queue is the position of an item among those of its host. For a URL that is not
// queued, all of them are ahead.
type Queue struct {
	Ahead   uint64        `json:"ahead"`   // are handed out before it
	Waiting uint64        `json:"waiting"` // it included, delayed ones too
	Delay   time.Duration `json:"delay"`   // it is not handed out before now + Delay; 0 means no more
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
