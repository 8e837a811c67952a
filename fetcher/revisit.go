package fetcher

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/fetcher/warc"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/revisit"
)

// remember looks up the earlier visits of the page, and decides whether the next request is conditional. A second attempt is not: so a
// server that answers 304 without reason cannot hide a page.
func (v *visited) remember() {
	v.row, v.conditional = nil, nil
	if v.cfg.Visits == nil || frontier.IsCheck(v.item.URL) {
		return
	}
	known := v.knownOf(v.item.Fingerprint)
	if known == nil {
		return
	}
	v.row = known
	if known.Unconditional || v.item.Attempts > 0 || v.insisted {
		return
	}
	v.conditional = conditions(&known.Row)
}

// header returns the header of the policy with the conditions of the request.
func (v *visited) header() map[string][]string {
	all := v.rules.host.Header
	if len(v.conditional) == 0 {
		return all
	}
	header := make(map[string][]string, len(all)+len(v.conditional))
	maps.Copy(header, all)
	maps.Copy(header, v.conditional)
	return header
}

// conditions returns the headers of a conditional request (RFC 9110, section 13.1) with the validators of a row, or nil if it has none.
// A server that packs a page while it sends it may add to its ETag what it does not know any more when it is asked (Apache's
// -gzip), so both forms are sent.
func conditions(row *revisit.Row) http.Header {
	header := http.Header{}
	if tag := row.ETag; isFieldValue(tag) {
		if plain := withoutCoding(tag); plain != tag {
			tag += ", " + plain
		}
		header.Set("If-None-Match", tag)
	}
	if _, err := http.ParseTime(row.LastModified); err == nil && isFieldValue(row.LastModified) {
		header.Set("If-Modified-Since", row.LastModified)
	}
	if len(header) == 0 {
		return nil
	}
	return header
}

