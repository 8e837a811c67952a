package fetcher

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/internal/preference"
	"github.com/bloomfrontier/crawler/fetcher/internal/series"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/fetcher/warc"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/budget"
	"github.com/bloomfrontier/crawler/internal/extract"
	"github.com/bloomfrontier/crawler/internal/robots"
	"github.com/bloomfrontier/crawler/internal/stage"
)

// visit requests one item, with the private headers or without, and completes it. The argument
// wishes is what is known about its use. The
// time between the previous request to the host and this one is at least the argument delay.
// When the request has started, or has failed before its start, visit closes the channel in
// the argument began.
// It calls requestDone when the request is over.
func (h *holding) visit(item frontier.Item, url canon.URL, private bool, wishes wishes, delay time.Duration, began chan struct{}, requestDone func()) {
	defer func() {
		h.mu.Lock()
		h.outstanding--
		h.mu.Unlock()
		h.room.leave()
	}()
	start := sync.OnceFunc(func() { close(began) })
	v := visited{holding: h, item: item, url: url, private: private, wishes: wishes, asked: []string{item.URL}}
	v.share, _ = h.memory.Take(h.hard, 0) // an empty share never waits
	defer func() { v.share.Release() }()
	err := v.request(delay, start)
	start()
	requestDone()
	done := v.completion(err)
	for v.next != "" {
		done = v.askAgain()
	}
	done = v.withEarlier(done)
	if v.atWall && v.keepWalled(done) {
		return
	}
	done = v.handOver(done)
	if done.Disposition == frontier.Finish {
		v.noteText(done.Outcome)
		h.tally.finished.Add(1)
		h.tally.countNotTaken(v.lack)
		if v.scriptSeed {
			h.tally.countScriptSeed(item.URL)
		}
		if done.Page {
			h.tally.pages.Add(1)
			h.tally.count(h.tally.hosts.Pages, item.Host, 1)
		}
	}
	weight := v.weight(&done)
	done.Bytes = weight
	v.answer = nil
	v.shrinkShare(weight)
	h.backlog.add(weight)
	defer h.backlog.add(-weight)
	h.mu.Lock()
	h.waits = h.waits || done.Disposition != frontier.Finish
	end := h.closing && h.outstanding == 1 && len(h.pending)+len(h.walled) == 0 && !v.silent
	h.mu.Unlock()
	h.complete([]frontier.Completion{done}, end)
	if v.silent {
		v.noteLinks()
	}
	v.reportRefused()
	if len(done.Links) > 0 {
		h.Wake()
	}
}

// request makes one request, for the last spelling in v.asked, and sets v.answer. The time between
// the previous request to the host and this one is at least the argument delay. When the request
// starts, request calls the function started.
func (v *visited) request(delay time.Duration, started func()) error {
	stage.Fetch.Begin()
	v.rules = v.present()
	v.remember()
	setStart := func(at time.Time) { // may run in another goroutine
		v.mu.Lock()
		defer v.mu.Unlock()
		v.at = at
	}
	setStart(time.Now())
	grow := v.newGrowth(v.share)
	v.tally.requests.Add(1)
	answer, err := v.cfg.Client.Get(v.hard, v.holding.request(v.item, get.Request{
		URL: v.spelling(), Header: v.header(), Private: v.private, Permit: v.permitOf(&v.item), Grow: grow.grow,
		Started: func() {
			setStart(v.start())
			started()
		},
		Sent: func() {
			reserved := v.reserve(delay)
			setStart(reserved)
			pause(v.stopping, time.Until(reserved)) // after a stop, permit refuses the request
		},
	}))
	err = grow.explain(err)
	v.answer = answer
	v.tally.meters.note(answer, err)
	if err == nil {
		v.noteWall(answer, true, v.item.Attempts > 0)
	}
	v.noteAnswer(answer, err)
	v.noteHost(err)
	return err
}

// start notes that a request to the host starts now.
func (h *holding) start() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	h.host.Start(now)
	return now
}

