// Package eventstest has the tests that every implementation of events.Outbox,
// events.Progress and events.Sink must pass. For other tests it has an Outbox and a
// Progress in memory.
//
// The package depends on no backend. A test passes a function that opens the
// implementation.
package eventstest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
)

// Record returns record n, from 0, of a made-up crawl. The argument hosts is the number of
// hosts of the crawl. The outcome is "ok", or "network" for every seventh record.
func Record(n, hosts int) *record.Record {
	host := fmt.Sprintf("h%d.example.org", n%hosts)
	r := &record.Record{
		URL: fmt.Sprintf("http://%s/page?n=%d&x=<ü>", host, n), Host: host, Outcome: string(frontier.OK), Attempts: 1,
		FetchedAt: time.UnixMilli(1_800_000_000_000 + int64(n)*10).UTC(), Title: strings.Repeat("Title ", n%9),
		Item: bloomstore.Fingerprint{0: byte(n >> 16), 1: byte(n >> 8), 2: byte(n), 15: 0xff},
	}
	r.ID = fmt.Sprintf("%x", r.Item[:8])
	if n%7 == 6 {
		r.Outcome = string(frontier.Network)
	}
	return r
}

// Event returns the event of the record that Record returns.
func Event(n, hosts int) events.Event {
	r := Record(n, hosts)
	line, err := r.AppendLine(nil)
	if err != nil {
		panic(err)
	}
	kind := events.PageDone
	if r.Outcome != string(frontier.OK) {
		kind = events.PageFailed
	}
	return events.Event{
		ID: events.ID(r.Item, uint32(r.Round)), Source: events.Source("eventstest"), Type: kind, Subject: r.URL,
		Time: r.FetchedAt, Host: r.Host, Data: json.RawMessage(line[:len(line)-1]),
	}
}

// CheckOnce checks that got contains the events Event(n, hosts) for first <= n < end, each of
// them once, and no other events. The events of each host must be in order.
func CheckOnce(t *testing.T, got []events.Event, first, end, hosts int) {
	t.Helper()
	byHost, want := make(map[string][]string), make(map[string][]string)
	for _, e := range got {
		byHost[e.Host] = append(byHost[e.Host], e.ID)
	}
	for n := first; n < end; n++ {
		e := Event(n, hosts)
		want[e.Host] = append(want[e.Host], e.ID)
	}
	for host := range want {
		if !slices.Equal(byHost[host], want[host]) {
			t.Errorf("events of %s: got\n%v, want\n%v", host, byHost[host], want[host])
		}
		delete(byHost, host)
	}
	if len(byHost) > 0 {
		t.Errorf("got events of unexpected hosts: %v", byHost)
	}
}

// IDs returns the ids of events, in order.
func IDs(all []events.Event) []string {
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].ID
	}
	return ids
}

// Outbox is an events.Outbox in memory. The zero value is empty. An Outbox is safe for
// concurrent use.
type Outbox struct {
	mu  sync.Mutex
	all []events.Event
}

var _ events.Outbox = (*Outbox)(nil)

// Append commits events.
func (o *Outbox) Append(all ...events.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range all {
		e.Cursor = events.Cursor(strconv.Itoa(len(o.all) + 1))
		o.all = append(o.all, e)
	}
}

func (o *Outbox) behind(after events.Cursor) ([]events.Event, error) {
	n, err := strconv.Atoi("0" + string(after))
	if err != nil || n > len(o.all) {
		return nil, fmt.Errorf("eventstest: %q is no cursor of this outbox", after)
	}
	return o.all[n:], nil
}

// Read implements events.Outbox.
func (o *Outbox) Read(ctx context.Context, after events.Cursor, limit int) ([]events.Event, events.Cursor, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	rest, err := o.behind(after)
	rest = slices.Clone(rest[:min(limit, len(rest))])
	if len(rest) > 0 {
		after = rest[len(rest)-1].Cursor
	}
	if err == nil {
		err = ctx.Err()
	}
	return rest, after, err
}

// Find implements events.Outbox. It uses Event.Time as the time of the commit.
func (o *Outbox) Find(_ context.Context, t time.Time) (at events.Cursor, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.all {
		if !t.IsZero() && !e.Time.Before(t) {
			break
		}
		at = e.Cursor
	}
	return at, nil
}