// isFieldValue reports whether a text, which a server sent, can be sent back in a header.
func isFieldValue(text string) bool {
	const most = 1 << 10
	for _, c := range []byte(text) {
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	return text != "" && len(text) <= most
}

// withoutCoding removes from an ETag what servers add to it for a content coding: "x-gzip", "x;gzip", "x--gzip", "x-br" and so on.
func withoutCoding(tag string) string {
	bare, quoted := strings.CutSuffix(tag, `"`)
	if !quoted {
		return tag
	}
	for _, coding := range []string{"gzip", "br", "deflate", "zstd", "df"} {
		for _, mark := range []string{"--", "-", ";", "+", ":"} {
			if plain, has := strings.CutSuffix(bare, mark+coding); has && strings.Trim(plain, `W/"`) != "" {
				return plain + `"`
			}
		}
	}
	return tag
}

// sameTag compares two ETags weakly (RFC 9110, section 8.8.3.2), without what servers add for a content coding.
func sameTag(a, b string) bool {
	opaque := func(tag string) string { return strings.TrimPrefix(withoutCoding(tag), "W/") }
	return opaque(a) == opaque(b)
}

// notModified returns whether the answer says that the page is as it was at the last visit. A 304 is believed only if the request was
// conditional, and if its ETag, if any, is one that was sent (RFC 9111, section 4.3.4).
func (v *visited) notModified() bool {
	if v.answer.Status != http.StatusNotModified || len(v.conditional) == 0 {
		return false
	}
	tag := v.answer.Header.Get("Etag")
	return tag == "" || v.row.Row.ETag == "" || sameTag(tag, v.row.Row.ETag)
}

// archived returns the answer of an earlier visit that has the content of this one, if the archive needs no other: after a 304, or if
// the body came as it is, without a content coding, and is the same. The earlier visit was kept as this one is: otherwise
// the request would not have been conditional.
func (v *visited) archived() (earlier warc.Earlier, has bool) {
	if v.row == nil || v.row.Unconditional || v.row.Archived.IsZero() {
		return earlier, false
	}
	earlier = warc.Earlier{URL: v.spelling(), At: v.row.Archived}
	if v.notModified() {
		return earlier, true
	}
	a := v.answer
	same := v.record != nil && v.record.Bytes > 0 && v.record.Visit().Body == v.row.Row.Body
	return earlier, same && a.Status == http.StatusOK && !a.Truncated && a.Cut == nil && a.Damage == nil && a.Header.Get("Content-Encoding") == "" &&
		v.cfg.Archive.Wants(a)
}

// sayChange sets the fields of a record that say what the visit found, in a crawl that visits pages again.
func (v *visited) sayChange(r *record.Record) {
	if v.cfg.Visits == nil || !v.cfg.Visits.Active() || r.Check != "" {
		return
	}
	if v.answer != nil {
		r.MaxAge = int64(maxAge(v.answer.Header) / time.Second)
	}
	row := revisit.Row{}
	if v.row != nil {
		row = v.row.Row
	}
	r.Change = string(row.Says(r.Visit()))
}

// mostAge bounds Record.MaxAge.
const mostAge = 10 * 365 * 24 * time.Hour

// maxAge returns for how long an answer stays fresh from now on, as its site says (RFC 9111, section 4.2), or 0.
func maxAge(header http.Header) time.Duration {
	fresh, given := time.Duration(0), false
	for directive := range strings.SplitSeq(strings.Join(header.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "no-cache", "no-store":
			return 0
		case "max-age":
			if n, err := strconv.ParseInt(strings.Trim(strings.TrimSpace(value), `"`), 10, 64); err == nil && n >= 0 && !given {
				fresh, given = time.Duration(min(n, int64(mostAge/time.Second)))*time.Second, true
			}
		}
	}
	if !given {
		expires, err := http.ParseTime(header.Get("Expires"))
		date, errDate := http.ParseTime(header.Get("Date"))
		if err != nil || errDate != nil {
			return 0
		}
		fresh = expires.Sub(date)
	}
	if age, err := strconv.ParseInt(strings.TrimSpace(header.Get("Age")), 10, 64); err == nil && age > 0 {
		fresh -= time.Duration(min(age, int64(mostAge/time.Second))) * time.Second
	}
	return max(0, min(fresh, mostAge))
}

// recall looks up the earlier visits of items that the lease got since the last call, and ends those whose round was visited
// already. It waits while the rows are unavailable, and returns an error if stop ends before.
func (h *holding) recall(stop context.Context) error {
	if len(h.unread) == 0 || h.cfg.Visits == nil {
		return nil
	}
	items := make([]bloomstore.Fingerprint, 0, len(h.unread))
	for i := range h.unread {
		if !frontier.IsCheck(h.unread[i].URL) {
			items = append(items, h.unread[i].Fingerprint)
		}
	}
	var known map[bloomstore.Fingerprint]Known
	if h.cfg.Visits.Active() && len(items) > 0 {
		err := h.whileUnavailable(stop, func() (err error) {
			known, err = h.cfg.Visits.Known(stop, items)
			return err
		})
		if err != nil {
			return err
		}
	}
	var stale []frontier.Completion
	h.pending = slices.DeleteFunc(slices.Clone(h.pending), func(item frontier.Item) bool {
		k, has := known[item.Fingerprint]
		if !has || item.Round >= k.Next {
			return false
		}
		stale = append(stale, frontier.Completion{Item: item.Fingerprint, Outcome: frontier.Stale})
		return true
	})
	h.mu.Lock()
	for item, k := range known {
		if !k.Row.Visited.IsZero() {
			h.recalled[item] = &k
		}
	}
	h.mu.Unlock()
	h.unread = nil
	if len(stale) > 0 {
		h.complete(stale, false)
	}
	return nil
}

// knownOf returns what recall found of an item, or nil.
func (h *holding) knownOf(item bloomstore.Fingerprint) *Known {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.recalled[item]
}

// noteKnown notes in completions whose pages are known, and forgets what recall found of them.
func (h *holding) noteKnown(done []frontier.Completion) {
	if h.cfg.Visits == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range done {
		_, done[i].Known = h.recalled[done[i].Item]
		delete(h.recalled, done[i].Item)
	}
}

// holdFirsts puts off the first visits among the pending items, if the first item is one of them, the crawl visits pages again, and it
// has all pages that it may have.
func (h *holding) holdFirsts(stop context.Context) (held bool, err error) {
	p := h.cfg.Policy()
	if !p.Recrawl.On() || p.MaxPages == 0 || h.pending[0].Round > 0 || frontier.IsCheck(h.pending[0].URL) {
		return false, nil
	}
	if full, err := h.limitReached(stop, 0); err != nil || !full {
		return false, err
	}
	h.hold(func(item frontier.Item) bool { return item.Round == 0 })
	return true, nil
}
