package crawltest_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"testing"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/crawltest"
)

// onPage is a handler to test.
func onPage(_ context.Context, page *crawl.Page) error {
	if page.Document().Find("h1").Length() == 0 {
		return errors.New("no title")
	}
	return nil
}

// TestGuide has the code of docs/guide/library.md.
func TestGuide(t *testing.T) {
	page := crawltest.Page(t, crawl.Config{}, "https://a.test/1", 200, nil, []byte("<h1>Tea</h1>"))
	if err := onPage(t.Context(), page); err != nil {
		t.Error(err)
	}

	web := crawltest.Web{"a.test": http.FileServerFS(os.DirFS("testdata/site"))}
	result, err := crawltest.Run(t.Context(), crawl.Config{Seeds: []string{"https://a.test/"}, OnPage: onPage}, web)
	if err != nil || len(result.Records) != 3 {
		t.Errorf("crawled %d pages, %v", len(result.Records), err)
	}
}