// Lag implements events.Outbox.
func (o *Outbox) Lag(_ context.Context, after events.Cursor) (lag events.Lag, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	rest, err := o.behind(after)
	for i := range rest {
		lag.Events++
		lag.Bytes += uint64(len(rest[i].Data))
		if i == 0 {
			lag.Oldest = rest[i].Time
		}
	}
	return lag, err
}

// Progress is an events.Progress in memory. The zero value has no relays. A Progress is
// safe for concurrent use.
type Progress struct {
	// HoldTime is the result of Hold.Renew; 0 means an hour. A Hold ends only when it is
	// released, or when EndHold is called.
	HoldTime time.Duration

	mu    sync.Mutex
	saved map[string]events.Saved
	dead  map[string][]events.DeadLetter
	terms map[string]uint64 // the last term of each name
	held  map[string]bool   // whether a caller has the last term
}

var _ events.Progress = (*Progress)(nil)

// Acquire implements events.Progress.
func (p *Progress) Acquire(_ context.Context, name string) (events.Hold, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[name] {
		return nil, events.ErrLocked
	}
	if p.held == nil {
		p.held, p.terms = make(map[string]bool), make(map[string]uint64)
	}
	p.held[name] = true
	p.terms[name]++
	return &hold{p, name, p.terms[name]}, nil
}

// EndHold lets others acquire a name, although the caller that has it does not know.
func (p *Progress) EndHold(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.held, name)
}

// hold is an events.Hold of a Progress.
type hold struct {
	*Progress
	name string
	term uint64
}

// lock locks the Progress, and returns an error if the hold was superseded. The caller must
// unlock the Progress.
func (h *hold) lock() error {
	h.mu.Lock()
	if h.terms[h.name] != h.term {
		return events.ErrSuperseded
	}
	return nil
}

// Term implements events.Hold.
func (h *hold) Term() uint64 { return h.term }

// Renew implements events.Hold.
func (h *hold) Renew(context.Context) (time.Duration, error) {
	err := h.lock()
	defer h.mu.Unlock()
	return cmp.Or(h.HoldTime, time.Hour), err
}

// Release implements events.Hold.
func (h *hold) Release(context.Context) error {
	err := h.lock()
	defer h.mu.Unlock()
	if err == nil {
		delete(h.held, h.name)
	}
	return err
}

// Save implements events.Hold.
func (h *hold) Save(_ context.Context, cursor events.Cursor, letters []events.DeadLetter) error {
	err := h.lock()
	defer h.mu.Unlock()
	if err != nil {
		return err
	}
	if h.saved == nil {
		h.saved, h.dead = make(map[string]events.Saved), make(map[string][]events.DeadLetter)
	}
	h.saved[h.name] = events.Saved{Cursor: cursor, At: time.Now().UTC()}
	h.dead[h.name] = append(h.dead[h.name], letters...)
	return nil
}

// Names implements events.Progress.
func (p *Progress) Names(context.Context) (names []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.saved {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// Load implements events.Progress.
func (p *Progress) Load(_ context.Context, name string) (events.Saved, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	saved, known := p.saved[name]
	saved.Dead = uint64(len(p.dead[name]))
	for i := range p.dead[name] {
		if p.dead[name][i].Resend {
			saved.Resend++
		}
	}
	return saved, known, nil
}

// Dead implements events.Progress.
func (p *Progress) Dead(_ context.Context, name string) ([]events.DeadLetter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.dead[name]), nil
}

// Revise implements events.Progress.
func (p *Progress) Revise(_ context.Context, name string, letters []events.DeadLetter) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, old := range p.dead[name] {
		for _, l := range letters {
			if l.Event.ID == old.Event.ID {
				p.dead[name][i].Reason, p.dead[name][i].At, p.dead[name][i].Resend = l.Reason, l.At, l.Resend
			}
		}
	}
	return nil
}

// Discard implements events.Progress.
func (p *Progress) Discard(_ context.Context, name string, ids ...string) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := len(p.dead[name])
	p.dead[name] = slices.DeleteFunc(p.dead[name], func(l events.DeadLetter) bool {
		return len(ids) == 0 || slices.Contains(ids, l.Event.ID)
	})
	return before - len(p.dead[name]), nil
}

// Resend implements events.Progress.
func (p *Progress) Resend(_ context.Context, name string, ids ...string) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return events.Mark(p.dead[name], ids...), nil
}
