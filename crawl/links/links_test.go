package links

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bloomfrontier/crawler/fetcher/record"
)

func source(records []record.Record, edges ...string) Source {
	return Source{
		Records: func() iter.Seq2[record.Record, error] {
			return func(yield func(record.Record, error) bool) {
				for _, r := range records {
					if !yield(r, nil) {
						return
					}
				}
			}
		},
		Links: func() iter.Seq2[Link, error] {
			return func(yield func(Link, error) bool) {
				for _, edge := range edges {
					from, to, _ := strings.Cut(edge, ">")
					if !yield(Link{Source: from, Edge: record.Edge{Target: to, Text: "t & " + to + "\x00", Kind: "a"}}, nil) {
						return
					}
				}
			}
		},
	}
}

func all[T any](t *testing.T, rows iter.Seq2[T, error]) (all []T) {
	t.Helper()
	for row, err := range rows {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, row)
	}
	return all
}

func page(url, outcome string, status, round int) record.Record {
	return record.Record{URL: url, Outcome: outcome, Status: status, Round: round}
}

func redirect(from, to string) record.Record {
	return record.Record{URL: from, Outcome: "redirect", Status: 301, RedirectTo: to}
}

func canonical(url, to string) record.Record {
	return record.Record{URL: url, Outcome: "ok", Status: 200, Canonical: to}
}

