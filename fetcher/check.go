package fetcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/budget"
	"github.com/bloomfrontier/crawler/internal/follow"
	"github.com/bloomfrontier/crawler/internal/robots"
	"github.com/bloomfrontier/crawler/internal/stage"
)

// A check asks whether a URL outside the scope answers. Its host key is that of the URL's
// registrable domain, so no other check of the domain runs meanwhile:
//
//	step ─ the first pending item is a check ─► stepCheck ─► check.run
//	run  ─ robots.txt of the origin ─► HEAD ─ not 2xx, not 3xx ─► GET, closed after the header
//	run  ─ a redirect, maxCheckHops at most ─► run for its target
//
// Each request waits for the delay of the registrable domain, which is at least
// frontier.CheckDelay, and for that of the URL's own host, if this worker also crawls it. The
// domains of redirects and those own hosts are known only if this worker has leased or requested
// them (see roster).

// maxCheckHops is how many redirects a check follows.
const maxCheckHops = 5

// checkHost returns the host key of the check of a URL.
func checkHost(url canon.URL) string { return frontier.CheckHost(canon.Domain(url.Host())) }

// leadsOut takes a refused link if it leads out of the scope and Policy.CheckExternal is set. It
// returns false if the link stays refused for its first reason.
func (l *linkSet) leadsOut(url canon.URL, why *follow.Finding) bool {
	if !l.policy.CheckExternal || l.listing || l.policy.Rules.Scope == canon.ScopeAny {
		return false
	}
	switch why.Reason {
	case frontier.ReasonScope:
	case frontier.ReasonDepth, frontier.ReasonHops: // these rules come first, but are no reason against a check
		if key, err := l.Opened(l.hard, url.Host()); key != "" || err != nil {
			return false
		}
	default:
		return false
	}
	if found := l.ask(&follow.Link{URL: url, Kind: follow.Outside}); found.Answer == follow.Refuses {
		l.refuseLink(url, &found)
	} else {
		l.outside = append(l.outside, url)
	}
	return true
}

// addChecks offers checks of the links that lead out, within Policy.MaxExternal.
func (l *linkSet) addChecks() {
	urls := l.outside
	if l.outside = nil; len(urls) == 0 || l.err != nil {
		return
	}
	has := slices.Repeat([]bool{true}, len(urls))
	if l.policy.MaxExternal > 0 {
		keys := make([]frontier.QuotaKey, len(urls))
		for i, url := range urls {
			keys[i] = frontier.QuotaKey{Group: frontier.ChecksGroup, Key: url.String()}
		}
		l.err = l.whileUnavailable(l.hard, func() (err error) {
			has, err = l.cfg.Quota.Reserve(l.hard, keys, l.policy.MaxExternal)
			return err
		})
		if l.err != nil {
			return
		}
	}
	for i, url := range urls {
		if !has[i] {
			l.refuse(frontier.ReasonExternal, 1)
			l.detail(url.String(), frontier.ReasonExternal, "--max-external")
			continue
		}
		l.offer(frontier.Offer{
			URL: frontier.CheckURL(url.String()), Host: checkHost(url),
			Depth: uint16(min(l.depth, follow.NoLimit)), Priority: frontier.PriorityPage, Referrer: frontier.ReferrerOf(l.from.Fingerprint),
		})
	}
}

// stepCheck checks the URL of the first pending item, or returns how long its domain must get no
// request.
func (h *holding) stepCheck(stop context.Context, item frontier.Item) (rest time.Duration, err error) {
	if rest, err := h.turn(maxPark)(false); err != nil || rest >= leastRest {
		return rest, err
	}
	raw, _ := frontier.Checked(item.URL)
	url, err := h.cfg.Canon.Parse(raw)
	if err != nil {
		return 0, h.conclude(1, frontier.CheckUnknown, "", err.Error())
	}
	k := check{holding: h, item: item, stop: stop, begun: time.Now()}
	outcome, err := k.run(url)
	if err != nil {
		return 0, err
	}
	r := h.newRecord(item, k.begun)
	r.Attempts, r.Status, r.ContentType, r.Error = 1, k.status, k.contentType, k.why
	r.DurationMS = milliseconds(time.Since(k.begun))
	if len(k.asked) > 1 {
		r.RedirectTo = k.asked[len(k.asked)-1]
	}
	h.pending = h.pending[1:]
	h.complete([]frontier.Completion{h.finished(item, outcome, r)}, false)
	return 0, nil
}

