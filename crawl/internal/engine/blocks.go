package engine

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier/policy"
)

// blockSetting is the name of the setting with the rules of crawler block.
const blockSetting = "block"

// BlocksOf parses rules of crawler block. It leaves out texts that are no rules.
func BlocksOf(texts []string) policy.Blocks {
	var rules []policy.Block
	for _, text := range texts {
		if rule, err := policy.ParseBlock(text); err == nil {
			rules = append(rules, rule)
		}
	}
	return policy.NewBlocks(rules)
}

// Blocks returns the rules of crawler block in a version of the policy; nil means that it was never changed.
func (v *Version) Blocks() (policy.Blocks, error) {
	var texts []string
	if v == nil || v.Values[blockSetting] == "" {
		return policy.Blocks{}, nil
	}
	err := json.Unmarshal([]byte(v.Values[blockSetting]), &texts)
	return BlocksOf(texts), err
}

// Blocked returns the rule that selects the page of a record or of a line of links, or nil.
func Blocked(blocks *policy.Blocks, line []byte) *policy.Block {
	var r struct{ Host, URL, Source string }
	if json.Unmarshal(line, &r) != nil {
		return nil
	}
	return blocks.Find(r.Host, r.URL+r.Source, record.ItemOf(line))
}

// Without returns records without those of blocked URLs.
func Without(records RecordSource, blocks *policy.Blocks) RecordSource {
	if blocks.Last() == 0 {
		return records
	}
	skip := func(line []byte) bool { return Blocked(blocks, line) != nil }
	switch source := records.(type) {
	case record.Reader:
		source.Skip = skip
		return source
	case merged:
		source.skip = skip
		return source
	case rows:
		source.hidden = skip
		return source
	}
	return records
}

// blocksEvery is how often a relay looks for new rules.
const blocksEvery = time.Second

// guarded is an outbox that hides the events of blocked URLs. When a rule is made, each relay that has read events gets
// an event of the type events.PageWithdrawn for each record that the rule selects. For this, guarded reads the whole
// outbox again. Its cursors are those of the outbox, then a ! and the number of the newest version of the policy whose rules the relay has
// obeyed so far. While it reads the outbox again, the number of the version that it reads it for follows, and the cursor
// of this reading, each after a !. A cursor without ! has obeyed none.
type guarded struct {
	events.Outbox
	newest func(ctx context.Context) (*Version, error)

	mu     sync.Mutex
	read   time.Time // when blocks was read
	blocks policy.Blocks
}

// guard returns box without the events and the dead letters of blocked URLs.
func guard(box Outbox, newest func(ctx context.Context) (*Version, error)) Outbox {
	g := &guarded{Outbox: box.Outbox, newest: newest}
	box.Outbox, box.Progress = g, letters{box.Progress, g.rules}
	return box
}

// letters is a Progress that hides the dead letters of blocked URLs, so that they are not sent again.
type letters struct {
	events.Progress
	rules func(ctx context.Context) (policy.Blocks, error)
}

// Dead implements events.Progress.
func (p letters) Dead(ctx context.Context, name string) ([]events.DeadLetter, error) {
	blocks, err := p.rules(ctx)
	if err != nil {
		return nil, err
	}
	all, err := p.Progress.Dead(ctx, name)
	return slices.DeleteFunc(all, func(l events.DeadLetter) bool { return hides(&blocks, &l.Event) }), err
}

// Resend implements events.Progress.
func (p letters) Resend(ctx context.Context, name string, ids ...string) (int, error) {
	all, err := p.Dead(ctx, name)
	var marked []string
	for i := range all {
		if id := all[i].Event.ID; len(ids) == 0 || slices.Contains(ids, id) {
			marked = append(marked, id)
		}
	}
	if err != nil || len(marked) == 0 {
		return 0, err
	}
	return p.Progress.Resend(ctx, name, marked...)
}

// hides reports whether the event of a page is one of a blocked URL. An event that says that a page is withdrawn is none.
func hides(blocks *policy.Blocks, e *events.Event) bool {
	return e.Type != events.PageWithdrawn && since(blocks, e) > 0
}

// DiscardBlocked removes the dead letters of blocked URLs, of all relays, and returns their number. With dry it only counts.
func (o *Outbox) DiscardBlocked(ctx context.Context, blocks *policy.Blocks, dry bool) (n uint64, err error) {
	stored := o.Progress
	if hiding, is := stored.(letters); is {
		stored = hiding.Progress
	}
	names, err := stored.Names(ctx)
	for i := 0; i < len(names) && err == nil; i++ {
		var all []events.DeadLetter
		if all, err = stored.Dead(ctx, names[i]); err != nil {
			break
		}
		var ids []string
		for i := range all {
			if hides(blocks, &all[i].Event) {
				ids = append(ids, all[i].Event.ID)
			}
		}
		if n += uint64(len(ids)); len(ids) > 0 && !dry {
			_, err = stored.Discard(ctx, names[i], ids...)
		}
	}
	return n, err
}

