package policy

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/frontier/revisit"
)

// Override has the settings of the hosts whose key matches Pattern. A field with its zero value leaves
// the setting of the Policy as it is.
type Override struct {
	Pattern      string // of host keys; * stands for any characters
	Delay        time.Duration
	Concurrency  int
	MaxItems     uint64 // holds for hosts of seeds, too
	IgnoreRobots *bool
	DomainRate   *float64
	Recrawl      *revisit.Aim
	Weight       float64
	Header       map[string][]string // added to Policy.Header, or in place of headers with the same name
}

// apply changes the settings of a host.
func (o *Override) apply(h *Host) {
	if o.Delay > 0 {
		h.Politeness.Delay = o.Delay
	}
	if o.Concurrency > 0 {
		h.Concurrency = o.Concurrency
	}
	if o.MaxItems > 0 {
		h.MaxItems, h.UnlessSeed = o.MaxItems, false
	}
	if o.DomainRate != nil {
		h.DomainRate = *o.DomainRate
	}
	if o.IgnoreRobots != nil {
		h.IgnoreRobots = *o.IgnoreRobots
	}
	if o.Recrawl != nil {
		h.Recrawl, h.OwnRecrawl = *o.Recrawl, true
	}
	if o.Weight > 0 {
		h.Weight = o.Weight
	}
	if len(h.Header) == 0 {
		h.Header = o.Header
	} else if len(o.Header) > 0 {
		h.Header = maps.Clone(h.Header)
		maps.Copy(h.Header, o.Header)
	}
}

// Hosts is a table of Overrides. If several patterns match a host key, the first one counts. The zero
// value has none.
type Hosts struct {
	rows  []Override
	exact map[string]int // the first row with this pattern, which has no *
	globs []glob
}

// glob is a pattern with at least one *.
type glob struct {
	row   int
	parts []string // the texts between the *
}

// NewHosts returns a table with the given rows, in this order.
func NewHosts(rows ...Override) Hosts {
	t := Hosts{rows: rows, exact: make(map[string]int)}
	for i := range rows {
		pattern := strings.ToLower(rows[i].Pattern)
		if parts := strings.Split(pattern, "*"); len(parts) > 1 {
			t.globs = append(t.globs, glob{i, parts})
		} else if _, found := t.exact[pattern]; !found {
			t.exact[pattern] = i
		}
	}
	return t
}

// Revisits describes what the rows say about Recrawl and Weight: two equal texts mean the same.
func (t *Hosts) Revisits() string {
	var b strings.Builder
	for i := range t.rows {
		if o := &t.rows[i]; o.Recrawl != nil || o.Weight > 0 {
			fmt.Fprintf(&b, " %q %d", o.Pattern, i)
			if o.Recrawl != nil {
				fmt.Fprintf(&b, " %v", *o.Recrawl)
			}
			fmt.Fprintf(&b, " %v", o.Weight)
		}
	}
	return b.String()
}

// Find returns the first row that matches a host key, or nil.
func (t *Hosts) Find(key string) *Override {
	if len(t.rows) == 0 {
		return nil
	}
	first, found := t.exact[key]
	if !found {
		first = len(t.rows)
	}
	for i := range t.globs {
		g := &t.globs[i]
		if g.row > first {
			break
		}
		if g.matches(key) {
			return &t.rows[g.row]
		}
	}
	if !found {
		return nil
	}
	return &t.rows[first]
}

// matches reports whether the pattern matches a whole key. It is many times as fast as a regular
// expression.
func (g *glob) matches(key string) bool {
	last := len(g.parts) - 1
	key, begins := strings.CutPrefix(key, g.parts[0])
	if !begins {
		return false
	}
	for _, part := range g.parts[1:last] {
		at := strings.Index(key, part)
		if at < 0 {
			return false
		}
		key = key[at+len(part):]
	}
	return strings.HasSuffix(key, g.parts[last])
}
