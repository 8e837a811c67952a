package crawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/crawl/links"
	"github.com/bloomfrontier/crawler/fetcher/record"
)

// ErrNoLinks reports a question about the links of a crawl that kept none.
var ErrNoLinks = engine.ErrNoLinks

// Links returns the records of the crawl and the links that it kept. Each iteration
// reads the current records and links. Reading the links returns ErrNoLinks if the crawl
// keeps none.
func (h *Handle) Links(ctx context.Context) links.Source {
	return links.Source{
		Records: func() iter.Seq2[record.Record, error] { return parsed[record.Record](h.Records(ctx)) },
		Links:   func() iter.Seq2[links.Link, error] { return h.links(ctx) },
	}
}

func (h *Handle) links(ctx context.Context) iter.Seq2[links.Link, error] {
	return func(yield func(links.Link, error) bool) {
		for page, err := range h.keptLines(ctx) {
			if err != nil {
				yield(links.Link{}, err)
				return
			}
			for _, edge := range page.Links {
				if !yield(links.Link{Source: page.Source, Edge: edge, Round: page.Round}, nil) {
					return
				}
			}
		}
	}
}

// keptLines yields the links that the crawl kept, up to 1,000 of one page at a time.
func (h *Handle) keptLines(ctx context.Context) iter.Seq2[record.PageLinks, error] {
	return func(yield func(record.PageLinks, error) bool) {
		for page, err := range parsed[record.PageLinks](h.lines(ctx, engine.EdgesOf)) {
			if errors.Is(err, ErrNoLinks) && h.keptLinks() {
				return // no page had a link
			}
			if !yield(page, err) || err != nil {
				return
			}
		}
	}
}

// keptLinks reports whether a run of the crawl kept links.
func (h *Handle) keptLinks() bool {
	kept, err := h.Kept()
	return err == nil && kept.Links > 0
}

// parsed parses lines of JSON.
func parsed[T any](lines iter.Seq2[[]byte, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		n := 0
		for line, err := range lines {
			var value T
			n++
			if err == nil {
				if err = json.Unmarshal(line, &value); err != nil {
					err = fmt.Errorf("line %d: %w", n, err)
				}
			}
			if !yield(value, err) || err != nil {
				return
			}
		}
	}
}

// Canonical returns the canonical form that the settings of the crawl give to a URL.
func (h *Handle) Canonical(ctx context.Context, url string) (string, error) {
	return ask(ctx, h, verbCanonical, url)
}
