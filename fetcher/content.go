package fetcher

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/extract"
)

// showing adds what the page showed to a completion that finishes it, and notes it for the host. The argument document is nil for a
// page that is not HTML.
func (v *visited) showing(done frontier.Completion, document *extract.Page, r *record.Record) frontier.Completion {
	if done.Disposition != frontier.Finish || frontier.IsCheck(v.item.URL) || r.Truncated || len(r.Cut) > 0 && slices.Contains(r.Cut, "body") {
		return done
	}
	var sum [sha256.Size]byte
	text := strings.TrimPrefix(r.TextDigest, "sha256:")
	if text == "" && r.Bytes > 0 {
		text = strings.TrimPrefix(r.Digest, "sha256:")
	}
	if n, err := hex.Decode(sum[:], []byte(text)); err != nil || n == 0 {
		return done
	}
	own := frontier.ReferrerOf(v.item.Fingerprint)
	done.Showed.Content = frontier.Content(sum[:16])
	done.Showed.First = func(first frontier.Referrer) {
		if first != own {
			r.DuplicateOf = hex.EncodeToString(first[:])
		}
	}
	if v.rules.policy.SkipDuplicates && document != nil && r.TextDigest != "" {
		done.Showed.WithLinks = withLinks(sum[:], document.Links)
	}
	if r.TextDigest != "" && v.item.Round == 0 {
		v.noteSame(done.Showed.Content)
	}
	return done
}

// withLinks returns the content of a page together with the set of its links.
func withLinks(text []byte, links []extract.Link) frontier.Content {
	urls := make([]string, len(links))
	for i := range links {
		urls[i] = links[i].URL.String()
	}
	slices.Sort(urls)
	sum := sha256.New()
	_, _ = sum.Write(text)
	for _, url := range urls {
		_, _ = sum.Write([]byte(url))
		_, _ = sum.Write([]byte{'\n'})
	}
	return frontier.Content(sum.Sum(nil)[:16])
}

// A host answers every URL with the same text if it has shown at least leastSame pages with a text, and at most one in
// otherTexts of them has another text.
const (
	leastSame  = 20
	otherTexts = 10
)

// sameText counts the pages of a host that show the text that most of them show. It finds this text with one candidate, which pages
// with another text vote down (Boyer and Moore, MJRTY, 1991), so that pages before the candidate may be missing in the count.
type sameText struct {
	text  [8]byte
	votes uint64
	same  uint64 // pages with the text, since it is the candidate
	pages uint64 // with a text
}

func (s *sameText) note(text []byte) {
	s.pages++
	switch {
	case string(text) == string(s.text[:]):
		s.votes++
		s.same++
	case s.votes == 0:
		s.text, s.votes, s.same = [8]byte(text), 1, 1
	default:
		s.votes--
	}
}

// count returns the number of pages with the same text, or 0 if the host has others, too.
func (s *sameText) count() uint64 {
	if s.pages < leastSame || s.same+s.pages/otherTexts < s.pages {
		return 0
	}
	return s.same
}

func (s *sameText) appendBinary(b []byte) []byte {
	b = append(b, s.text[:]...)
	for _, n := range []uint64{s.votes, s.same, s.pages} {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// readSame is the inverse of appendBinary. A part that is damaged counts nothing.
func readSame(b []byte) (s sameText) {
	if len(b) < len(s.text) {
		return s
	}
	copy(s.text[:], b)
	b = b[len(s.text):]
	for _, n := range []*uint64{&s.votes, &s.same, &s.pages} {
		size := 0
		if *n, size = binary.Uvarint(b); size <= 0 {
			return sameText{}
		}
		b = b[size:]
	}
	return s
}

// noteSame notes what a page of the host shows. It counts the pages of a host that answers every URL with the same text.
func (v *visited) noteSame(content frontier.Content) {
	v.mu.Lock()
	before := v.same.count()
	v.same.note(content[:len(v.same.text)])
	now := v.same.count()
	v.mu.Unlock()
	if now > before {
		v.tally.count(v.tally.hosts.SameText, v.item.Host, now-before)
	}
}
