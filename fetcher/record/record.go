// Package record writes what became of each URL: one JSON object a line in
// pages.jsonl, in files that a crash leaves no half line in.
//
// It owns the schema (docs/records.md), the files and their rotation, and says
// where the output ends (frontier.Position), so that a store can commit that
// end together with the completions; whatever lies beyond it after a crash is
// cut off. It does not know stores or pages.
package record

import (
	"encoding/json"
	"time"
)

// Record is one line of the output. docs/records.md describes the fields.
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
}

// AppendLine appends the record as one line.
func (r *Record) AppendLine(b []byte) ([]byte, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return b, err
	}
	return append(append(b, line...), '\n'), nil
}

// Sink takes records. A Sink is not safe for concurrent use: the store calls it
// from one goroutine.
type Sink interface {
	Append(r *Record) error
}