// completion returns the completion after the last request, whose error is err. If v.next is set,
// another request must follow instead.
func (v *visited) completion(err error) frontier.Completion {
	v.rules, v.isPage = v.present(), false
	if err != nil {
		return v.failed(err)
	}
	v.tally.answered.Store(true)
	v.tally.bytes.Add(uint64(v.answer.WireBytes))
	v.wireBytes += v.answer.WireBytes
	done := v.answered()
	if done.Disposition != frontier.GiveBack {
		done.BodyBytes = v.wireBytes
	}
	if !v.abandoned { // otherwise OnPage still uses the answer
		v.settleEffort()
		if done.Outcome == frontier.OK {
			v.readText()
		}
		v.answer.Release()
	}
	return done
}

// noteAnswer updates the state of the host with the result of a request.
func (h *holding) noteAnswer(answer *get.Response, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if err == nil && answer.Cut != nil {
		h.host.Cut(now, random)
		h.changed = true
		return
	}
	if err == nil {
		h.host.Answered(now, answer.Latency, answer.Status, answer.RetryAfter, random)
		h.changed = h.changed || h.host.BackoffUntil().After(now)
		return
	}
	switch fault := get.Classify(err); {
	case fault.Answered && fault.Retry:
		h.host.Cut(now, random)
	case fault.Answered:
		h.host.Heard()
	case fault.Aborted, fault.Stale, !fault.Retry, fault.Local:
	case fault.Host:
		h.host.Failed(now, random)
	default:
		h.host.Broken(now, random)
	}
	h.changed = true
}

// visited is a visit, with the answer to its last request.
type visited struct {
	*holding
	rules   *hostRules // for the present request, and then for its answer
	item    frontier.Item
	url     canon.URL
	private bool   // requests get the private headers
	wishes  wishes // about the use of the page, from before the request
	row     *Known // from earlier visits; nil means nothing

	conditional http.Header // the conditions of the present request; empty if it has none
	insisted    bool        // the page is requested again without conditions, after a 304 that was not believed
	at          time.Time   // when the last request started; guarded by holding.mu

	asked   []string       // the spellings of url that were requested; see respell
	next    string         // the spelling to request now; empty if the answer counts
	earlier []*warc.Packed // answers of earlier spellings, for the archive
	before  *linkSet       // links of pages that were followed by another spelling; nil means none

	answer    *get.Response  // nil means that there was no answer
	record    *record.Record // what finish was given last
	isPage    bool           // the answer is for OnPage, not for OnAnswer
	share     *budget.Share  // of the memory
	wireBytes int64          // of the bodies of all answers, as received
	packed    int64          // bytes of the answer for the archive
	data      int            // bytes of fields and text in the record
	lack      extract.Lack   // why no data could be taken
	effort    effort         // on the content of the page
	abandoned bool           // OnPage or OnAnswer was called and has not returned
	cookied   bool           // the URL was requested again because it set a cookie and redirected to itself
	atWall    bool           // the answer comes from a wall
	unwanted  bool           // the answer must not be kept, because its owner refuses a use
	refused   []Refused      // refused links, for Config.OnRefused
	series    string         // the pattern of the URL's series; empty means none
	text      *series.Text   // of the page, for its series; nil means not read
	silent    bool           // the page has no new text; see noteText
	added     []string       // the links that the store has added, if silent is set

	addedEarly bool          // see earlyLinks
	edges      []record.Edge // all links, for Config.Edges
	edgeBytes  int64
	edgesCut   bool // edges lacks links for which there was no memory

	// scriptSeed reports that the page is a seed, or the target of one, whose content scripts may build.
	scriptSeed bool
}