// TestBrokenByLastRound: the last round of the target decides whether a link is
// broken.
func TestBrokenByLastRound(t *testing.T) {
	s := source([]record.Record{
		page("ok", "ok", 200, 0), page("gone", "client_error", 404, 0), page("healed", "server_error", 500, 0), page("healed", "ok", 200, 1),
		page("worse", "server_error", 502, 1), page("worse", "throttled", 429, 0), page("robots", "robots", 0, 0),
		{URL: "dead", Outcome: "network", Error: "refused"}, page("lost", "worker_lost", 0, 0),
	}, "ok>ok", "ok>gone", "gone>healed", "ok>worse", "ok>robots", "ok>dead", "ok>never", "ok>lost")
	var got []string
	for _, b := range all(t, s.BrokenLinks()) {
		got = append(got, fmt.Sprint(b.Source, ">", b.Target, " ", b.Status, " ", b.Outcome, " ", b.Why))
	}
	want := []string{"ok>gone 404 client_error ", "ok>worse 502 server_error ", "ok>dead 0 network refused"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestBrokenChecks: of the links that lead out, those whose check is broken are reported. If a URL was
// crawled too, in whatever order, its page counts.
func TestBrokenChecks(t *testing.T) {
	check := func(url, result string, status, round int) record.Record {
		return record.Record{URL: url, Outcome: "check_" + result, Check: result, Status: status, Round: round, RedirectTo: "ok"}
	}
	s := source([]record.Record{
		page("ok", "ok", 200, 0), check("fine", "ok", 200, 0), check("gone", "broken", 404, 0), check("wall", "unknown", 403, 0),
		check("page", "broken", 404, 3), page("page", "ok", 200, 0), page("worse", "client_error", 410, 0), check("worse", "ok", 200, 1),
		check("healed", "broken", 404, 0), check("healed", "ok", 200, 1),
	}, "ok>fine", "ok>gone", "ok>wall", "ok>page", "ok>worse", "ok>healed", "page>gone")
	var got []string
	for _, b := range all(t, s.BrokenLinks()) {
		got = append(got, fmt.Sprint(b.Source, ">", b.Target, " ", b.Status, " ", b.Outcome))
	}
	want := []string{"ok>gone 404 check_broken", "ok>worse 410 client_error", "page>gone 404 check_broken"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if chains := all(t, s.Chains(1)); len(chains) > 0 {
		t.Errorf("checks are in the chains %+v", chains)
	}
}

// TestBrokenLinksOfLastRound: Broken leaves out a link that a page had only before its last
// round.
func TestBrokenLinksOfLastRound(t *testing.T) {
	s := source([]record.Record{
		page("mended", "ok", 200, 1), page("mended", "ok", 200, 0), page("once", "ok", 200, 0),
		page("twice", "ok", 200, 0), page("twice", "ok", 200, 1), page("gone", "client_error", 404, 0),
	})
	s.Links = func() iter.Seq2[Link, error] {
		return func(yield func(Link, error) bool) {
			for _, link := range []Link{{Source: "mended"}, {Source: "once"}, {Source: "twice"}, {Source: "twice", Round: 1}} {
				link.Target = "gone"
				if !yield(link, nil) {
					return
				}
			}
		}
	}
	var got []string
	for _, b := range all(t, s.BrokenLinks()) {
		got = append(got, b.Source)
	}
	if diff := cmp.Diff([]string{"once", "twice"}, got); diff != "" {
		t.Error(diff)
	}
	want := []Broken{{Pages: 2, Status: 404, Outcome: "client_error", Target: "gone", Sources: []string{"once", "twice"}}}
	if diff := cmp.Diff(want, all(t, s.Broken())); diff != "" {
		t.Error(diff)
	}
}

// TestBrokenTargets: Broken counts the pages that link to each target without a page, and names three of
// them. It leaves out targets to which no page links. The result is the same if only a few targets are in memory.
func TestBrokenTargets(t *testing.T) {
	var records []record.Record
	var edges []string
	want := make(map[string]int)
	for i := range 100 {
		url := fmt.Sprint("gone", i)
		records = append(records, page(url, "client_error", 404, 0))
		for j := range i % 7 {
			edges = append(edges, fmt.Sprint("page", j, ">", url))
			want[url] = j + 1
		}
	}
	s := source(records, edges...)
	for _, limit := range []int{1, 10, 99, 100, maxTargets} {
		got := make(map[string]int)
		parts := 0
		for some, err := range s.broken(limit) {
			if err == nil {
				err = some.count(s)
			}
			if err != nil {
				t.Fatal(err)
			}
			parts++
			if n := len(some.targets); n > 2*limit+10 {
				t.Errorf("limit %d: a part has %d targets", limit, n)
			}
			for url, target := range some.targets {
				if target.pages > 0 {
					got[url] = target.pages
				}
				if len(target.sources) != min(target.pages, 3) {
					t.Errorf("%s has the sources %v, want %d of them", url, target.sources, min(target.pages, 3))
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
		if split := parts > 1; split != (limit < 100) {
			t.Errorf("limit %d: %d parts", limit, parts)
		}
	}
	if rows := all(t, s.Broken()); len(rows) != len(want) {
		t.Errorf("Broken yields %d targets, want %d", len(rows), len(want))
	}
}

func TestRedirectChains(t *testing.T) {
	s := source([]record.Record{
		redirect("a", "b"), redirect("b", "c"), page("c", "ok", 200, 0),
		redirect("one", "c"), redirect("broken", "gone"), page("gone", "client_error", 410, 0),
		redirect("x", "y"), redirect("y", "z"), redirect("z", "y"), redirect("self", "self"), redirect("far", "unknown"),
		redirect("was", "b"), page("was", "ok", 200, 1),
	})
	var got []string
	for _, c := range all(t, s.Chains(2)) {
		got = append(got, fmt.Sprint(strings.Join(c.Chain, ">"), " ", c.Hops, " ", c.Loop, " ", c.Status, " ", c.Outcome))
	}
	want := []string{"a>b>c 2 false 200 ok", "broken>gone 1 false 410 client_error", "x>y>z>y 3 true 0 ", "y>z>y 2 true 0 ", "z>y>z 2 true 0 ", "self>self 1 true 0 "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for least, rows := range map[int]int{1: 8, 2: 6, 3: 5} { // all eight starts, those without one>c and far>unknown, and without a>b>c
		if n := len(all(t, s.Chains(least))); n != rows {
			t.Errorf("%d chains of at least %d redirects, want %d", n, least, rows)
		}
	}
}

// TestLongChains: chains and loops of any length are followed to their end.
func TestLongChains(t *testing.T) {
	series := func(name string, n int, last string) (records []record.Record) {
		for i := range n - 1 {
			records = append(records, redirect(fmt.Sprint(name, i), fmt.Sprint(name, i+1)))
		}
		return append(records, redirect(fmt.Sprint(name, n-1), last))
	}
	for _, c := range []struct {
		records []record.Record
		rows    int
		want    string // URL, hops, loop, status, number of URLs listed, the last of them
	}{
		{append(series("chain", 120, "end"), page("end", "client_error", 404, 0)), 1, "chain0 120 false 404 121 end"},
		{append(series("far", 50_000, "end"), page("end", "ok", 200, 0)), 1, "far0 50000 false 200 1001 end"},
		{series("ring", 150, "ring0"), 150, "ring0 150 true 0 151 ring0"},
		{append([]record.Record{redirect("in", "to"), redirect("to", "ring7")}, series("ring", 150, "ring0")...), 151, "in 152 true 0 153 ring7"},
		{append(append(series("a", 600, "b0"), series("b", 600, "c0")...), series("c", 600, "b5")...), 1196, "a0 1800 true 0 1001 b5"},
		{append(series("deep", 120, "unknown"), redirect("side", "deep119")), 2, "deep0 120 false 0 121 unknown"},
	} {
		rows := all(t, source(c.records).Chains(2))
		if len(rows) != c.rows {
			t.Errorf("%d chains, want %d, of which the first is %s", len(rows), c.rows, c.want)
			continue
		}
		first := rows[0]
		got := fmt.Sprint(first.URL, " ", first.Hops, " ", first.Loop, " ", first.Status, " ", len(first.Chain), " ", first.Chain[len(first.Chain)-1])
		if got != c.want {
			t.Errorf("the first chain is %s, want %s", got, c.want)
		}
	}
}

func TestCanonicalConflicts(t *testing.T) {
	s := source([]record.Record{
		canonical("a", "b"), canonical("b", "b"), canonical("c", "d"), canonical("d", "e"), canonical("e", ""), canonical("f", "gone"), page("gone", "client_error", 404, 0),
		canonical("g", "r"), redirect("r", "a"), canonical("h", "never"), canonical("i", "dead"), page("dead", "network", 0, 0),
	})
	want := []Conflict{
		{"c", "d", "its own canonical URL is e"}, {"f", "gone", "it has no page: client_error, status 404"},
		{"g", "r", "it redirects to a"}, {"i", "dead", "it has no page: network"},
	}
	if diff := cmp.Diff(want, all(t, s.Conflicts())); diff != "" {
		t.Error(diff)
	}
}

// TestGraphFiles: the CSV has the links. The GEXF is XML in which each node occurs once
// and each edge joins two of these nodes.
func TestGraphFiles(t *testing.T) {
	s := source([]record.Record{{URL: "a?x=1&y=2", Outcome: "ok", Status: 200, Title: "<A> \x00"}, page("b", "network", 0, 0)}, "a?x=1&y=2>b", "b>c", "b>a?x=1&y=2")
	var text bytes.Buffer
	if err := s.WriteCSV(&text); err != nil {
		t.Fatal(err)
	}
	if want := "Source,Target\na?x=1&y=2,b\nb,c\nb,a?x=1&y=2\n"; text.String() != want {
		t.Errorf("WriteCSV wrote %s, want %s", &text, want)
	}
	text.Reset()
	if err := s.WriteGEXF(&text); err != nil {
		t.Fatal(err)
	}
	var g struct {
		Nodes []struct {
			ID    string `xml:"id,attr"`
			Label string `xml:"label,attr"`
		} `xml:"graph>nodes>node"`
		Edges []struct {
			Source string `xml:"source,attr"`
			Target string `xml:"target,attr"`
		} `xml:"graph>edges>edge"`
	}
	if err := xml.Unmarshal(text.Bytes(), &g); err != nil {
		t.Fatalf("%v\n%s", err, &text)
	}
	if got := fmt.Sprint(g.Nodes, g.Edges); got != "[{a?x=1&y=2 <A> \ufffd} {b b} {c c}] [{a?x=1&y=2 b} {b c} {b a?x=1&y=2}]" {
		t.Error(got)
	}
}

// TestGraphCSVHasNoFormulas: a spreadsheet takes no part of a URL for a formula, even if it ends
// cells at a semicolon.
func TestGraphCSVHasNoFormulas(t *testing.T) {
	s := source(nil, "http://a.example/x;=1+1>http://b.example/;@SUM(A1)|-2", "=x>+y")
	var text bytes.Buffer
	if err := s.WriteCSV(&text); err != nil {
		t.Fatal(err)
	}
	want := "Source,Target\nhttp://a.example/x;'=1+1,http://b.example/;'@SUM(A1)|'-2\n'=x,'+y\n"
	if text.String() != want {
		t.Errorf("WriteCSV wrote %s, want %s", &text, want)
	}
}

// TestSourceErrors: an error of a source ends each report.
func TestSourceErrors(t *testing.T) {
	broken := errors.New("broken")
	s := Source{
		Records: func() iter.Seq2[record.Record, error] {
			return func(yield func(record.Record, error) bool) { yield(record.Record{}, broken) }
		},
		Links: func() iter.Seq2[Link, error] {
			return func(yield func(Link, error) bool) { yield(Link{}, broken) }
		},
	}
	errs := []error{s.WriteCSV(io.Discard), s.WriteGEXF(io.Discard)}
	for _, err := range s.Broken() {
		errs = append(errs, err)
	}
	for _, err := range s.BrokenLinks() {
		errs = append(errs, err)
	}
	for _, err := range s.Chains(2) {
		errs = append(errs, err)
	}
	for _, err := range s.Conflicts() {
		errs = append(errs, err)
	}
	if len(errs) != 6 {
		t.Errorf("the reports returned %d errors, want 6", len(errs))
	}
	for _, err := range errs {
		if !errors.Is(err, broken) {
			t.Errorf("error %v, want %v", err, broken)
		}
	}
}

// TestConflictsByLastRound: a page is judged by the record of its last round alone.
func TestConflictsByLastRound(t *testing.T) {
	inRound := func(r record.Record, round int) record.Record { r.Round = round; return r }
	s := source([]record.Record{
		inRound(canonical("mended", "fine"), 1), canonical("mended", "gone"),
		canonical("twice", "gone"), inRound(canonical("twice", "gone"), 1),
		page("fine", "ok", 200, 0), page("gone", "client_error", 404, 0),
	})
	want := []Conflict{{"twice", "gone", "it has no page: client_error, status 404"}}
	if diff := cmp.Diff(want, all(t, s.Conflicts())); diff != "" {
		t.Error(diff)
	}
}

// TestGraphOfRunningCrawl: each edge joins two nodes, although the crawl adds a link while
// its graph is written.
func TestGraphOfRunningCrawl(t *testing.T) {
	s := source([]record.Record{page("a", "ok", 200, 0), page("b", "ok", 200, 0)}, "a>b")
	first := s.Links
	s.Links = func() iter.Seq2[Link, error] {
		s.Links = source(nil, "a>b", "b>new", "new>a").Links
		return first()
	}
	var text bytes.Buffer
	if err := (Source{Records: s.Records, Links: func() iter.Seq2[Link, error] { return s.Links() }}).WriteGEXF(&text); err != nil {
		t.Fatal(err)
	}
	if strings.Count(text.String(), "<edge ") != 1 || strings.Contains(text.String(), "new") {
		t.Errorf("an edge leads to a node that is not there:\n%s", &text)
	}
}
