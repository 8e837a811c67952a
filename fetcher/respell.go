package fetcher

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/internal/preference"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/fetcher/warc"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/robots"
)

// Some sites redirect a URL to another spelling with the same canonical form: the server adds a
// session id, a tracking parameter or an empty query. The store knows only the canonical form,
// and it is this item. So the same visit requests the other spelling, as a request of its own:
//
//	answered ─ a redirect, or a page with a refresh, to another spelling ─► respell
//	respell  ─ a spelling that this visit has not asked for ─► askAgain ─► answered
//	respell  ─ asked before, too many, refused by robots.txt ─► the answer counts as it is
//
// There is one record, with the last answer. If the last request fails and is tried again later,
// that attempt begins with the canonical URL.

// maxRespellings is how many further spellings of one URL a visit requests.
const maxRespellings = 5

var (
	errSpellingAsked = errors.New("this spelling of the URL was requested before")
	errSpellings     = fmt.Errorf("more than %d other spellings of the URL", maxRespellings)
)

// spelling returns the spelling of the last request.
func (v *visited) spelling() string { return v.asked[len(v.asked)-1] }

// respell makes the visit request the spelling of its URL to which ref leads. ref is relative to
// base, a spelling. After an error, which says why not, the visit continues with the answer it has.
// If the error is a *robotsError, robots.txt forbids the spelling, and if it is a *useError, the owner refuses its use. If it is errStop, the robots.txt
// must be requested again first.
func (v *visited) respell(base, ref string) error {
	next, err := canon.Spell(base, ref)
	switch {
	case err != nil:
		return err
	case slices.Contains(v.asked, next):
		return errSpellingAsked
	case len(v.asked) > maxRespellings:
		return errSpellings
	}
	if !v.rules.host.IgnoreRobots {
		switch access, rule := v.access(v.url.Origin(), canon.SpelledPath(next)); access {
		case robots.Allow:
			if err := v.wishAgain(canon.SpelledPath(next)); err != nil {
				return err
			}
		case robots.Disallow:
			return &robotsError{rule}
		default:
			return errStop
		}
	}
	v.next = next
	return nil
}

// robotsError reports that a robots.txt forbids a URL.
type robotsError struct{ rule string }

func (e *robotsError) Error() string { return "robots.txt: " + e.rule }

// useError reports that the owner of a URL refuses a use of the crawl.
type useError struct{ why string }

func (e *useError) Error() string { return e.why }

// wishAgain sets v.wishes.robots to what robots.txt says about the use of a path. Its error is a *useError.
func (v *visited) wishAgain(path string) error {
	if !v.rules.policy.ReadsPreferences() {
		return nil
	}
	v.mu.Lock()
	rules := v.origin(v.url.Origin()).Rules()
	v.mu.Unlock()
	about := preference.Page{Robots: new(preference.Lines).Read(rules.UseLines(path)), File: v.wishes.file}
	all, sum := about.Read()
	if why := refusedUse(v.rules.policy, all, sum); why != "" {
		return &useError{why}
	}
	v.wishes.robots = about.Robots
	return nil
}

// askAgain requests the spelling in v.next and returns the completion. If no request may start
// any more, the item is given back, because this visit has no answer that counts.
func (v *visited) askAgain() frontier.Completion {
	spelling := v.next
	v.next = ""
	end, err := v.beginAgain(v.turn(forever))
	if err != nil {
		return v.giveBack()
	}
	v.asked = append(v.asked, spelling)
	v.share.Release()
	v.share, _ = v.memory.Take(v.hard, 0) // an empty share never waits
	delay := v.delay()
	err = v.request(delay, func() {})
	end()
	return v.completion(err)
}

// beginAgain waits until a request that continues earlier ones may be made. It waits for the
// host's delay while it has no slot and no share of the rate.
func (h *holding) beginAgain(next turn) (end func(), err error) {
	if !h.asks.enter(h.stopping) {
		return nil, errStop
	}
	for {
		wait, err := next(false)
		if err != nil {
			h.asks.leave()
			return nil, err
		}
		if wait == 0 {
			return h.beginRequest(h.stopping, next)
		}
		pause(h.stopping, wait)
		if h.stopping.Err() != nil {
			h.asks.leave()
			return nil, errStop
		}
	}
}

// keepAnswer keeps the present answer for the archive, because another spelling follows.
func (v *visited) keepAnswer() error {
	packed, err := v.pack()
	if packed != nil {
		v.earlier = append(v.earlier, packed)
		v.packed += int64(packed.Len())
	}
	return err
}

// pack packs the present answer for the archive. It returns nil if the archive does not want it.
func (v *visited) pack() (*warc.Packed, error) {
	if v.unwanted || v.cfg.Archive == nil || v.answer == nil || v.answer.Wire == nil {
		return nil, nil
	}
	earlier, revisited := v.archived()
	if !revisited && !v.cfg.Archive.Wants(v.answer) {
		return nil, nil
	}
	wire := *v.answer.Wire
	wire.Started = v.startedAt() // as fetched_at of the record, to which a later revisit refers
	pack := func() (*warc.Packed, error) { return warc.Pack(v.spelling(), &wire) }
	if revisited {
		pack = func() (*warc.Packed, error) { return warc.PackRevisit(v.spelling(), &wire, earlier) }
	}
	packed, err := pack()
	if err != nil {
		return nil, fmt.Errorf("pack the answer of %s: %w", v.spelling(), err)
	}
	return packed, nil
}

// respelled prepares the visit for another request after respell was successful.
func (v *visited) respelled() frontier.Completion {
	if err := v.keepAnswer(); err != nil {
		v.next = ""
		return v.giveBackAfter(err)
	}
	return frontier.Completion{}
}

// withEarlier adds the links of pages that were followed by another spelling.
func (v *visited) withEarlier(done frontier.Completion) frontier.Completion {
	if v.before == nil || done.Disposition != frontier.Finish {
		return done
	}
	v.before.addChecks()
	if v.before.err != nil {
		return v.giveBackAfter(v.before.err)
	}
	done.Links = append(done.Links, v.before.offers...)
	done.Refused = append(done.Refused, v.before.refusals()...)
	v.refused, done.LinkAnswered = append(v.refused, v.before.details...), v.answeredByStore(done.Links)
	return done
}

// newVisitRecord returns the record of the visit, without what its answer says.
func (v *visited) newVisitRecord() *record.Record {
	r := v.newRecord(v.item, v.startedAt())
	if v.spelling() != v.item.URL {
		r.Spelling = v.spelling()
	}
	return r
}

// startedAt returns when the last request started.
func (v *visited) startedAt() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.at
}
