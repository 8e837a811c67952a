package fetcher

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/bloomfrontier/crawler/fetcher/internal/preference"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/internal/extract"
)

// wishes are what is known before its request about the use of a page. They are those of the robots.txt
// that allowed the page, even if another one arrives before its answer.
type wishes struct {
	robots []preference.Statement // of robots.txt
	file   *preference.Rule       // of tdmrep.json; nil means none
}

// noteLines sets h.wishes.robots to what the robots.txt of a URL says about its use. Only the method run
// may call it.
func (h *holding) noteLines(url canon.URL) {
	h.wishes.robots = nil
	if !h.cfg.Policy().ReadsPreferences() {
		return
	}
	h.mu.Lock()
	rules := h.origin(url.Origin()).Rules()
	h.mu.Unlock()
	h.wishes.robots = h.lines.Read(rules.UseLines(url.Path()))
}

// concludeUse finishes the first pending item without a request if its owner refuses a use of the crawl.
// It reports whether it did.
func (h *holding) concludeUse() bool {
	p := h.cfg.Policy()
	if len(p.ContentUse) == 0 {
		return false
	}
	about := preference.Page{Robots: h.wishes.robots, File: h.wishes.file}
	all, sum := about.Read()
	why := refusedUse(p, all, sum)
	if why == "" {
		return false
	}
	item := h.pending[0]
	r := h.newRecord(item, time.Now())
	r.Error, r.Preferences = why, preferencesOf(p, all, sum)
	h.pending = h.pending[1:]
	h.complete([]frontier.Completion{h.finished(item, frontier.RefusedUse, r)}, false)
	return true
}

// refusedUse returns why the owner refuses a use of the crawl, or "".
func refusedUse(p *policy.Policy, all []preference.Statement, sum preference.Answers) (why string) {
	for _, label := range p.ContentUse {
		use, is := preference.ParseUse(label)
		if !is || sum[use] != preference.Refused {
			continue
		}
		at := slices.IndexFunc(all, func(s preference.Statement) bool { return s.Answers[use] == preference.Refused })
		return fmt.Sprintf("its owner refuses %s: %s: %s", label, all[at].Source, tidy(all[at].Value, maxCauseValue))
	}
	return ""
}

// readPreferences sets the preferences in the record of an answer. The argument metas has what the page
// says; it is nil before the page was read. The result is why the answer must not be kept, or "".
func (v *visited) readPreferences(metas []extract.Meta, r *record.Record) (why string) {
	p := v.rules.policy
	if !p.ReadsPreferences() {
		return ""
	}
	about := preference.Page{Robots: v.wishes.robots, File: v.wishes.file, Header: v.answer.Header, Metas: metas, Token: v.rules.token}
	all, sum := about.Read()
	r.Preferences = preferencesOf(p, all, sum)
	return refusedUse(p, all, sum)
}

// refuseUse returns the completion of a page that must not be kept: neither its content nor its links.
func (v *visited) refuseUse(why string, r *record.Record) frontier.Completion {
	v.isPage, v.unwanted = false, true
	r.Error, r.Bytes, r.Digest, r.Truncated, r.Cut = why, 0, "", false, nil
	return v.finish(frontier.RefusedUse, r)
}

// Limits of the preferences in a record.
const (
	maxSources     = 32
	maxSourceValue = 1 << 10 // bytes
	maxCauseValue  = 200     // bytes of a value in the error of a record
)

// preferencesOf returns statements for a record. It returns nil if there are none, or if the policy asks
// for none. Beyond maxSources, statements are left out, but count.
func preferencesOf(p *policy.Policy, all []preference.Statement, sum preference.Answers) *record.Preferences {
	if len(all) == 0 || p.Preferences == policy.NoPreferences {
		return nil
	}
	prefs := &record.Preferences{
		TrainAI: sum[preference.TrainAI].String(), AIUse: sum[preference.AIUse].String(), Search: sum[preference.Search].String(),
		Drafts: preference.Drafts, Sources: make([]record.Preference, 0, min(len(all), maxSources)),
	}
	for _, s := range all[:min(len(all), maxSources)] {
		prefs.Sources = append(prefs.Sources, record.Preference{Source: s.Source, Value: tidy(s.Value, maxSourceValue)})
	}
	return prefs
}

// tidy returns a text of others as valid UTF-8 without control characters, cut to this many bytes.
func tidy(text string, most int) string {
	if len(text) > most {
		text = text[:most]
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
}
