package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/sizing"
)

// textWidth is the number of columns of a report. Only lines with a long host name are
// longer.
const textWidth = 80

// WriteSummary prints the end of a run: why it ended, its rates, the counters, what
// limited it, what was lost, and how to resume.
func (r *Report) WriteSummary(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", human.Printable(r.Crawl), human.Printable(r.End))
	fact(&b, "now", human.Printable(r.Now))
	if r.Run != nil {
		r.Run.write(&b)
	}
	if r.LastError != nil {
		fact(&b, "last error", r.LastError.String())
	}
	if s := r.Seeds; s != nil {
		fact(&b, "seeds", fmt.Sprintf("%s added, %s known, %s refused", human.Commas(s.Added), human.Commas(s.Known), human.Commas(s.Refused)))
	}
	r.writeBooks(&b)
	r.Visits.write(&b)
	fact(&b, "errors", r.Errors.String())
	fact(&b, "no data", notTakenInLine(r.NotTaken))
	if r.Exact != nil {
		r.Exact.write(&b, r.FPR)
	}
	writeRelays(&b, r.Relays)
	if r.Blocked != nil {
		for i := range r.Blocked.Hosts {
			fact(&b, "blocked", r.Blocked.Hosts[i].String())
		}
	}
	fact(&b, "limited by", limitsInLine(r.Limits))
	if r.FPR != nil && r.FPR.Lost != nil {
		fact(&b, "lost", r.FPR.Lost.words())
	}
	fact(&b, "records", human.Printable(r.Records))
	if r.MissingRecords > 0 {
		fact(&b, "missing", human.Plural(r.MissingRecords, "record")+" lost from the files, their URLs stay finished (crawler rebuild --accept-loss)")
	}
	fact(&b, "answers", human.Printable(r.Answers))
	if r.Resume != "" {
		fmt.Fprintf(&b, "to go on: %s\n", human.Printable(r.Resume))
		for _, note := range r.ResumeNotes {
			fmt.Fprintf(&b, "  # %s\n", human.Printable(note))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteText prints the whole report: the summary, then the details.
func (r *Report) WriteText(w io.Writer) error {
	if err := r.WriteSummary(w); err != nil {
		return err
	}
	var b strings.Builder
	writeLimits(&b, r.Limits)
	if len(r.Errors) > 0 {
		b.WriteString("\nErrors by cause\n")
		_ = r.Errors.WriteExamples(&b) // a strings.Builder returns no error
	}
	if t := r.TopAll; t != nil {
		writeHosts(&b, "Hosts with the most pages", t.Pages, human.Commas)
		writeHosts(&b, "Hosts with the most errors", t.Errors, human.Commas)
		writeHosts(&b, "Hosts that were waited for longest", t.Waiting, milliseconds)
	}
	if r.Filter != nil {
		r.Filter.write(&b)
	}
	if r.FPR != nil {
		r.FPR.write(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (n *Run) write(b *strings.Builder) {
	took := time.Duration(n.Seconds * float64(time.Second))
	in := human.Span(took)
	if took < time.Minute {
		in = took.Round(100 * time.Millisecond).String()
	}
	fact(b, "this run", fmt.Sprintf("%s in %s (%s/s), %s (%s/s)", human.Plural(n.Pages, "page"), in, human.PerSecond(n.PagesPerSecond),
		humanize.IBytes(n.Bytes), humanize.IBytes(uint64(max(n.BytesPerSecond, 0)))))
	fact(b, "requests", fmt.Sprintf("%s for pages, %s for robots.txt, %s failed",
		human.Commas(n.Requests), human.Commas(n.RobotsRequests), human.Commas(n.Errors)))
}

// writeBooks prints Found and Added, each as a sum of other counters. It also prints the counts
// of the reasons for refusals, and of the outcomes.
func (r *Report) writeBooks(b *strings.Builder) {
	k := r.Books
	fact(b, "found", fmt.Sprintf("%s = %s added + %s seen + %s refused",
		human.Commas(k.Found), human.Commas(k.Added), human.Commas(k.Seen), human.Commas(k.RefusedTotal())))
	fact(b, "refused", breakdown(k.Refused))
	fact(b, "full hosts", r.FullHosts.String())
	for _, e := range r.RefusedByForm {
		fact(b, "e.g.", human.Printable(fmt.Sprintf("%s: %s (%s; %s allows it)", e.Reason, e.URL, e.Rule, e.Flag)))
	}
	fact(b, "added", fmt.Sprintf("%s = %s queued + %s leased + %s done + %s failed",
		human.Commas(k.Added), human.Commas(k.Queued), human.Commas(k.Leased), human.Commas(k.Done), human.Commas(k.Failed)))
	fact(b, "links out", r.Checks.words())
	outcomes := breakdown(r.Outcomes)
	if outcomes != "" && r.Run != nil && r.Run.Outcomes != nil && !maps.Equal(r.Run.Outcomes, r.Outcomes) {
		outcomes += "; this run: " + cmp.Or(breakdown(r.Run.Outcomes), "none")
	}
	fact(b, "outcomes", outcomes)
	fact(b, "same text", r.SameText.String())
	if k.Queued > 0 {
		fact(b, "queue", fmt.Sprintf("%s, %s delayed, %s retries so far", human.Plural(r.Hosts, "host"), human.Commas(r.Delayed), human.Commas(r.Retries)))
	}
	fact(b, "FAULT", human.Printable(r.Fault))
}

// FullHosts are hosts that have as many URLs as --max-per-host allows, and how many further URLs were
// refused. The counts are from a sketch, as the counts in TopHosts are.
type FullHosts []HostCount

// SameText are hosts that answer nearly every URL with the same text, and the number of pages with it. Often the text says that there is no
// such page (a soft 404). The counts are from a sketch, as the counts in TopHosts are.
type SameText []HostCount

// String names the hosts, safe for a terminal. It is empty if there are none.
func (hosts SameText) String() string {
	parts := make([]string, len(hosts))
	for i, h := range hosts {
		parts[i] = fmt.Sprintf("%s (%s)", human.Printable(h.Host), human.Plural(h.Count, "page"))
	}
	return strings.Join(parts, ", ")
}

// String names the hosts, safe for a terminal. It is empty if there are none.
func (hosts FullHosts) String() string {
	parts := make([]string, len(hosts))
	for i, h := range hosts {
		parts[i] = fmt.Sprintf("%s (%s refused)", human.Printable(h.Host), human.Plural(h.Count, "URL"))
	}
	return strings.Join(parts, ", ")
}

// notTakenInLine says how many pages have no fields and no text, and why: "3 pages: too_deep 2,
// too_large 1".
func notTakenInLine(counts []CauseCount) string {
	var total uint64
	reasons := make(map[string]uint64)
	for _, c := range counts {
		total += c.Count
		reasons[c.Cause] = c.Count
	}
	if total == 0 {
		return ""
	}
	return fmt.Sprintf("taken from %s: %s", human.Plural(total, "page"), breakdown(reasons))
}

// write prints the counts of exact keys and of recovered false positives. For comparison,
// it also prints the filter's rate of false positives.
func (e *Exact) write(b *strings.Builder, filter *FalsePositives) {
	if k := e.Keys; k != nil && k.Fault != "" {
		fact(b, "exact", human.Printable(k.Fault))
	} else if k != nil {
		words := fmt.Sprintf("%s = %s pending + %s queued + %s done + %s failed",
			human.Plural(k.total(), "key"), human.Commas(k.Pending), human.Commas(k.Queued), human.Commas(k.Done), human.Commas(k.Failed))
		if k.Lag > 0 {
			words += fmt.Sprintf(", clean-up of %s %s behind", human.Commas(k.Due), human.Span(time.Duration(k.Lag*float64(time.Second))))
		}
		fact(b, "exact", words)
	}
	words := human.Plural(e.Recovered, "false positive")
	if k := e.Keys; k != nil && k.total() > 0 {
		words += fmt.Sprintf(" (%.2g of the keys)", float64(e.Recovered)/float64(k.total()))
	}
	if filter != nil && filter.Estimated != nil {
		words += fmt.Sprintf("; the filter's rate is %.2g now", filter.Estimated.P)
	}
	if e.Promoted > 0 {
		words += fmt.Sprintf("; %s promoted", human.Commas(e.Promoted))
	}
	fact(b, "recovered", words)
}

// limitsInLine returns the kinds that limited a run: "politeness 81%, network 12%".
func limitsInLine(limits []Share) string {
	parts := make([]string, len(limits))
	for i, s := range limits {
		parts[i] = string(s.Kind) + unbroken + human.Percent(s.Share)
	}
	return strings.Join(parts, ", ")
}

func writeLimits(b *strings.Builder, limits []Share) {
	if len(limits) == 0 {
		return
	}
	b.WriteString("\nWhat limited this run\n")
	for _, s := range limits {
		took := time.Duration(s.Seconds * float64(time.Second))
		fmt.Fprintf(b, "  %-12s%6s %8s  %s\n", s.Kind, human.Percent(s.Share), human.Span(took), strings.Repeat("=", int(math.Round(s.Share*45))))
	}
}

// writeHosts prints a table of hosts or causes, with counts of the whole crawl and
// of the run.
func writeHosts(b *strings.Builder, title string, hosts []HostCount, words func(uint64) string) {
	if len(hosts) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n  %14s %14s\n", title, "whole crawl", "this run")
	for _, h := range hosts {
		over := ""
		if h.Over > 0 {
			over = fmt.Sprintf("  (at most %s too many)", words(h.Over))
		}
		fmt.Fprintf(b, "  %14s %14s  %s%s\n", words(h.Count), words(h.Run), human.Printable(h.Host), over)
		if h.Cause != "" {
			fmt.Fprintf(b, "  %29s  %s\n", "", human.Printable(h.Cause))
		}
	}
}

func milliseconds(n uint64) string {
	return human.Span(time.Duration(min(n, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond)
}

func (f *Filter) write(b *strings.Builder) {
	growth := "it does not grow"
	if f.Growth {
		growth = "it grows when it is full"
	}
	if w := f.Window; w != nil {
		span, kept := human.Period(w.Span), human.Period(sizing.Window{Generations: w.Generations}.Kept(w.Span).Round(time.Second))
		growth += fmt.Sprintf("; it forgets a URL %s to %s after its end (%d generations)", &span, &kept, w.Generations)
	}
	fmt.Fprintf(b, "\nFilter: %s of %s URLs, %s; %s\n", human.Commas(f.Keys), human.Commas(f.Capacity), humanize.IBytes(f.Bytes), growth)
	const row = "  %-5s %14s %14s %6s %9s %9s %2s  %s\n"
	fmt.Fprintf(b, row, "layer", "URLs", "made for", "fill", "p", "p full", "k", "full in")
	for i, l := range f.Layers {
		full := "-"
		switch {
		case l.FullIn != nil:
			full = human.Span(time.Duration(min(*l.FullIn, math.MaxInt64/2e9) * float64(time.Second)))
		case l.Keys >= l.Capacity:
			full = "full"
		}
		fmt.Fprintf(b, row, fmt.Sprint(i+1), human.Commas(l.Keys), human.Commas(l.Capacity), human.Percent(l.Fill),
			probability(l.FPR), probability(l.Target), fmt.Sprint(l.Hashes), full)
	}
}

func (p *FalsePositives) write(b *strings.Builder) {
	b.WriteString("\nFalse positives: how likely a new URL is taken for a known one, 95% intervals\n")
	for _, row := range []struct {
		name   string
		figure *Figure
		from   string // what Trials counts; empty for a figure without trials
	}{
		{"estimated", p.Estimated, ""},
		{"probed", p.Probed, "random fingerprints"},
		{"shadow", p.Shadow, "sampled URLs"},
	} {
		if row.figure != nil {
			fact(b, row.name, row.figure.words(row.from))
		}
	}
	if p.Lost != nil {
		fact(b, "lost so far", p.Lost.words())
	}
}

func (f *Figure) words(from string) string {
	switch {
	case from == "" && f.Low == f.High:
		return probability(f.P) + ", from the fill of all its bits"
	case from == "":
		return fmt.Sprintf("%s (%s to %s), from the fill", probability(f.P), probability(f.Low), probability(f.High))
	case f.Trials == 0:
		return "no data yet"
	case f.Hits == 0:
		return fmt.Sprintf("below %s, none of %s %s", probability(f.High), human.Commas(f.Trials), from)
	}
	return fmt.Sprintf("%s (%s to %s), %s of %s %s", probability(f.P), probability(f.Low), probability(f.High),
		human.Commas(f.Hits), human.Commas(f.Trials), from)
}

func (l *Lost) words() string {
	return fmt.Sprintf("about %s new URLs taken for known ones (%s to %s)", threeDigits(l.Expected), threeDigits(l.Low), threeDigits(l.High))
}

func probability(p float64) string { return fmt.Sprintf("%.3g", p) }

// threeDigits rounds an expected number to three significant digits, or to a whole number if
// the number has four or more digits before the point.
func threeDigits(x float64) string {
	if x < 999.5 {
		return fmt.Sprintf("%.3g", x)
	}
	return humanize.Comma(int64(math.Round(min(x, 1e18))))
}

// unbroken is a space at which fact does not break a line.
const unbroken = "\u00a0"

// fact prints a name and a value, unless the value is empty. It wraps a long value.
func fact(b *strings.Builder, name, value string) {
	if value == "" {
		return
	}
	const indent = 14
	at := indent
	fmt.Fprintf(b, "  %-*s", indent-2, name)
	for i, word := range strings.Split(value, " ") {
		word = strings.ReplaceAll(word, unbroken, " ")
		switch {
		case i == 0:
		case at+1+len(word) > textWidth:
			fmt.Fprintf(b, "\n%*s", indent, "")
			at = indent
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += len(word)
	}
	b.WriteByte('\n')
}

// breakdown lists counts by name, largest first. A name and its count stay on one
// line.
func breakdown[K ~string](counts map[K]uint64) string {
	var names []K
	for name, n := range counts {
		if n > 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b K) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = human.Printable(string(name)) + unbroken + human.Commas(counts[name])
	}
	return strings.Join(parts, ", ")
}
