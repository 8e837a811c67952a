package bench

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bloomfrontier/crawler/bench/realhtml"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/extract"
)

// TestFastLinksOnRealHTML reads pages that were written by people, not by a generator. It
// extracts the links of each page twice: from the parsed document, and, with the option
// FastLinks, only from the tokens of the page. Both ways must find the same links.
func TestFastLinksOnRealHTML(t *testing.T) {
	trees, err := realhtml.Installed()
	switch {
	case errors.Is(err, realhtml.ErrMissing) && os.Getenv("CRAWLER_TEST_SERVERS") != "require":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	c, err := canon.New(canon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	base, err := c.Parse("https://docs.example.org/some/page.html")
	if err != nil {
		t.Fatal(err)
	}
	pages, links := 0, 0
	for _, tree := range trees {
		err := filepath.WalkDir(tree.Dir, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(name) != ".html" {
				return err
			}
			body, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			pages++
			links += sameLinks(t, name, body, base, extract.Options{Canon: c, Assets: true})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d pages, %d links", pages, links)
	if links < pages {
		t.Errorf("%d pages have %d links, want at least one link for each page", pages, links)
	}
}

// sameLinks checks that both ways find the same links of a page, and returns the number of
// links.
func sameLinks(t *testing.T, name string, body []byte, base canon.URL, opt extract.Options) int {
	t.Helper()
	parsed := extract.HTML(body, "text/html", base, opt)
	opt.FastLinks = true
	fast := extract.HTML(body, "text/html", base, opt)
	urls := func(p *extract.Page) []string {
		all := []string{p.Title, p.Base.String(), p.Canonical.String()}
		for _, l := range p.Links {
			all = append(all, l.Kind.String()+" "+l.URL.String())
		}
		return all
	}
	if diff := cmp.Diff(urls(parsed), urls(fast)); diff != "" {
		t.Errorf("%s: the links of the parsed document and of FastLinks differ (-document +FastLinks):\n%s", name, diff)
	}
	return len(fast.Links)
}