// check is a check that runs. Its fields after begun say how it ended.
type check struct {
	*holding
	item  frontier.Item
	stop  context.Context
	begun time.Time

	asked       []string // the URL, and the targets of redirects, as they were requested
	status      int      // of the last answer; 0 for none
	contentType string
	why         string // the error in the record
}

// run returns the outcome of a check of url. An error means that the check did not end, and that
// the item must be given back.
func (k *check) run(url canon.URL) (frontier.Outcome, error) {
	k.asked = []string{url.String()}
	for {
		spelling := k.asked[len(k.asked)-1]
		if outcome, err := k.forbidden(url, spelling); outcome != "" || err != nil {
			return outcome, err
		}
		answer, err := k.ask(url, spelling)
		if err != nil {
			return k.failed(err)
		}
		k.status, k.contentType = answer.Status, answer.ContentType
		wall := answer.Wall()
		if answer.RedirectTo == "" || wall.Reason != "" {
			outcome := answer.Check()
			if outcome != frontier.CheckOK {
				k.why = "status " + statusText(answer.Status)
			}
			if wall.Reason != "" {
				k.why += ", " + wall.String()
			}
			return outcome, nil
		}
		if url, err = k.follow(url, spelling, answer.RedirectTo); err != nil {
			k.why = err.Error()
			return frontier.CheckUnknown, nil
		}
	}
}

// follow appends the target of a redirect to k.asked, and returns its canonical URL.
func (k *check) follow(url canon.URL, spelling, ref string) (canon.URL, error) {
	next, err := canon.Spell(spelling, ref)
	if err != nil {
		return url, err
	}
	target, err := k.cfg.Canon.Join(url, next)
	switch {
	case err != nil:
		return url, err
	case slices.Contains(k.asked, next):
		return url, fmt.Errorf("redirects lead back to %s", next)
	case len(k.asked) > maxCheckHops:
		return url, fmt.Errorf("more than %d redirects", maxCheckHops)
	case asksToLogIn(next) && !asksToLogIn(k.asked[0]):
		return url, fmt.Errorf("a redirect to a page that asks to log in or to consent: %s", next)
	}
	k.asked = append(k.asked, next)
	return target, nil
}

// walls are words for pages to which a site redirects those who must log in, consent, or prove that
// they are persons.
var walls = []string{"login", "signin", "sso", "auth", "authorize", "oauth", "oauth2", "consent", "captcha", "challenge"}

// asksToLogIn reports whether a URL looks like that of such a page: a segment of its path, or the
// first label of its host, is one of these words.
func asksToLogIn(url string) bool {
	_, rest, _ := strings.Cut(url, "://")
	rest, _, _ = strings.Cut(rest, "?")
	label, _, _ := strings.Cut(rest, ".")
	_, path, _ := strings.Cut(rest, "/")
	for _, part := range append(strings.Split(path, "/"), label) {
		part, _, _ = strings.Cut(strings.ToLower(part), ".")
		if slices.Contains(walls, strings.NewReplacer("-", "", "_", "").Replace(part)) {
			return true
		}
	}
	return false
}

// ask requests a URL with HEAD, and then with GET if HEAD has another answer than 2xx and 3xx. A
// HEAD that fails on its connection says nothing about GET. The answer has no body.
func (k *check) ask(url canon.URL, spelling string) (*get.Response, error) {
	answer, err := k.request(url, get.Request{URL: spelling, Head: true, HeaderOnly: true})
	switch fault := get.Classify(err); {
	case err == nil && (answer.Status >= 200 && answer.Status <= 399 || answer.RetryAfter > 0): // before that time, a GET would be too early
		k.answered(url, answer)
		return answer, nil
	case err != nil && (!fault.Retry || fault.Local || fault.Host || get.IsTimeout(err) || get.CheckError(err) == frontier.CheckBroken),
		errors.Is(err, errStop), errors.Is(err, errBusy):
		return nil, err
	}
	if answer, err = k.request(url, get.Request{URL: spelling, HeaderOnly: true}); err == nil {
		k.answered(url, answer)
	}
	return answer, err
}

// answered updates the state of the domain of the lease, if a URL of this domain has answered.
func (k *check) answered(url canon.URL, answer *get.Response) {
	if k.keysOf(url)[0] == k.lease.Host {
		k.noteAnswer(answer, nil)
	}
}

// failed returns the outcome after a request without an answer.
func (k *check) failed(err error) (frontier.Outcome, error) {
	fault := get.Classify(err)
	switch {
	case errors.Is(err, errStop), fault.Aborted:
		return "", errStop
	case fault.Local:
		k.awaitMachine(err)
		return "", errStop
	}
	k.cfg.Logger.Debug("no answer", slog.String("url", k.asked[len(k.asked)-1]), slog.Any("err", err))
	k.status, k.why = 0, err.Error()
	return get.CheckError(err), nil
}

