package record

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/revisit"
)

// Visit returns what the record says about its page. A redirect is a page whose text is its target. A page whose content
// was not taken, such as one of an unwanted type, is a page with the text of the outcome.
func (r *Record) Visit() revisit.Visit {
	v := revisit.Visit{At: r.FetchedAt, ETag: r.ETag, LastModified: r.LastModified, MaxAge: time.Duration(r.MaxAge) * time.Second}
	switch outcome := frontier.Outcome(r.Outcome); {
	case outcome == frontier.NotModified:
		v.Answer = revisit.NotModified
	case r.Status == http.StatusNotFound || r.Status == http.StatusGone:
		v.Answer = revisit.NotFound
	case outcome == frontier.OK:
		v.Answer = revisit.Content
		v.Body = digest(r.Digest)
		if v.Text = digest(r.TextDigest); v.Text == (revisit.Digest{}) {
			v.Text = v.Body
		}
	case outcome == frontier.Redirect, outcome == frontier.Type, outcome == frontier.Coding, outcome == frontier.RefusedUse && r.Status > 0:
		v.Answer = revisit.Content
		v.Body = sha256.Sum256([]byte(r.Outcome + " " + r.RedirectTo))
		v.Text = v.Body
	}
	return v
}

// digest parses the text of a digest. It returns zeros for any other text.
func digest(text string) (d revisit.Digest) {
	if b, err := hex.DecodeString(strings.TrimPrefix(text, "sha256:")); err == nil && len(b) == len(d) {
		copy(d[:], b)
	}
	return d
}