// newRecord returns the part of a record that every outcome has.
func (h *holding) newRecord(item frontier.Item, at time.Time) *record.Record {
	r := &record.Record{
		URL: item.URL, Host: item.Host, Depth: int(item.Depth), Attempts: int(item.Attempts),
		Round: int(item.Round), FetchedAt: at.UTC().Truncate(time.Millisecond),
		ID: hex.EncodeToString(item.Fingerprint[:8]), Item: item.Fingerprint, Lease: h.lease.ID,
		Submission: item.Submission,
	}
	if url, isCheck := frontier.Checked(item.URL); isCheck {
		r.URL = url
		r.Host, _ = frontier.Checked(item.Host)
		if parsed, err := h.cfg.Canon.Parse(url); err == nil {
			r.Host = h.cfg.Canon.HostKey(parsed)
		}
	}
	if item.Class > frontier.Listed {
		// This class belongs to a rule of Config.Exact, and has the name of the rule.
		r.Class = h.cfg.Exact.Name(item.Class)
	}
	if item.Class != frontier.Bulk && r.Class == "" {
		r.Class = item.Class.String()
	}
	if item.Referrer != (frontier.Referrer{}) {
		r.ReferrerID = hex.EncodeToString(item.Referrer[:])
	}
	return r
}

// finished returns the frontier.Completion that reports the outcome of an item to the store.
// Its function Record writes r to Config.Sink.
func (h *holding) finished(item frontier.Item, outcome frontier.Outcome, r *record.Record) frontier.Completion {
	r.Outcome = string(outcome)
	isCheck := frontier.IsCheck(item.URL)
	if isCheck {
		r.Check = outcome.CheckResult()
	}
	c := frontier.Completion{Item: item.Fingerprint, Outcome: outcome, Status: r.Status, Page: r.Status > 0 && !isCheck && outcome != frontier.Blocked}
	if h.cfg.Sink != nil {
		c.Record = func(links frontier.LinkCounts) error {
			stage.Record.Begin()
			defer stage.Store.Begin() // the store calls this function in its own goroutine
			r.LinksFound, r.LinksAdded = links.Found, links.Added
			h.tally.noteRecent(r)
			return h.cfg.Sink.Append(r)
		}
		if voider, ok := h.cfg.Sink.(record.Voider); ok {
			c.Void = func() error { return voider.Void(r) }
		}
	}
	return c
}

// conclusion returns the completion of an item that is finished without a request. If it has failed, the
// argument cause is its frontier.Completion.Cause.
func (h *holding) conclusion(item frontier.Item, outcome frontier.Outcome, cause, why string) frontier.Completion {
	r := h.newRecord(item, time.Now())
	r.Error = why
	if frontier.IsCheck(item.URL) {
		outcome = frontier.CheckUnknown
	}
	return h.because(h.finished(item, outcome, r), cause, r)
}

// earlyEnd begins the error of a record whose body ended early.
const earlyEnd = "the body ends early: "

// answered returns the completion of an item whose request had an answer. A body that ends
// early is requested once more. If it was not the first attempt, what arrived is kept.
func (v *visited) answered() frontier.Completion {
	answer := v.answer
	r := v.newVisitRecord()
	r.Attempts++
	r.Status = answer.Status
	r.DurationMS = milliseconds(answer.Duration)
	r.ContentType = answer.ContentType
	r.ETag, r.LastModified = answer.Header.Get("Etag"), answer.Header.Get("Last-Modified")
	outcome, retry := answer.Outcome()
	if wall := answer.Wall(); wall.Reason != "" {
		return v.walled(wall, r)
	}
	if v.notModified() {
		return v.finish(frontier.NotModified, r)
	}
	if len(v.conditional) > 0 && (answer.Status == http.StatusNotModified || answer.Status == http.StatusPreconditionFailed) {
		v.insisted, v.next = true, v.spelling()
		return v.respelled()
	}
	if retry {
		r.Error = "status " + statusText(answer.Status)
		v.tally.failed(v.item.Host, r.Error)
		return v.again(outcome, min(answer.RetryAfter, v.rules.host.Politeness.MaxRetryAfter), fmt.Sprintf("status_%d", answer.Status), r)
	}
	if answer.Damage != nil {
		r.Error = answer.Damage.Error()
	}
	if answer.Cut != nil {
		r.Error = earlyEnd + answer.Cut.Error()
		if v.item.Attempts == 0 && v.rules.policy.Retries > 0 {
			v.tally.failed(v.item.Host, earlyEnd+causeOf(answer.Cut))
			return v.again(frontier.Network, 0, causeCut, r)
		}
	}
	if outcome == frontier.OK {
		if why := v.readPreferences(nil, r); why != "" {
			return v.refuseUse(why, r)
		}
	}
	switch {
	case outcome == frontier.OK && !v.isFeed() && v.isSitemap():
		return v.sitemap(r)
	case outcome == frontier.OK:
		return v.page(r)
	case outcome == frontier.Redirect:
		return v.redirected(r)
	}
	return v.finish(outcome, r)
}