// request makes one request when its turn comes. If a kept connection was closed meanwhile, it
// makes a second one.
func (k *check) request(url canon.URL, request get.Request) (*get.Response, error) {
	answer, err := k.requestOnce(url, request)
	if errors.Is(err, get.ErrStale) {
		answer, err = k.requestOnce(url, request)
	}
	if err == nil {
		k.noteMachine(nil)
	}
	return answer, err
}

func (k *check) requestOnce(url canon.URL, request get.Request) (*get.Response, error) {
	stage.Fetch.Begin()
	defer stage.None.Begin()
	keys := k.keysOf(url)
	next := k.turnOf(keys)
	for wait, err := next(false); wait > 0 || err != nil; wait, err = next(false) {
		if err != nil {
			return nil, err
		}
		if k.park(k.stopping, wait); k.stopping.Err() != nil {
			return nil, errStop
		}
	}
	end, err := k.beginAgain(next)
	if err != nil {
		return nil, err
	}
	defer end()
	request.AnyType, request.Header, request.Permit = true, k.present().host.Header, k.permitOf(&k.item)
	request.Sent = func() {
		at := time.Now()
		for _, key := range keys {
			if reserved := k.roster.reserve(key, k.delayOf(key)); reserved.After(at) {
				at = reserved
			}
		}
		pause(k.stopping, time.Until(at))
	}
	return k.cfg.Client.Get(k.hard, request)
}

// keysOf returns the host keys whose delays a request must keep: that of the checks of its domain,
// and that of its host.
func (k *check) keysOf(url canon.URL) []string {
	return []string{checkHost(url), k.cfg.Canon.HostKey(url)}
}

// turnOf returns the turn of a request that must keep the delays of several host keys.
func (k *check) turnOf(keys []string) turn {
	own := k.turn(forever)
	return func(start bool) (time.Duration, error) {
		if _, err := own(false); err != nil {
			return 0, err
		}
		for _, take := range []bool{false, true} {
			longest := time.Duration(0)
			for _, key := range keys {
				if !take || start {
					longest = max(longest, k.roster.start(key, k.delayOf(key), take))
				}
			}
			if longest > maxPark {
				return 0, errBusy
			}
			if longest > 0 {
				return longest, nil
			}
		}
		return 0, nil
	}
}

// forbidden returns the outcome of the check if it ends before the request for a URL, because of
// its robots.txt. Otherwise the outcome is empty.
func (k *check) forbidden(url canon.URL, spelling string) (frontier.Outcome, error) {
	if k.present().host.IgnoreRobots {
		return "", nil
	}
	for asked := false; ; asked = true {
		access, rule := k.access(url.Origin(), canon.SpelledPath(spelling))
		switch {
		case access == robots.Allow:
			return "", nil
		case access == robots.Disallow:
			k.status, k.why = 0, "robots.txt: "+rule
			return frontier.CheckUnknown, nil
		case access == robots.Wait || asked:
			k.mu.Lock()
			state := k.origin(url.Origin())
			k.status, k.why = 0, robotsFault(max(state.Failures(), 1), state.Cause())
			k.mu.Unlock()
			return frontier.CheckUnknown, nil
		}
		if err := k.askRobots(url); err != nil {
			outcome, err := k.failed(err)
			if outcome == frontier.CheckUnknown {
				k.why = "robots.txt: " + k.why
			}
			return outcome, err
		}
	}
}

// askRobots requests the robots.txt of an origin. A request without an answer changes nothing.
func (k *check) askRobots(url canon.URL) error {
	origin := url.Origin()
	target, err := k.cfg.Canon.Parse(origin + "/robots.txt")
	if err != nil {
		return err
	}
	share, _ := k.memory.Take(k.hard, 0) // an empty share never waits
	defer share.Release()
	for hop := 0; ; hop++ {
		answer, err := k.requestRobots(target, share)
		if err != nil {
			return err
		}
		next, follow := k.robotsTarget(target, answer, hop)
		if !follow {
			_, err := k.takeRobots(origin, answer, share)
			return err
		}
		answer.Release()
		share.TryGrow(-share.Size())
		target = next
	}
}

func (k *check) requestRobots(url canon.URL, share *budget.Share) (*get.Response, error) {
	k.tally.robots.Add(1)
	grow := k.newGrowth(share)
	answer, err := k.request(url, get.Request{URL: url.String(), MaxBody: robots.MaxBytes + 1, Grow: grow.grow})
	return answer, grow.explain(err)
}
