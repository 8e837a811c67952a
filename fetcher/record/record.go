// Package record writes what became of each URL: one JSON object a line in
// pages.jsonl, in files that a crash leaves no half line in.
//
// It owns the schema (docs/reference/records.md), the files and their rotation. Files are
// the output of a crawl in one process: they say where they end
// (frontier.Position), so that a store can commit that end together with the
// completions; whatever lies beyond it after a crash is cut off. A Journal is
// the output of one of many workers, and Export makes one output of all their
// journals. The package does not know stores or pages.
package record

import (
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
	ReferrerID   string    `json:"referrer_id,omitempty"` // 16 hex digits
	ID           string    `json:"id"`                    // the record's own: what others name as referrer_id
	Attempts     int       `json:"attempts"`              // requests made for it in this round
	Round        int       `json:"round"`
	FetchedAt    time.Time `json:"fetched_at"` // start of the last request, UTC; of the decision if there was none
	DurationMS   float64   `json:"duration_ms"`
	ContentType  string    `json:"content_type,omitempty"`
	Charset      string    `json:"charset,omitempty"`
	Bytes        int64     `json:"bytes"` // of the body, decompressed
	Truncated    bool      `json:"truncated,omitempty"`
	Digest       string    `json:"digest,omitempty"` // sha256:HEX of the body as far as it was kept
	Title        string    `json:"title,omitempty"`
	Canonical    string    `json:"canonical,omitempty"` // rel=canonical
	LinksFound   uint64    `json:"links_found"`
	LinksAdded   uint64    `json:"links_added"`
	RedirectTo   string    `json:"redirect_to,omitempty"`
	ETag         string    `json:"etag,omitempty"`
	LastModified string    `json:"last_modified,omitempty"`
	Error        string    `json:"error,omitempty"`
	WARC         string    `json:"warc,omitempty"`        // file with the answer, in the crawl's directory
	WARCOffset   int64     `json:"warc_offset,omitempty"` // where its record begins there

	// What was asked for of the page. It stands behind all other keys of a record:
	// its own keys are anybody's, and may be called as they are.
	Lang       string          `json:"lang,omitempty"`       // of the main text, as the page says
	Author     string          `json:"author,omitempty"`     // as the page says
	Published  string          `json:"published,omitempty"`  // 2006-01-02, or RFC 3339 in UTC
	Incomplete []string        `json:"incomplete,omitempty"` // required fields that the page does not have
	Cut        []string        `json:"cut,omitempty"`        // fields, or "text", of which the end is missing
	Text       string          `json:"text,omitempty"`       // the main text, paragraphs on lines of their own
	Fields     json.RawMessage `json:"fields,omitempty"`     // an object of texts, numbers and lists of these

	// What a Journal writes as well: whose record it is, to whom the item was
	// handed out.
	Item  bloomstore.Fingerprint `json:"-"`
	Lease frontier.LeaseID       `json:"-"`
}

// AppendLine appends the record as one line.
func (r *Record) AppendLine(b []byte) ([]byte, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return b, err
	}
	return append(append(b, line...), '\n'), nil
}

// appendLeased appends the record as one line that also says under which lease
// it was written.
func (r *Record) appendLeased(b []byte) ([]byte, error) {
	b, err := r.AppendLine(b)
	if err != nil {
		return b, err
	}
	return r.appendLease(b[:len(b)-len("}\n")]), nil
}

// voidPrefix begins a void line.
const voidPrefix = `{"void":true,`

// appendVoid appends the line that takes the record back.
func (r *Record) appendVoid(b []byte) []byte {
	b = append(b, voidPrefix+`"round":`...)
	return r.appendLease(strconv.AppendInt(b, int64(r.Round), 10))
}

// appendLease ends an object and its line.
func (r *Record) appendLease(b []byte) []byte {
	b = hex.AppendEncode(append(b, `,"fingerprint":"`...), r.Item[:])
	b = hex.AppendEncode(append(b, `","lease":"`...), r.Lease[:])
	return append(b, "\"}\n"...)
}

// Sink takes records. A Sink is not safe for concurrent use unless it says so:
// the store calls it from one goroutine.
type Sink interface {
	Append(r *Record) error
}

// Voider is a Sink that a store may have to take a record back from: the one of
// a worker that shares the store with others.
type Voider interface {
	Sink
	// Void says that r, which was appended before, never took effect.
	Void(r *Record) error
}