// page extracts the links and data of a page, calls OnPage and returns the completion.
func (v *visited) page(r *record.Record) frontier.Completion {
	answer := v.answer
	v.isPage = true
	v.describe(r)
	page := &Page{Item: v.item, URL: v.url, Response: answer, Record: r, visit: v}
	links := linkSet{holding: v.holding, policy: v.rules.policy, from: &v.item, depth: int(v.item.Depth) + 1}
	early := earlyLinks{visited: v, waits: true}
	outcome := frontier.OK
	nofollow := robots.HeaderNofollow(answer.Header.Values("X-Robots-Tag"), v.rules.token)
	options := extract.Options{
		Canon: v.cfg.Canon, Assets: v.rules.policy.Assets, Feeds: v.rules.policy.Feeds, ProductToken: v.rules.token,
		Hold: v.growShare, Room: v.growShare, GiveUp: v.giveUp, Resolving: stage.Canonicalise.Begin, LinkTexts: v.cfg.Edges != nil,
		OnRefused: links.refuseReference,
	}
	if v.rules.policy.ReadsPreferences() {
		options.WantMeta = func(name, content string) bool { return preference.Wants(name, content, v.rules.token) }
	}
	if v.cfg.OnPage == nil { // OnPage gets all links
		options.OnPiece = func(document *extract.Page) bool {
			if len(document.Metas) > 0 && v.readPreferences(document.Metas, r) != "" {
				return false // no link is added
			}
			return early.addPiece(&links, document, nofollow)
		}
	}
	switch {
	case v.isFeed():
		if !v.feed(&links, &early, options, nofollow, r) {
			if links.err != nil {
				return v.giveBackAfter(links.err)
			}
			return v.giveBack()
		}
	case answer.IsHTML():
		if !v.beginParsing() {
			return v.giveBack()
		}
		stage.Parse.Begin()
		document := extract.HTML(answer.Body, answer.MIMEType(), v.url, options)
		if len(document.Metas) > 0 {
			if why := v.readPreferences(document.Metas, r); why != "" {
				v.endParsing()
				return v.refuseUse(why, r)
			}
		}
		v.takeData(document, r)
		v.endParsing()
		if links.err != nil {
			return v.giveBackAfter(links.err)
		}
		if early.failed || v.hard.Err() != nil { // the abort may be the reason for what is missing
			return v.giveBack()
		}
		if v.lack == extract.TooSlow {
			outcome = frontier.Handler // so that Retry queues the page again
		}
		stage.Judge.Begin()
		page.document = document
		if document.TextDigest != nil && !answer.Truncated && answer.Cut == nil && answer.Damage == nil {
			r.TextDigest = "sha256:" + hex.EncodeToString(document.TextDigest)
		}
		r.Title, r.Charset, r.Canonical = document.Title, document.Charset, document.Canonical.String()
		links.refuse(frontier.ReasonTooMany, document.TooMany)
		r.MayNeedJS = document.MayNeedJS && answer.Status == http.StatusOK && !answer.Truncated && answer.Cut == nil
		v.scriptSeed = r.MayNeedJS && v.item.Depth == 0
		v.addEdges(document, nofollow)
		links.addDocument(document, nofollow)
	}
	named := v.addHeaders(&links, page.document, r)
	if v.edgesCut {
		r.Cut = append(r.Cut, "links")
	}
	if early.counts == (frontier.LinkCounts{}) && v.refreshes(&links, page.document, named) {
		return v.respelled()
	}
	if v.cfg.OnPage != nil {
		page.links = &links
		stage.Handle.Begin()
		err := v.callHandler(func() error { return v.cfg.OnPage(v.hard, page) })
		switch {
		case err != nil && v.hard.Err() != nil: // its context ended
			return v.giveBack()
		case err != nil:
			r.Error = err.Error()
			return v.again(frontier.Handler, 0, causeHandler, r)
		}
	}
	if links.err != nil {
		return v.giveBackAfter(links.err)
	}
	done := v.showing(v.finishedWith(&links, outcome, r), page.document, r)
	return early.countIn(v.because(done, causeHandler, r))
}

