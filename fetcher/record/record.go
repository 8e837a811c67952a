// Package record writes the result of each URL as one line of JSON to pages.jsonl. After
// a crash and a restart, the files of a crawl contain only whole lines.
//
// It owns the schema (docs/reference/records.md), the files and their rotation. Files is
// the output of a crawl in one process. Files.Sync returns the position at which the
// files end. A store commits this position in the same step as the results of the URLs. After
// a crash, Open cuts off the bytes after the committed position. A Journal is the output of
// one of many workers, and Export merges all their journals. The package calls no store
// and reads no HTML.
package record

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// Record is one line of the output. docs/reference/records.md describes the fields.
type Record struct {
	URL          string    `json:"url"`
	Host         string    `json:"host"` // host key
	Outcome      string    `json:"outcome"`
	Status       int       `json:"status,omitempty"`
	Depth        int       `json:"depth"`
	Class        string    `json:"class,omitempty"`       // frontier.Class; empty means bulk
	ReferrerID   string    `json:"referrer_id,omitempty"` // 16 hex digits
	Submission   string    `json:"submission,omitempty"`  // frontier.Offer.Submission
	ID           string    `json:"id"`                    // 16 hex digits; it is the referrer_id of pages found on this page
	Attempts     int       `json:"attempts"`              // requests for the URL in this round
	Round        int       `json:"round"`                 // 0 at first; see frontier.Item
	FetchedAt    time.Time `json:"fetched_at"`            // UTC; start of the last request, or time of the decision if there was no request
	DurationMS   float64   `json:"duration_ms"`
	ContentType  string    `json:"content_type,omitempty"`
	Charset      string    `json:"charset,omitempty"`
	Bytes        int64     `json:"bytes"` // of the body, decompressed
	Truncated    bool      `json:"truncated,omitempty"`
	Digest       string    `json:"digest,omitempty"`       // sha256:HEX of the part of the body that was kept
	TextDigest   string    `json:"text_digest,omitempty"`  // sha256:HEX of the text that an HTML page shows; see extract.Page.TextDigest
	DuplicateOf  string    `json:"duplicate_of,omitempty"` // ID of the first page of the crawl with the same text; see frontier.Showed
	Title        string    `json:"title,omitempty"`
	Canonical    string    `json:"canonical,omitempty"`           // rel=canonical
	MayNeedJS    bool      `json:"may_need_javascript,omitempty"` // see extract.Page.MayNeedJS
	LinksFound   uint64    `json:"links_found"`
	LinksAdded   uint64    `json:"links_added"`
	RedirectTo   string    `json:"redirect_to,omitempty"`
	Spelling     string    `json:"spelling,omitempty"` // of URL in the last request, if it differs from URL
	ETag         string    `json:"etag,omitempty"`
	LastModified string    `json:"last_modified,omitempty"`
	Change       string    `json:"change,omitempty"`  // revisit.Change, in a crawl that visits pages again
	MaxAge       int64     `json:"max_age,omitempty"` // seconds for which the answer stays fresh, as its site says, likewise
	Error        string    `json:"error,omitempty"`
	Check        string    `json:"check,omitempty"`       // of a link that leads out: ok, broken or unknown; empty for other records
	WARC         string    `json:"warc,omitempty"`        // file with the answer, in the crawl's directory
	WARCOffset   int64     `json:"warc_offset,omitempty"` // where the answer's WARC record begins in that file

	// Preferences is what the owner says about the use of the page; nil if no source says anything.
	Preferences *Preferences `json:"preferences,omitempty"`

	// Data of the page, if Config.Fields or Config.Text of the worker asks for them.
	// Fields must be the last field with a JSON key. Its value can contain keys of any
	// name, so code that searches a line for a key uses the first one of that name. The
	// keys "fingerprint" and "lease" follow Fields, so their last occurrence is used.
	Lang       string   `json:"lang,omitempty"`       // language of the main text, according to the page
	Author     string   `json:"author,omitempty"`     // according to the page
	Published  string   `json:"published,omitempty"`  // 2006-01-02, or RFC 3339 in UTC
	Incomplete []string `json:"incomplete,omitempty"` // required fields that the page does not have
	// NotTaken is why there are neither fields nor text although they were asked for: too_deep,
	// too_large, too_heavy or too_slow. With too_slow, there may be some of them. It is empty if
	// they were taken.
	NotTaken string          `json:"not_taken,omitempty"`
	Cut      []string        `json:"cut,omitempty"`    // fields, or "text", whose end was cut off
	Text     string          `json:"text,omitempty"`   // the main text, paragraphs on lines of their own
	Fields   json.RawMessage `json:"fields,omitempty"` // an object of texts, numbers and lists of these

	// Item identifies the URL in its crawl. Its key in the line is "fingerprint". It is
	// zero if an early version wrote the line.
	Item bloomstore.Fingerprint `json:"-"`
	// Lease is the lease under which the item was fetched. Only a Journal writes it. A
	// Reader does not set it.
	Lease frontier.LeaseID `json:"-"`
}

