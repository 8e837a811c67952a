package events

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/revisit"
)

// The types of events.
const (
	PageDone   = "page.done"   // the URL is done (docs/reference/url-states.md)
	PageFailed = "page.failed" // the URL has failed, and can be retried
	// PageDropped: a later policy refused the URL while it waited. Such events are delivered only if they are asked for:
	// see Config.Keep.
	PageDropped = "page.dropped"
	// PageWithdrawn: crawler block selects the URL of an earlier event: see Event.Withdrawn.
	PageWithdrawn = "page.withdrawn"
)

// Event is a record in the form that other programs receive: a CloudEvent of version 1.0.
// Its JSON form is the structured mode of the CloudEvents JSON format, which
// docs/reference/events.md describes.
type Event struct {
	ID      string          // FINGERPRINT-ROUND; every repeat has the same ID
	Source  string          // identifies the crawl; see the function Source
	Type    string          // one of the types above
	Subject string          // canonical URL
	Time    time.Time       // when the record's last request started, UTC
	Host    string          // host key (attribute partitionkey); the events of a host are sent in order
	Data    json.RawMessage // the record, as it was written

	// Cursor is the position after this event in the outbox that returned the event. It
	// is not part of the event's JSON.
	Cursor Cursor
}

// Unchanged reports whether the page was visited again and has not changed.
func (e *Event) Unchanged() bool {
	if !bytes.Contains(e.Data, []byte(`"change":"unchanged"`)) { // saves work: the text can also be in a field of the page
		return false
	}
	var r struct{ Change revisit.Change }
	return json.Unmarshal(e.Data, &r) == nil && r.Change == revisit.Unchanged
}

// Withdrawn returns the event which says that e is withdrawn, of the type PageWithdrawn. Its Subject is the id of e, which is
// also in its Data, as "event". Its own id differs, because an id names one event. It has nothing of the page but its host.
func (e *Event) Withdrawn() Event {
	w := Event{ID: e.ID + "-withdrawn", Source: e.Source, Type: PageWithdrawn, Subject: e.ID, Time: time.Now().UTC(), Host: e.Host}
	w.Data, _ = json.Marshal(map[string]string{"event": e.ID, "host": e.Host}) // texts have a JSON form
	return w
}

// Source returns the source of the events of a crawl. The argument crawl is the id that the
// crawl got when it was created.
func Source(crawl string) string { return "urn:crawler:" + crawl }

// ID returns the id of the event for an item in a round. The round is 0 at first. It is larger
// after the item was finished and queued again.
func ID(item bloomstore.Fingerprint, round uint32) string {
	return record.EventID(item, int(round))
}

// ErrNoFingerprint reports a record without a fingerprint. An early version of the crawler
// wrote such records. Without a fingerprint there is no event, because the fingerprint is a
// part of the event's id.
var ErrNoFingerprint = errors.New("events: the record has no fingerprint: it was written before records had one, and cannot be sent")

// FromRecord returns the event of a record. For the line in the place of an erased record (see record.Erase) this is an
// event of the type PageWithdrawn, whose id is that of the record's own event. The argument line is the JSON of the record,
// with or without the line feed. FromRecord keeps no reference to line. It returns
// ErrNoFingerprint, or another error if line is not a record.
func FromRecord(source string, line []byte) (Event, error) {
	var r struct {
		URL         string           `json:"url"`
		Host        string           `json:"host"`
		Outcome     frontier.Outcome `json:"outcome"`
		Round       uint32           `json:"round"`
		FetchedAt   time.Time        `json:"fetched_at"`
		Fingerprint string           `json:"fingerprint"`
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return Event{}, fmt.Errorf("events: not a record: %w", err)
	}
	e := Event{
		Source: source, Subject: r.URL, Time: r.FetchedAt.UTC(), Host: r.Host,
		Data: bytes.Clone(bytes.TrimSuffix(line, []byte("\n"))),
	}
	_, erased := record.Since(line)
	switch state := r.Outcome.State(); {
	case erased:
		e.Type = PageWithdrawn
	case r.Outcome == frontier.Dropped:
		e.Type = PageDropped
	case state == frontier.Done:
		e.Type = PageDone
	case state == frontier.Failed:
		e.Type = PageFailed
	default:
		return Event{}, fmt.Errorf("events: not a record: its outcome is %q", r.Outcome)
	}
	if r.Fingerprint == "" {
		return Event{}, ErrNoFingerprint
	}
	item, err := hex.DecodeString(r.Fingerprint)
	if err != nil || len(item) != len(bloomstore.Fingerprint{}) {
		return Event{}, fmt.Errorf("events: not a record: its fingerprint is %q, want 32 hex digits", r.Fingerprint)
	}
	e.ID = ID(bloomstore.Fingerprint(item), r.Round)
	return e, nil
}

// specVersion is the version of CloudEvents of every Event.
const specVersion = "1.0"

// cloudEvent is the JSON form of an Event.
type cloudEvent struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject"`
	Time            time.Time       `json:"time"`
	PartitionKey    string          `json:"partitionkey"`
	DataContentType string          `json:"datacontenttype"`
	Data            json.RawMessage `json:"data,omitempty"` // last, because AppendJSON appends it
}

// AppendJSON appends the JSON form of the event, without a line feed. It copies Data
// unchanged. It returns an error if Data is empty.
func (e *Event) AppendJSON(b []byte) ([]byte, error) {
	if len(e.Data) == 0 {
		return b, fmt.Errorf("events: event %s has no data", e.ID)
	}
	head, err := json.Marshal(cloudEvent{
		SpecVersion: specVersion, ID: e.ID, Source: e.Source, Type: e.Type, Subject: e.Subject,
		Time: e.Time, PartitionKey: e.Host, DataContentType: "application/json",
	})
	if err != nil {
		return b, fmt.Errorf("events: event %s: %w", e.ID, err)
	}
	b = append(append(b, head[:len(head)-len("}")]...), `,"data":`...)
	return append(append(b, e.Data...), '}'), nil
}

// SetHeaders sets the attributes of the event as headers, for a request whose body is Data: the binary content mode of
// the HTTP binding of CloudEvents 1.0.2 (3.1). Values are percent-encoded as it says (3.1.3.2).
func (e *Event) SetHeaders(h http.Header) {
	for name, value := range map[string]string{
		"specversion": specVersion, "id": e.ID, "source": e.Source, "type": e.Type, "subject": e.Subject,
		"time": e.Time.Format(time.RFC3339Nano), "partitionkey": e.Host,
	} {
		if value != "" {
			h.Set("Ce-"+name, headerValue(value))
		}
	}
}

// headerValue returns an attribute's value as a header's value.
func headerValue(value string) string {
	var b []byte
	for i := range len(value) {
		if c := value[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '%' {
			b = fmt.Appendf(b, "%%%02X", c)
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

// MarshalJSON implements json.Marshaler. It returns the same text as AppendJSON.
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// UnmarshalJSON implements json.Unmarshaler. It refuses other versions of CloudEvents, and
// does not change Cursor.
func (e *Event) UnmarshalJSON(text []byte) error {
	var c cloudEvent
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	if c.SpecVersion != specVersion {
		return fmt.Errorf("events: specversion is %q, want %q", c.SpecVersion, specVersion)
	}
	e.ID, e.Source, e.Type, e.Subject, e.Time, e.Host, e.Data = c.ID, c.Source, c.Type, c.Subject, c.Time, c.PartitionKey, c.Data
	return nil
}
