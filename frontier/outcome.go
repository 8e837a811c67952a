package frontier

// Outcome says how an item ended.
type Outcome string

// An item with an outcome of the first group is Done. An item with an outcome of the second group
// is Failed.
const (
	OK          Outcome = "ok"           // 2xx
	Redirect    Outcome = "redirect"     // 3xx, except 304
	ClientError Outcome = "client_error" // 4xx, except 402, 408, 425 and 429
	Robots      Outcome = "robots"       // robots.txt disallows it
	Address     Outcome = "address"      // its port, or every address of its host, is forbidden
	Type        Outcome = "type"         // an unwanted content type; the body was not read
	Coding      Outcome = "coding"       // the body cannot be unpacked: its content coding is unknown, or not what was sent

	// The outcomes of checks, which are Done (see CheckURL).
	CheckOK      Outcome = "check_ok"      // 2xx, after redirects
	CheckBroken  Outcome = "check_broken"  // 404, 410, no such host, a refused connection, or a certificate that is not valid
	CheckUnknown Outcome = "check_unknown" // any other answer, none in time, or forbidden by robots.txt

	// RefusedUse is Done: its owner refuses a use for which the crawl collects pages. The page was not
	// requested, or its content was not kept.
	RefusedUse Outcome = "refused_use"

	// NotModified is Done: 304, to a request that asked whether the page has changed since its last visit.
	NotModified Outcome = "not_modified"

	// Stale is Done: the page was visited in this round already, so it was not requested, and there is no record.
	Stale Outcome = "stale"

	ServerError Outcome = "server_error" // 5xx, or 304 without a reason, after all attempts
	Throttled   Outcome = "throttled"    // 408, 425, 429, after all attempts
	Network     Outcome = "network"      // no answer or a broken one, after all attempts
	HostDead    Outcome = "host_dead"    // the whole host was given up
	WorkerLost  Outcome = "worker_lost"  // its leases expired MaxDeliveries times
	Handler     Outcome = "handler"      // OnPage or OnAnswer returned an error, in all attempts
	Dropped     Outcome = "dropped"      // a later policy refuses it; no request was made
	Blocked     Outcome = "blocked"      // a wall answered, in all attempts, but the host was not blocked; the page may be alive
)

// Outcomes are all outcomes. Stores number them by their order, which never changes: a new outcome
// comes last. The array must not be changed.
var Outcomes = [...]struct {
	Outcome Outcome
	Letter  string // one letter, for the outcome in Postgres
	State   State  // Done or Failed
	Broken  bool   // see IsBroken
}{
	{OK, "o", Done, false},
	{Redirect, "r", Done, false},
	{ClientError, "c", Done, true},
	{Robots, "b", Done, false},
	{Address, "a", Done, false},
	{Type, "t", Done, false},
	{ServerError, "s", Failed, true},
	{Throttled, "l", Failed, true},
	{Network, "n", Failed, true},
	{HostDead, "h", Failed, true},
	{WorkerLost, "w", Failed, false},
	{Handler, "e", Failed, false},
	{Coding, "p", Done, false},
	{CheckOK, "k", Done, false},
	{CheckBroken, "x", Done, true},
	{CheckUnknown, "u", Done, false},
	{Blocked, "d", Failed, false},
	{Dropped, "v", Failed, false},
	{RefusedUse, "f", Done, false},
	{NotModified, "m", Done, false},
	{Stale, "z", Done, false},
}

// State returns Done or Failed, or Unknown if o is not one of the Outcomes. No other code decides
// this; see docs/reference/url-states.md.
func (o Outcome) State() State {
	for i := range Outcomes {
		if Outcomes[i].Outcome == o {
			return Outcomes[i].State
		}
	}
	return Unknown
}

// IsBroken reports whether o means that a link to the URL leads to no page: the server refused the
// URL, or no answer came. It returns false if that is not known, because the crawl did not request the
// URL (Robots, RefusedUse, Address), a wall answered (Blocked), its workers died (WorkerLost) or a check found out nothing (CheckUnknown). It
// also returns false for a page that the crawl did not take (Type, Coding, Handler), and if o is not
// one of the Outcomes.
func (o Outcome) IsBroken() bool {
	for i := range Outcomes {
		if Outcomes[i].Outcome == o {
			return Outcomes[i].Broken
		}
	}
	return false
}

// ByHost reports whether the state of the host, such as its robots.txt, decided o without a request.
func (o Outcome) ByHost() bool { return o == Robots || o == RefusedUse || o == Address }

// Letter returns the letter of o, or "" if o is not one of the Outcomes.
func (o Outcome) Letter() string {
	for i := range Outcomes {
		if Outcomes[i].Outcome == o {
			return Outcomes[i].Letter
		}
	}
	return ""
}