// Preferences are the preferences of an owner about the use of a page. Each is allowed, refused or
// unknown.
type Preferences struct {
	TrainAI string       `json:"train_ai"`
	AIUse   string       `json:"ai_use"`
	Search  string       `json:"search"`
	Drafts  []string     `json:"drafts"` // versions of the documents by which the sources were read
	Sources []Preference `json:"sources"`
}

// Preference is what one source says.
type Preference struct {
	Source string `json:"source"` // docs/reference/records.md lists them
	Value  string `json:"value"`  // as it was sent, without control characters, at most 1 KiB
}

// EventID returns the id of the event for an item and a round: the fingerprint in 32 hex
// digits, a dash and the round. All records of the same item and round have the same
// event id, whichever worker wrote them.
func EventID(item bloomstore.Fingerprint, round int) string {
	b := append(hex.AppendEncode(nil, item[:]), '-')
	return string(strconv.AppendInt(b, int64(round), 10))
}

// AppendLine appends the record to b as one line. The fingerprint is the last key of the
// line. It is left out if Item is zero.
func (r *Record) AppendLine(b []byte) ([]byte, error) {
	b, err := appendOpen(b, r)
	switch {
	case err != nil:
		return b, err
	case r.Item == bloomstore.Fingerprint{}:
		return append(b, "}\n"...), nil
	}
	return append(r.appendItem(b), "\"}\n"...), nil
}

// appendOpen appends value, an object, as JSON without the closing brace.
func appendOpen(b []byte, value any) ([]byte, error) {
	line, err := json.Marshal(value)
	if err != nil {
		return b, err
	}
	return append(b, line[:len(line)-len("}")]...), nil
}

// appendLeased appends the record as one line that also contains its item and lease.
func (r *Record) appendLeased(b []byte) ([]byte, error) {
	b, err := appendOpen(b, r)
	if err != nil {
		return b, err
	}
	return r.appendLease(b), nil
}

const (
	itemKey  = `,"fingerprint":"`
	leaseKey = `","lease":"`
)

// appendItem appends the fingerprint, without the quote at its end.
func (r *Record) appendItem(b []byte) []byte {
	return hex.AppendEncode(append(b, itemKey...), r.Item[:])
}

// ItemOf returns the fingerprint of a record's line, or zero if the line has none.
func ItemOf(line []byte) bloomstore.Fingerprint { return parseItem(line) }

// parseItem returns the fingerprint of a line, or zero if the line has none. It looks only
// at the last key, or at the key before the lease, because a field of the page may also be
// called fingerprint.
func parseItem(line []byte) (item bloomstore.Fingerprint) {
	digits := hex.EncodedLen(len(item))
	rest, ok := bytes.CutSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte(`"}`))
	if lease := len(rest) - hex.EncodedLen(len(frontier.LeaseID{})) - len(leaseKey); lease > 0 && bytes.HasPrefix(rest[lease:], []byte(leaseKey)) {
		rest = rest[:lease]
	}
	at := len(rest) - digits
	if !ok || at < 0 || !bytes.HasSuffix(rest[:at], []byte(itemKey)) {
		return item
	}
	if _, err := hex.Decode(item[:], rest[at:]); err != nil {
		return bloomstore.Fingerprint{}
	}
	return item
}

// voidPrefix begins a void line.
const voidPrefix = `{"void":true,`

// appendVoid appends the void line that cancels the record.
func (r *Record) appendVoid(b []byte) []byte {
	b = append(b, voidPrefix+`"round":`...)
	return r.appendLease(strconv.AppendInt(b, int64(r.Round), 10))
}

// appendLease appends the fingerprint and the lease, and ends the object and its
// line.
func (r *Record) appendLease(b []byte) []byte {
	b = hex.AppendEncode(append(r.appendItem(b), leaseKey...), r.Lease[:])
	return append(b, "\"}\n"...)
}

// Sink receives records. A Sink does not need to be safe for concurrent use, because the
// store calls it from one goroutine.
type Sink interface {
	Append(r *Record) error
}

// Voider is a Sink that can cancel a record. A worker that shares its store with others
// needs a Voider.
type Voider interface {
	Sink
	// Void declares that r, which was appended before, never took effect.
	Void(r *Record) error
}
