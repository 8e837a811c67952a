package frontier

import (
	"slices"
	"strings"
	"time"
)

// A check is an item that asks only whether a URL outside the scope of a crawl answers. Its URL
// and its host key have a mark before them. So the fingerprint of a check is that of the marked
// URL in every store, and the URL itself stays new: a later seed or a wider scope still adds it.
//
// A store leases checks even if LeaseRequest.MaxPages is reached, because they are no pages. It counts
// them in Stats.Checks. A host of checks has a delay of at least CheckDelay, and no maximum number of
// items.
const checkMark = "check "

// CheckDelay is the least time between two checks of URLs of one registrable domain.
const CheckDelay = time.Second

// CheckURL returns the URL of the item that checks a canonical URL.
func CheckURL(url string) string { return checkMark + url }

// CheckHost returns the host key of the checks of a registrable domain.
func CheckHost(domain string) string { return checkMark + domain }

// ChecksGroup is the group of the checks (see Quota), whose number a crawl limits.
const ChecksGroup = checkMark

// Checked returns the URL, or the domain, that belongs to the URL or the host key of a check.
// It returns false for those of other items.
func Checked(marked string) (plain string, isCheck bool) { return strings.CutPrefix(marked, checkMark) }

// IsCheck reports whether a URL or a host key is that of a check.
func IsCheck(marked string) bool { return strings.HasPrefix(marked, checkMark) }

// Checks count the checks of a crawl. Books counts them too. They balance when
//
//	Added = Queued + Leased + the outcomes CheckOK, CheckBroken and CheckUnknown
type Checks struct {
	Added  uint64 `json:"added"`
	Queued uint64 `json:"queued"`
	Leased uint64 `json:"leased"`
}

// Waiting returns how many checks are not finished.
func (c Checks) Waiting() uint64 { return c.Queued + c.Leased }

// IsCheck reports whether o is the outcome of a check.
func (o Outcome) IsCheck() bool { return slices.Contains(CheckOutcomes(), o) }

// CheckResult returns the result of a check: ok, broken or unknown.
func (o Outcome) CheckResult() string { return strings.TrimPrefix(string(o), "check_") }

// CheckOutcomes returns the outcomes of checks, which no other item has.
func CheckOutcomes() []Outcome { return []Outcome{CheckOK, CheckBroken, CheckUnknown} }