// rules returns the present rules.
func (g *guarded) rules(ctx context.Context) (policy.Blocks, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); g.read.IsZero() || now.Sub(g.read) >= blocksEvery {
		v, err := g.newest(ctx)
		if err != nil {
			return g.blocks, err
		}
		if g.blocks, err = v.Blocks(); err != nil {
			return g.blocks, err
		}
		g.read = now
	}
	return g.blocks, nil
}

// guardedCursor is the parsed form of a cursor of guarded.
type guardedCursor struct {
	at          events.Cursor
	done, until uint64 // versions; until is 0 while the outbox is not read again
	again       events.Cursor
}

func parseGuarded(text events.Cursor) (c guardedCursor) {
	parts := strings.SplitN(string(text), "!", 4)
	c.at = events.Cursor(parts[0])
	if len(parts) > 1 {
		c.done, _ = strconv.ParseUint(parts[1], 10, 64)
	}
	if len(parts) > 3 {
		c.until, _ = strconv.ParseUint(parts[2], 10, 64)
		c.again = events.Cursor(parts[3])
	}
	return c
}

func (c *guardedCursor) text() events.Cursor {
	switch {
	case c.until > 0:
		return c.at + events.Cursor("!"+strconv.FormatUint(c.done, 10)+"!"+strconv.FormatUint(c.until, 10)+"!") + c.again
	case c.done > 0:
		return c.at + events.Cursor("!"+strconv.FormatUint(c.done, 10))
	}
	return c.at
}

// itemOf returns the fingerprint in the id of an event.
func itemOf(e *events.Event) (item bloomstore.Fingerprint) {
	digits, _, _ := strings.Cut(e.ID, "-")
	if b, err := hex.DecodeString(digits); err == nil && len(b) == len(item) {
		item = bloomstore.Fingerprint(b)
	}
	return item
}

// since returns the version with which the page of an event was blocked; 0 means that it is not.
func since(blocks *policy.Blocks, e *events.Event) uint64 {
	if e.Type == events.PageWithdrawn {
		n, _ := record.Since(e.Data)
		return n
	}
	if rule := blocks.Find(e.Host, e.Subject, itemOf(e)); rule != nil {
		return rule.Since
	}
	return 0
}

// Read implements events.Outbox.
func (g *guarded) Read(ctx context.Context, after events.Cursor, limit int) (all []events.Event, next events.Cursor, err error) {
	blocks, err := g.rules(ctx)
	if err != nil {
		return nil, after, err
	}
	c := parseGuarded(after)
	switch {
	case c.until > 0 || c.done >= blocks.Last():
	case c.at == "": // the relay has read no events
		c.done = blocks.Last()
	default:
		c.until = blocks.Last()
	}
	if c.until > 0 {
		return g.withdraw(ctx, &c, &blocks, limit)
	}
	read, at, err := g.Outbox.Read(ctx, c.at, limit)
	if err != nil {
		return nil, after, err
	}
	for _, e := range read {
		if since(&blocks, &e) == 0 {
			c.at = e.Cursor
			e.Cursor = c.text()
			all = append(all, e)
		}
	}
	c.at = at
	return all, c.text(), nil
}

// withdraw reads on in the second reading.
func (g *guarded) withdraw(ctx context.Context, c *guardedCursor, blocks *policy.Blocks, limit int) (all []events.Event, next events.Cursor, err error) {
	read, at, err := g.Outbox.Read(ctx, c.again, limit)
	if err != nil {
		return nil, c.text(), err
	}
	if len(read) == 0 && at == c.again {
		c.done, c.until, c.again = c.until, 0, ""
		return nil, c.text(), nil
	}
	for i := range read {
		if n := since(blocks, &read[i]); n > c.done && n <= c.until {
			e := read[i].Withdrawn()
			c.again = read[i].Cursor
			e.Cursor = c.text()
			all = append(all, e)
		}
	}
	c.again = at
	return all, c.text(), nil
}

// Find implements events.Outbox.
func (g *guarded) Find(ctx context.Context, t time.Time) (events.Cursor, error) {
	blocks, err := g.rules(ctx)
	if err != nil {
		return "", err
	}
	at, err := g.Outbox.Find(ctx, t)
	c := guardedCursor{at: at, done: blocks.Last()}
	return c.text(), err
}

// Lag implements events.Outbox. It counts the events of blocked URLs, too.
func (g *guarded) Lag(ctx context.Context, after events.Cursor) (events.Lag, error) {
	blocks, err := g.rules(ctx)
	if err != nil {
		return events.Lag{}, err
	}
	c := parseGuarded(after)
	lag, err := g.Outbox.Lag(ctx, c.at)
	lag.More = lag.More || c.until > 0 || c.at != "" && c.done < blocks.Last()
	return lag, err
}

// Wait implements events.Waiter.
func (g *guarded) Wait(ctx context.Context) {
	if waiter, is := g.Outbox.(events.Waiter); is {
		waiter.Wait(ctx)
		return
	}
	<-ctx.Done()
}
