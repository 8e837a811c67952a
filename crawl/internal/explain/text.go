package explain

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// WriteTo writes the explanation as text for people, the verdict last.
func (e *Explanation) WriteTo(w io.Writer) (int64, error) {
	var t text
	t.line("url", e.Raw)
	for _, s := range e.Steps {
		rule := string(s.Rule)
		if s.Detail != "" {
			rule += " (" + s.Detail + ")"
		}
		t.line("", rule+" → "+s.After)
	}
	t.line("canonical", e.Canonical)
	t.line("fingerprint", e.Fingerprint)
	t.line("host", e.Host)
	for _, c := range e.Rules {
		t.line(c.Rule, string(c.Answer)+": "+c.Words)
	}
	if e.Class != nil {
		t.line("exact", e.Class.Words)
	}
	if r := e.Robots; r != nil {
		t.line("robots", fmt.Sprintf("%s (%s/robots.txt): %s", r.Access, r.Origin, r.Words))
	}
	if e.Address != nil {
		t.line("address", e.Address.Words)
	}
	t.line("host failure", e.HostFailure)
	t.line("series", e.Trap)
	e.Filter.write(&t)
	e.Store.write(&t)
	if r := e.Record; r != nil {
		t.line("record", fmt.Sprintf("%s: round %d, %s, %s, %s of which %d were new", stamp(r.FetchedAt),
			r.Round, count(uint64(r.Attempts), "attempt"), count(uint64(r.Bytes), "byte"), count(r.LinksFound, "link"), r.LinksAdded))
	}
	label := "named by"
	for _, url := range e.Referrers {
		t.line(label, url)
		label = ""
	}
	if e.MoreBehind {
		t.line(label, "… (the records go no further)")
	}
	fmt.Fprintln(&t, printable(e.Verdict.String()))
	return t.Buffer.WriteTo(w)
}

func (f *Filter) write(t *text) {
	if f == nil {
		return
	}
	verdict := func(known bool) string {
		if known {
			return "claims to know it"
		}
		return "has never seen it"
	}
	t.line("filter", fmt.Sprintf("%s (p = %.2g now)", verdict(f.Known), f.FPR))
	for i, layer := range f.Layers {
		t.line("", fmt.Sprintf("layer %d %s (fill %.1f %%, p = %.2g now)", i+1, verdict(layer.Known), 100*layer.Fill, layer.FPR))
	}
}

func (s *Store) write(t *text) {
	if s == nil {
		return
	}
	if s.State == "" {
		t.line("store", "is not queued, and never was")
		return
	}
	words := fmt.Sprintf("%s in round %d", s.State, s.Round)
	if s.Outcome != "" {
		words += ", " + s.outcome()
	}
	if i := s.Item; i != nil {
		words += fmt.Sprintf(", %s at depth %d", i.Priority, i.Depth)
		if i.Attempts > 0 {
			words += ", " + count(uint64(i.Attempts), "failed attempt")
		}
		if i.Deliveries > 0 {
			words += ", lost with " + count(uint64(i.Deliveries), "worker")
		}
	}
	t.line("store", words)
	if s.Queue != nil {
		t.line("", fmt.Sprintf("%d of %d of its host are ahead, host due %s", s.Queue.Ahead, s.Queue.Waiting, within(time.Duration(s.HostDueIn))))
	}
}

// text collects lines, each with a label and words.
type text struct{ bytes.Buffer }

// line writes a line, unless the argument words is empty. It escapes control characters,
// because much of the text comes from sites.
func (t *text) line(label, words string) {
	if words != "" {
		fmt.Fprintf(t, "%-12s %s\n", label, printable(words))
	}
}

// printable escapes characters that cannot be printed.
func printable(words string) string {
	var b strings.Builder
	for len(words) > 0 {
		r, size := utf8.DecodeRuneInString(words)
		if unicode.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			b.WriteString(words[:size])
		} else {
			b.WriteString(strings.Trim(strconv.Quote(words[:size]), `"`))
		}
		words = words[size:]
	}
	return b.String()
}
