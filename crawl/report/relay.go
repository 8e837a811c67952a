package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/bloomfrontier/crawler/internal/human"
)

// Relay says how many events of the crawl a relay still has to deliver to another program.
// The relay can run in this process, in another one, or not at all.
type Relay struct {
	Name    string  `json:"name"`
	Worker  string  `json:"worker,omitempty"` // directory of the worker whose records it reads; empty means all
	Events  uint64  `json:"events"`           // number of events that are committed and not delivered
	Bytes   uint64  `json:"bytes"`            // size of their records
	More    bool    `json:"more,omitempty"`   // there are more events, which were not counted yet
	Seconds float64 `json:"seconds"`          // age of the oldest event that is not delivered
	// Dead counts dead letters: events that the sink refused for ever. Discarded dead
	// letters do not count.
	Dead uint64 `json:"dead"`
	// Away says why the relay's sink, outbox or progress is unavailable. It is empty if
	// all of them answer. Only a worker that runs the relay itself sets Away.
	Away  string `json:"away,omitempty"`
	Fault string `json:"fault,omitempty"` // why the relay has failed, or why the other fields are not known
}

// Words describes how far r is behind: "12 events behind (3.4 KiB, 2s)".
func (r *Relay) Words() string {
	if r.Fault != "" {
		return human.Printable(r.Fault)
	}
	words := "all delivered"
	if r.Events > 0 {
		words = fmt.Sprintf("%s behind (%s, %s)", human.Plural(r.Events, "event"), humanize.IBytes(r.Bytes),
			human.Span(time.Duration(r.Seconds*float64(time.Second))))
		if r.More {
			words = "more than " + words
		}
	}
	if r.Dead > 0 {
		words += ", " + human.Plural(r.Dead, "dead letter")
	}
	if r.Away != "" {
		words += "; the sink is away: " + human.Printable(r.Away)
	}
	return words
}

// Title returns the name of r, with the worker whose records it reads.
func (r *Relay) Title() string {
	if r.Worker == "" {
		return r.Name
	}
	return r.Name + " of " + r.Worker
}

// writeRelays prints a line for each relay.
func writeRelays(b *strings.Builder, relays []Relay) {
	for i := range relays {
		fact(b, "relay", human.Printable(relays[i].Title())+": "+relays[i].Words())
	}
}
