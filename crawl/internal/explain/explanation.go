package explain

import (
	"time"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/follow"
)

// Explanation is all that is known of one URL, in the order in which a crawl
// comes to it. What does not apply or is not known is empty. Passwords in URLs
// are not part of it.
type Explanation struct {
	Raw         string         `json:"raw"`                   // as given
	Steps       []canon.Step   `json:"steps,omitempty"`       // to the canonical form
	Canonical   string         `json:"canonical,omitempty"`   // empty: it has no such form
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

// Check is what one of the crawl's rules says to a link to the URL.
type Check struct {
	Rule    string          `json:"rule"` // a follow.Rule, or one of Located.More
	Answer  follow.Answer   `json:"answer"`
	Reason  frontier.Reason `json:"reason,omitempty"`  // with Refuses
	Setting string          `json:"setting,omitempty"` // as on the command line
	Asked   []string        `json:"asked,omitempty"`   // scope: the keys any one of which would do
	By      string          `json:"by,omitempty"`      // what decided: a scope key or an expression
	Words   string          `json:"words"`
}

// Class says who decides whether the URL is new.
type Class struct {
	Name  string `json:"name"`           // "bulk": the filter; of the others an exact store decides
	Rule  string `json:"rule,omitempty"` // of --exact, that gives it
	Words string `json:"words"`
}

// Robots is what robots.txt says, as far as it is known.
type Robots struct {
	Origin    string        `json:"origin"`
	Access    Access        `json:"access"`
	Rule      string        `json:"rule,omitempty"`       // the one that decided, as "Disallow: /x"; none: no rule matches
	Rules     int           `json:"rules"`                // how many the file has for us
	FetchedAt *time.Time    `json:"fetched_at,omitempty"` // nil: not known
	AskedIn   time.Duration `json:"asked_in"`             // ns until it may be fetched again; 0: before the next page
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

// Address is whether the host may be dialled.
type Address struct {
	Refused bool   `json:"refused"`
	Words   string `json:"words"`
}

// Filter is what the filter of bulk URLs answers. It decides for links only:
// seeds are looked up exactly.
type Filter struct {
	Known  bool    `json:"known"`
	FPR    float64 `json:"fpr"` // that it claims to know a URL never offered, now
	Layers []Layer `json:"layers,omitempty"`
}

// Layer is one layer of a filter that grows: a URL is known if one knows it.
type Layer struct {
	Known bool    `json:"known"`
	Fill  float64 `json:"fill"` // share of its bits that is set
	FPR   float64 `json:"fpr"`  // now
}

// Store is where the URL is. Durations are in nanoseconds.
type Store struct {
	State     frontier.State   `json:"state"` // empty: it is neither queued nor was it ever
	Outcome   frontier.Outcome `json:"outcome,omitempty"`
	Status    int              `json:"status,omitempty"`
	Round     uint32           `json:"round"`
	Item      *Item            `json:"item,omitempty"` // with queued, leased and failed
	Queue     *Queue           `json:"queue,omitempty"`
	HostDueIn time.Duration    `json:"host_due_in"` // 0: due now
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

// Queue is where an item stands among those of its host. For a URL that is not
// queued all of them are ahead.
type Queue struct {
	Ahead   uint64        `json:"ahead"`   // are handed out before it
	Waiting uint64        `json:"waiting"` // it included, delayed ones too
	Delay   time.Duration `json:"delay"`   // it is not handed out before now + Delay; 0: no more
}

// Verdict says in a line why the URL was or was not crawled.
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
