package pagedata

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"golang.org/x/net/html"

	"github.com/bloomfrontier/crawler/bench/realhtml"
	"github.com/bloomfrontier/crawler/fetcher/fields"
	"github.com/bloomfrontier/crawler/internal/maintext"
)

// frames has a CSS selector for each realhtml.Tree, by the name of the tree. The selector
// matches the elements that are not content, such as page headers.
var frames = map[string]string{
	"git":    "head, script, style, #footer, #header",
	"sqlite": "head, script, style, .nosearch, #toc_sub",
}

// TestRealText compares two texts of each page from Debian packages: the extracted main
// text, and all text outside the elements that frames selects. It counts the words that are
// in both. For each tree, the mean recall of the main texts must be at least 0.93, and their
// mean precision at least 0.97.
func TestRealText(t *testing.T) {
	trees, err := realhtml.Installed()
	if errors.Is(err, realhtml.ErrMissing) && os.Getenv("CRAWLER_TEST_SERVERS") != "require" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, tree := range trees {
		var precision, recall, pages float64
		for _, root := range documents(t, tree.Dir) {
			document := goquery.CloneDocument(goquery.NewDocumentFromNode(root))
			document.Find(frames[tree.Name]).Remove()
			want := words(textOf(t, document.Nodes[0]))
			if total(want) < 100 { // the page has only a redirect or a drawing
				continue
			}
			got := words(maintext.Extract(root, nil).Text)
			both := 0
			for word, n := range got {
				both += min(n, want[word])
			}
			precision += float64(both) / float64(max(total(got), 1))
			recall += float64(both) / float64(total(want))
			pages++
		}
		t.Logf("%s: %.0f pages, precision %.3f, recall %.3f", tree.Name, pages, precision/pages, recall/pages)
		if pages < 100 || precision/pages < 0.97 || recall/pages < 0.93 {
			t.Errorf("%s: %.0f pages, precision %.3f, recall %.3f; want 100 pages or more, 0.97 and 0.93", tree.Name, pages, precision/pages, recall/pages)
		}
	}
}

// documents returns the parsed pages below dir. It skips pages that are larger than 1 MiB
// or cannot be parsed.
func documents(t testing.TB, dir string) (all []*html.Node) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".html" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || len(text) > 1<<20 {
			return err
		}
		if root, err := html.Parse(strings.NewReader(string(text))); err == nil {
			all = append(all, root)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// textOf returns all text of a document. It uses package fields to extract the text.
func textOf(t testing.TB, root *html.Node) string {
	t.Helper()
	rules, err := fields.New(fields.Group{Fields: []string{"text=body | raw"}})
	if err != nil {
		t.Fatal(err)
	}
	found := rules.For("x").Extract(fields.Page{Root: root})[0]
	if len(found.Values) == 0 {
		return ""
	}
	return found.Text(found.Values[0])
}

func words(text string) map[string]int {
	all := make(map[string]int)
	for word := range strings.FieldsSeq(text) {
		all[word]++
	}
	return all
}

func total(words map[string]int) (n int) {
	for _, count := range words {
		n += count
	}
	return n
}

// BenchmarkText extracts the main text of real pages, which were parsed before.
func BenchmarkText(b *testing.B) {
	trees, err := realhtml.Installed()
	if err != nil {
		b.Skip(err)
	}
	for _, tree := range trees {
		pages := documents(b, tree.Dir)
		b.Run(fmt.Sprintf("pages=%s", tree.Name), func(b *testing.B) {
			for i := range b.N {
				maintext.Extract(pages[i%len(pages)], nil)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pages/s")
		})
	}
}
