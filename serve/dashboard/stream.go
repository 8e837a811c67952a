package dashboard

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	updateEvery = time.Second
	heartbeat   = 15 * time.Second
	writeTime   = 30 * time.Second
)

// wantsStream reports whether a request is for the stream of a page.
func wantsStream(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// stream sends the live parts of a page, each time they have changed, as server-sent events:
//
//	id: hash of all live parts
//	event: part
//	data: {"id":"now","html":"..."}
//
// A client that was cut off sends the last id as Last-Event-ID. If nothing has changed since then, nothing is sent.
func (d *Dashboard) stream(w http.ResponseWriter, v *view, build func(*view) (*page, error)) {
	select {
	case d.streams <- struct{}{}:
		defer func() { <-d.streams }()
	default:
		http.Error(w, "too many pages are open", http.StatusTooManyRequests)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	s := streamer{had: v.r.Header.Get("Last-Event-ID"), sent: make(map[string]string)}
	ticker := time.NewTicker(updateEvery)
	defer ticker.Stop()
	for wrote := time.Now(); ; {
		if _, _, known := d.caller(v.r); !known {
			s.event("", "end", "the login has ended")
		} else if p, err := build(v); err != nil {
			s.event("", "fault", sentence(err.Error()))
		} else {
			s.update(p)
		}
		if s.out.Len() == 0 && time.Since(wrote) > heartbeat {
			s.out.WriteString(":\n\n")
		}
		if s.out.Len() > 0 {
			_ = control.SetWriteDeadline(time.Now().Add(writeTime)) // a handler without a connection has none
			if _, err := w.Write(s.out.Bytes()); err != nil || control.Flush() != nil || s.ended {
				return
			}
			wrote = time.Now()
			s.out.Reset()
		}
		select {
		case <-ticker.C:
		case <-v.r.Context().Done():
			return
		case <-d.ending:
			return
		}
	}
}

// streamer makes the events of one stream.
type streamer struct {
	out   bytes.Buffer
	had   string            // Last-Event-ID of the client; empty after the first update
	sent  map[string]string // hashes of the parts that the client has
	ended bool
}

// update adds events for the parts that have changed.
func (s *streamer) update(p *page) {
	var all strings.Builder
	changed := make(map[string]string)
	for i := range p.parts {
		part := &p.parts[i]
		if !part.live {
			continue
		}
		var html bytes.Buffer
		if part.body != nil {
			_ = part.body.Render(&html) // a buffer takes all
		}
		hash := hashOf(html.String())
		all.WriteString(hash)
		if s.sent[part.id] != hash {
			changed[part.id] = html.String()
		}
		s.sent[part.id] = hash
	}
	id := hashOf(all.String())
	had := s.had
	if s.had = ""; had == id {
		return
	}
	for part, html := range changed {
		data, _ := json.Marshal(map[string]string{"id": part, "html": html}) // texts always can
		s.event(id, "part", string(data))
	}
}

func (s *streamer) event(id, name, data string) {
	if id != "" {
		fmt.Fprintf(&s.out, "id: %s\n", id)
	}
	fmt.Fprintf(&s.out, "event: %s\ndata: %s\n\n", name, data)
	s.ended = s.ended || name == "end"
}

func hashOf(text string) string {
	hash := sha256.Sum256([]byte(text))
	return hex.EncodeToString(hash[:8])
}
