package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
	"github.com/bloomfrontier/crawler/frontier"
)

// TestExportEdges: the exported edges are those that were written with the exported records,
// even if workers take records back, die, and fetch pages again.
func TestExportEdges(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 7))
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	var pages, links []*Journal
	for _, dir := range dirs {
		beside, err := OpenJournal(Config{Dir: dir, Series: Links, RotateBytes: 20 << 10})
		if err != nil {
			t.Fatal(err)
		}
		journal, err := OpenJournal(Config{Dir: dir, RotateBytes: 10 << 10, OpenArchive: func(string) (frontier.Output, error) { return beside, nil }})
		if err != nil {
			t.Fatal(err)
		}
		pages, links = append(pages, journal), append(links, beside)
	}
	pending := make(map[Key]bool)
	for item := range 300 {
		key := Key{Item: bloomstore.Fingerprint{byte(rng.IntN(4)), byte(item >> 8), byte(item)}, Round: uint32(rng.IntN(2))}
		if rng.IntN(10) == 0 {
			pending[key] = true
		}
		for range 1 + rng.IntN(3) { // several workers fetch the item if a worker dies or loses its lease
			r := Record{URL: fmt.Sprintf("http://a.example/%d", item), ID: fmt.Sprintf("%016x", item), Outcome: "ok", Item: key.Item, Round: int(key.Round),
				FetchedAt: time.UnixMilli(rng.Int64N(5)).UTC(), Lease: frontier.LeaseID{byte(rng.IntN(256)), byte(rng.IntN(256))}}
			w := rng.IntN(len(dirs))
			edges := randomEdges(rng, hexOf(r.Lease))
			fate := rng.IntN(8)
			if err := links[w].AppendEdges(&r, edges); err != nil {
				t.Fatal(err)
			}
			if fate == 0 { // the worker dies before it writes the record
				continue
			}
			if err := pages[w].Append(&r); err != nil {
				t.Fatal(err)
			}
			switch fate {
			case 1:
				if err := pages[w].Void(&r); err != nil {
					t.Fatal(err)
				}
			case 2: // the store was unreachable, so the record is appended again
				if err := links[w].AppendEdges(&r, edges); err != nil {
					t.Fatal(err)
				}
				if err := pages[w].Append(&r); err != nil {
					t.Fatal(err)
				}
			}
			if rng.IntN(25) == 0 {
				if _, err := pages[w].Sync(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for i := range pages {
		if err := pages[i].Close(); err != nil {
			t.Fatal(err)
		}
		if err := links[i].Close(); err != nil {
			t.Fatal(err)
		}
	}
	waits := func(yield func(Key, error) bool) {
		for _, key := range slices.Collect(maps.Keys(pending)) {
			if !yield(key, nil) {
				return
			}
		}
	}
	export := func(edges bool) (lines [][]byte, sums Exported) {
		var out bytes.Buffer
		sums, err := Export{Dirs: dirs, Temp: t.TempDir(), Pending: waits, Edges: edges}.To(t.Context(), &out)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Collect(func(yield func([]byte) bool) { bytes.Lines(out.Bytes())(yield) }), sums
	}
	records, sums := export(false)
	exported := make(map[string]string) // lease by item and round
	for _, text := range records {
		line, err := parseLeased(text)
		if err != nil {
			t.Fatal(err)
		}
		exported[fmt.Sprint(line.Key)] = hexOf(line.lease)
	}
	edges, same := export(true)
	if same != sums {
		t.Errorf("sums %+v with edges, %+v without, want the same", same, sums)
	}
	found := make(map[string]map[int]int) // by item and round: number of edges by part
	for _, text := range edges {
		line, err := parseLeased(text)
		if err != nil {
			t.Fatal(err)
		}
		var page PageLinks
		if err := json.Unmarshal(text, &page); err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprint(line.Key)
		if found[key] == nil {
			found[key] = make(map[int]int)
		}
		if _, twice := found[key][page.Part]; twice {
			t.Errorf("part %d of %s comes twice", page.Part, page.Source)
		}
		found[key][page.Part] = len(page.Links)
		if lease := page.Links[0].Text; exported[key] != lease {
			t.Errorf("the edges of %s have the lease %s, its record has the lease %q", page.Source, lease, exported[key])
		}
	}
	for key, lease := range exported {
		n := 0
		for _, some := range found[key] {
			n += some
		}
		if want := edgesOf(lease); n != want {
			t.Errorf("%s has %d edges (in %d lines), want %d edges", key, n, len(found[key]), want)
		}
	}
	t.Logf("%d records, %d lines of edges, %d pending, %d void, %d repeated", sums.Records, len(edges), sums.Pending, sums.Void, sums.Repeated)
}

func hexOf(lease frontier.LeaseID) string { return fmt.Sprintf("%x", lease[:]) }

// edgesOf returns the number of edges of a page that was fetched under a lease:
// none, some, or more than a line holds.
func edgesOf(lease string) int {
	return []int{0, 1, 3, 2*edgesPerLine + 1}[strings.IndexByte("0123456789abcdef", lease[1])%4]
}

func randomEdges(rng *rand.Rand, lease string) (edges []Edge) {
	for range edgesOf(lease) {
		edges = append(edges, Edge{Target: fmt.Sprintf("http://b.example/%d", rng.IntN(1000)), Text: lease, Rel: `"round":7,"part":9,{"fingerprint":"`, Kind: "a"})
	}
	return edges
}

// TestEdgesOfFiles: one process writes its records and its links to separate files in one
// directory. Both kinds of files are cut to the committed position.
func TestEdgesOfFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func(position frontier.Position) (pages, links *Files) {
		pages, err := Open(Config{Dir: dir, OpenArchive: func(string) (_ frontier.Output, err error) {
			links, err = Open(Config{Dir: dir, Series: Links}, Links.Of(position))
			return links, err
		}}, position)
		if err != nil {
			t.Fatal(err)
		}
		return pages, links
	}
	write := func(pages, links *Files, url string) frontier.Position {
		r := Record{URL: url, ID: "00"}
		if err := links.AppendEdges(&r, []Edge{{Target: url + "/x", Text: "x", Rel: "nofollow", Kind: "a"}}); err != nil {
			t.Fatal(err)
		}
		if err := pages.Append(&r); err != nil {
			t.Fatal(err)
		}
		position, err := pages.Sync()
		if err != nil {
			t.Fatal(err)
		}
		return position
	}
	closeBoth := func(pages, links *Files) {
		if err := pages.Close(); err != nil {
			t.Fatal(err)
		}
		if err := links.Close(); err != nil {
			t.Fatal(err)
		}
	}
	pages, links := open(nil)
	committed := write(pages, links, "http://a.example/1")
	write(pages, links, "http://a.example/2") // never committed
	closeBoth(pages, links)
	pages, links = open(committed)
	committed = write(pages, links, "http://a.example/3")
	closeBoth(pages, links)
	if len(committed) != 2 || len(Links.Of(committed)) != 1 {
		t.Errorf("position %v, want one file of each series", committed)
	}
	var got []string
	for line, err := range (Reader{Dir: dir, Series: Links, End: committed}).Lines() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(line))
	}
	want := []string{
		`{"source":"http://a.example/1","id":"00","round":0,"part":0,"links":[{"target":"http://a.example/1/x","text":"x","rel":"nofollow","kind":"a"}]}` + "\n",
		`{"source":"http://a.example/3","id":"00","round":0,"part":0,"links":[{"target":"http://a.example/3/x","text":"x","rel":"nofollow","kind":"a"}]}` + "\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines of links (-want +got):\n%s", diff)
	}
}
