package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/bloomfrontier/crawler/internal/human"
)

// RelayStatus says how many events of the crawl a relay still has to deliver to another program.
// The relay can run in this process, in another one, or not at all.
type RelayStatus struct {
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

	// The fields below are set if the relay reads the record files of one worker of a crawl in Redis.

	Journal   string `json:"journal,omitempty"`   // id of the worker's directory
	Host      string `json:"host,omitempty"`      // name of the machine with the directory
	Dir       string `json:"dir,omitempty"`       // absolute path of the directory
	Written   string `json:"written,omitempty"`   // cursor after the last record that was written
	Delivered string `json:"delivered,omitempty"` // cursor after the last event that was delivered
	// Left reports that no process delivers the events, although some of them are not delivered, or
	// perhaps not: the process that delivered them ended, or was killed.
	Left bool `json:"left,omitempty"`
	// Own reports that the worker should have delivered the events itself (--events).
	Own bool `json:"own,omitempty"`
	// AtLeast reports that the figures are those of the last report of a process that was
	// killed. There can be more events, which were written after the report.
	AtLeast bool `json:"at_least,omitempty"`
	GivenUp bool `json:"given_up,omitempty"` // a person has accepted the loss of these events
	// Send is the command that sends the events, without the address of the sink.
	Send string `json:"send,omitempty"`
}

// Missing reports whether events that a worker should have delivered are not delivered, and no
// process delivers them.
func (r *RelayStatus) Missing() bool { return r.Left && r.Own && !r.GivenUp }

// Words describes how far r is behind: "12 events behind (3.4 KiB, 2s)".
func (r *RelayStatus) Words() string {
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
	if r.Left && r.AtLeast {
		words = "at least " + human.Plural(r.Events, "event") + " behind"
	}
	if r.Dead > 0 {
		words += ", " + human.Plural(r.Dead, "dead letter")
	}
	if r.Away != "" {
		words += "; the sink is away: " + human.Printable(r.Away)
	}
	switch {
	case r.GivenUp:
		words += "; their loss was accepted"
	case r.Left && r.Dir == "":
		words += "; this process does not deliver them any more"
	case r.Left:
		words += fmt.Sprintf("; no process delivers them: they are in %s on %s", human.Printable(r.Dir), human.Printable(r.Host))
	}
	return words
}

// Title returns the name of r, with the worker whose records it reads.
func (r *RelayStatus) Title() string {
	if r.Worker == "" {
		return r.Name
	}
	return r.Name + " of " + r.Worker
}

// writeRelays prints a line for each relay.
func writeRelays(b *strings.Builder, relays []RelayStatus) {
	for i := range relays {
		fact(b, "relay", human.Printable(relays[i].Title())+": "+relays[i].Words())
		if relays[i].Send != "" { // in one line, so that it can be copied
			fmt.Fprintf(b, "to send them: %s\n", human.Printable(relays[i].Send))
		}
	}
}