// describe fills in the fields of the record that describe the body of the answer.
func (v *visited) describe(r *record.Record) {
	stage.Record.Begin()
	r.Bytes, r.Truncated = int64(len(v.answer.Body)), v.answer.Truncated
	if v.answer.Cut != nil || v.answer.Damage != nil {
		r.Cut = append(r.Cut, "body")
	}
	digest := sha256.Sum256(v.answer.Body)
	r.Digest = "sha256:" + hex.EncodeToString(digest[:])
}

// giveBackAfter gives back a page after an error of the store or of the archive. The page
// must not count as done without its links and its answer.
func (v *visited) giveBackAfter(err error) frontier.Completion {
	_ = v.storeFailed(err) // the visit ends here anyway
	return v.giveBack()
}

func (v *visited) giveBack() frontier.Completion {
	return frontier.Completion{Item: v.item.Fingerprint, Disposition: frontier.GiveBack}
}

// redirected offers the target of a redirect. If a seed redirects, its target is a seed too. If the
// target is another spelling of the item's URL, redirected sets v.next.
func (v *visited) redirected(r *record.Record) frontier.Completion {
	answer := v.answer
	links := linkSet{holding: v.holding, policy: v.rules.policy, from: &v.item, depth: int(v.item.Depth), hops: int(v.item.Hops) + 1}
	if answer.RedirectTo != "" {
		target, err := v.cfg.Canon.Join(v.url, answer.RedirectTo)
		if err == nil && target == v.url && answer.SetsCookie && !v.cookied {
			v.cookied, v.next = true, v.spelling() // now with the cookie
			return v.respelled()
		}
		if err == nil && target == v.url {
			why := v.respell(v.spelling(), answer.RedirectTo)
			if why == nil {
				return v.respelled()
			}
			if errors.Is(why, errStop) {
				return v.giveBack()
			}
			r.Error = why.Error()
			if _, refused := errors.AsType[*useError](why); refused {
				r.RedirectTo = target.String()
				return v.finish(frontier.RefusedUse, r)
			}
			if _, forbidden := errors.AsType[*robotsError](why); forbidden {
				r.RedirectTo = target.String()
				return v.finish(frontier.Robots, r)
			}
		}
		if err != nil {
			links.refuseReference(answer.RedirectTo, err)
		} else {
			r.RedirectTo = target.String()
			links.addRedirect(v.url, target)
		}
	}
	if links.err != nil {
		return v.giveBackAfter(links.err)
	}
	return v.finishedWith(&links, frontier.Redirect, r)
}

// finishedWith returns the completion that finishes the item and offers its links.
func (v *visited) finishedWith(links *linkSet, outcome frontier.Outcome, r *record.Record) frontier.Completion {
	return v.withLinks(v.finish(outcome, r), links)
}

// withLinks adds the links to a completion that finishes the item.
func (v *visited) withLinks(done frontier.Completion, links *linkSet) frontier.Completion {
	if done.Disposition != frontier.Finish {
		return done
	}
	if links.addChecks(); links.err != nil {
		return v.giveBackAfter(links.err)
	}
	done.Links, done.Refused = links.offers, links.refusals()
	v.refused, done.LinkAnswered = links.details, v.answeredByStore(links.offers)
	return done
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// reasonOf returns the reason of a refusal for an error of package canon.
func reasonOf(err error) frontier.Reason {
	switch {
	case errors.Is(err, canon.ErrScheme):
		return frontier.ReasonScheme
	case errors.Is(err, canon.ErrTooLong):
		return frontier.ReasonTooLong
	}
	return frontier.ReasonMalformed
}
