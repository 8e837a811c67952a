package changes

import (
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
)

// visitsOf returns records of one page, a minute apart, in rounds 0, 1 and so on.
func visitsOf(edits ...func(r *record.Record)) (all []record.Record) {
	for round, edit := range edits {
		r := page1("http://a.test/", round, round, 200, "t")
		r.TextDigest = "sha256:" + strings.Repeat("00", 32)
		edit(&r)
		all = append(all, r)
	}
	return all
}

func notModified(r *record.Record) {
	*r = page1(r.URL, r.Round, r.Round, 304, "")
	r.Outcome = string(frontier.NotModified)
}

func noAnswer(r *record.Record) {
	*r = page1(r.URL, r.Round, r.Round, 0, "")
	r.Outcome = string(frontier.Network)
}

// TestRevisions: each kind of difference of two visits is named, and visits that say nothing about the page are left out.
func TestRevisions(t *testing.T) {
	same := func(*record.Record) {}
	text := func(text string) func(r *record.Record) {
		return func(r *record.Record) { r.Text, r.TextDigest = text, "sha256:"+fmt.Sprintf("%064x", len(text)) }
	}
	for _, tt := range []struct {
		name   string
		edits  []func(r *record.Record)
		rounds []uint32
		want   string   // the revisions, as round and change
		diff   []string // lines of the last one
	}{
		{"nothing", []func(*record.Record){same, same}, nil, "0 new", nil},
		{"title", []func(*record.Record){same, func(r *record.Record) { r.Title = "now" }}, nil, "0 new; 1 title", []string{"-title: t", "+title: now"}},
		{"not modified between", []func(*record.Record){same, notModified, func(r *record.Record) { r.Title = "now" }}, nil, "0 new; 2 title", []string{"-title: t"}},
		{"no answer between", []func(*record.Record){noAnswer, same, noAnswer, same}, nil, "1 new", nil},
		{"gone and back", []func(*record.Record){same, func(r *record.Record) {
			*r = page1(r.URL, 1, 1, 404, "")
			r.Outcome = string(frontier.ClientError)
		}, same}, nil, "0 new; 1 status,outcome,title,text; 2 status,outcome,title,text", []string{"-status: 404", "+status: 200"}},
		{"moved", []func(*record.Record){same, func(r *record.Record) { r.Status, r.Outcome, r.RedirectTo = 301, "redirect", "http://b.test/" }}, nil,
			"0 new; 1 status,outcome,redirect", []string{"+redirect: http://b.test/"}},
		{"text that is kept", []func(*record.Record){text("one\ntwo\nthree"), text("one\n2\nthree")}, nil, "0 new; 1 text", []string{"-two", "+2", " one"}},
		{"text that is not kept", []func(*record.Record){same, func(r *record.Record) { r.TextDigest = "sha256:" + strings.Repeat("11", 32) }}, nil,
			"0 new; 1 text", []string{"+text: sha256:" + strings.Repeat("11", 32)}},
		{"body that is no page", []func(*record.Record){
			func(r *record.Record) { r.TextDigest, r.Digest, r.ContentType = "", "sha256:aa", "application/pdf" },
			func(r *record.Record) { r.TextDigest, r.Digest, r.ContentType = "", "sha256:bb", "application/pdf" },
		}, nil, "0 new; 1 body", []string{"-body: sha256:aa"}},
		{"a body with the same text", []func(*record.Record){func(r *record.Record) { r.Digest = "sha256:aa" }, func(r *record.Record) { r.Digest = "sha256:bb" }}, nil, "0 new", nil},
		{"fields", []func(*record.Record){
			func(r *record.Record) { r.Fields = json.RawMessage(`{"price":1,"size":"L"}`) },
			func(r *record.Record) { r.Fields = json.RawMessage(`{"size":"L","price":2,"tags":["a"]}`) },
		}, nil, "0 new; 1 fields.price,fields.tags", []string{"-fields.price: 1", "+fields.price: 2", `+fields.tags: ["a"]`}},
		{"rounds", []func(*record.Record){same, func(r *record.Record) { r.Title = "b" }, func(r *record.Record) { r.Title = "c" }, notModified}, []uint32{0, 3},
			"0 new; 2 title", []string{"-title: t", "+title: c"}},
		{"rounds before the first visit", []func(*record.Record){noAnswer, same}, []uint32{0, 1}, "1 new", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := visitsOf(tt.edits...)
			all[0], all[len(all)-1] = all[len(all)-1], all[0] // as merged from two workers
			other := page1("http://a.test/other", 1, 1, 200, "other")
			check := page1("http://a.test/", 1, 1, 404, "")
			check.Outcome, check.Check = "check_broken", "broken"
			var got []string
			var last Revision
			n, err := Revisions(linesOf(t, append(all, other, check)...), "http://a.test/", tt.rounds, t.TempDir(), func(rows iter.Seq2[Revision, error]) error {
				for r, err := range rows {
					if err != nil {
						return err
					}
					got, last = append(got, fmt.Sprint(r.Round, " ", r.Change)), r
				}
				return nil
			})
			if err != nil || strings.Join(got, "; ") != tt.want || n != uint64(len(all)) {
				t.Errorf("%s, %d visits, %v; want %s, %d", strings.Join(got, "; "), n, err, tt.want, len(all))
			}
			for _, line := range tt.diff {
				if !strings.Contains(last.Diff, "\n"+line+"\n") {
					t.Errorf("no line %q in:\n%s", line, last.Diff)
				}
			}
		})
	}
}

// TestNotModified: a page that is not modified is no change of its status and title.
func TestNotModified(t *testing.T) {
	same := func(*record.Record) {}
	all := visitsOf(same, notModified, func(r *record.Record) { r.Title = "now" }, notModified)
	var got []string
	if err := Between(linesOf(t, all[:2]...), linesOf(t, all[:1]...), t.TempDir(), short(&got)); err != nil || got != nil {
		t.Errorf("between crawls: %q, %v, want no change", got, err)
	}
	for _, rounds := range []Rounds{{0, 1}, {2, 3}} {
		if err := rounds.Read(linesOf(t, all...), t.TempDir(), short(&got)); err != nil || got != nil {
			t.Errorf("rounds %v: %q, %v, want no change", rounds, got, err)
		}
	}
	if err := (Rounds{1, 3}).Read(linesOf(t, all...), t.TempDir(), short(&got)); err != nil || len(got) != 1 || !strings.Contains(got[0], "title 200>200 t>now") {
		t.Errorf("rounds 1 and 3: %q, %v, want the title", got, err)
	}
}
