package lineage

import (
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
)

// print returns the fingerprint of a URL in these tests.
func print(url string) (f [16]byte) {
	copy(f[:], strings.Repeat("\x00", 8-len(url)%9)+url)
	return f
}

func idOf(url string) string {
	if url == "" {
		return ""
	}
	f := print(url)
	return hex.EncodeToString(f[:8])
}

// recordOf returns the record of the page url. The page referrer has a link to this page,
// and the argument links is the number of new links on this page.
func recordOf(referrer, url string, outcome frontier.Outcome, links uint64) record.Record {
	return record.Record{URL: url, ID: idOf(url), ReferrerID: idOf(referrer), Outcome: string(outcome), LinksAdded: links}
}

func waiting(referrer, url string) frontier.Item {
	item := frontier.Item{URL: url, Fingerprint: print(url)}
	if referrer != "" {
		item.Referrer = frontier.ReferrerOf(print(referrer))
	}
	return item
}

func linesOf(t *testing.T, records []record.Record) func() iter.Seq2[[]byte, error] {
	return func() iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			for i := range records {
				line, err := records[i].AppendLine(nil)
				if err != nil {
					t.Fatal(err)
				}
				if !yield(line, nil) {
					return
				}
			}
		}
	}
}

func TestEachSeed(t *testing.T) {
	records := []record.Record{
		recordOf("", "done", frontier.OK, 2),
		recordOf("done", "d1", frontier.OK, 1),
		recordOf("", "apex", frontier.Redirect, 1),
		recordOf("d1", "d2", frontier.Network, 0),
		recordOf("d1", "a check is no URL of the seed", frontier.CheckOK, 0),
		recordOf("apex", "www", frontier.Redirect, 1),
		recordOf("www", "www2", frontier.Robots, 0),
		recordOf("", "dead", frontier.HostDead, 0),
		recordOf("", "cut", frontier.OK, 3),
		recordOf("cut", "c1", frontier.OK, 5),
		recordOf("gone", "lost", frontier.OK, 1), // the record of its referrer is missing
		recordOf("", "again", frontier.Network, 0),
		recordOf("d1", "d2", frontier.OK, 0), // a second round
		recordOf("", "retried", frontier.Network, 0),
		recordOf("", "again", frontier.OK, 0), // finished again, after the seed "retried"
	}
	items := []frontier.Item{waiting("done", frontier.CheckURL("http://out.test/")), waiting("cut", "c2"), waiting("c1", "c3"), waiting("", "new"), waiting("lost", "l"), waiting("", "retried")}
	var got []Seed
	if err := Each(Crawl{linesOf(t, records), itemsOf(nil, items...)}, func(s Seed) error { got = append(got, s); return nil }); err != nil {
		t.Fatal(err)
	}
	want := []Seed{
		{URL: "new", Why: Limit, Waiting: 1},
		{URL: "done", Why: Complete, Outcome: frontier.OK, Pages: 2, URLs: 3},
		{URL: "apex", Why: Robots, Outcome: frontier.Redirect, URLs: 2},
		{URL: "dead", Why: Dead, Outcome: frontier.HostDead},
		{URL: "cut", Why: Limit, Outcome: frontier.OK, Pages: 1, URLs: 1, Waiting: 2},
		{URL: "retried", Why: Limit, Outcome: frontier.Network, Waiting: 1},
		{URL: "again", Why: Complete, Outcome: frontier.OK},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("(-want +got):", diff)
	}
}

// itemsOf yields items, and then err if err is not nil.
func itemsOf(err error, items ...frontier.Item) iter.Seq2[frontier.Item, error] {
	return func(yield func(frontier.Item, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
		if err != nil {
			yield(frontier.Item{}, err)
		}
	}
}

// TestReturnsErrors: Each returns the errors of its sources and of emit.
func TestReturnsErrors(t *testing.T) {
	broken := errors.New("broken")
	good := linesOf(t, []record.Record{recordOf("", "a", frontier.OK, 0)})
	none, one := itemsOf(nil), itemsOf(nil, waiting("", "b"))
	keep := func(Seed) error { return nil }
	lines := func(text string, err error) func() iter.Seq2[[]byte, error] {
		return func() iter.Seq2[[]byte, error] {
			return func(yield func([]byte, error) bool) { yield([]byte(text), err) }
		}
	}
	for name, test := range map[string]struct {
		crawl Crawl
		emit  func(Seed) error
		want  string
	}{
		"records": {Crawl{lines("", broken), none}, keep, "broken"},
		"a line":  {Crawl{lines("{", nil), none}, keep, "record"},
		"an id":   {Crawl{lines(`{"id":"12"}`, nil), none}, keep, `id "12"`},
		"a list":  {Crawl{good, itemsOf(broken)}, keep, "broken"},
		"output":  {Crawl{good, none}, func(Seed) error { return broken }, "broken"},
		"outputs": {Crawl{good, one}, func(Seed) error { return broken }, "broken"},
	} {
		err := Each(test.crawl, test.emit)
		if err == nil || !strings.Contains(fmt.Sprint(err), test.want) {
			t.Errorf("%s: error %v, want one that says %q", name, err, test.want)
		}
	}
}
