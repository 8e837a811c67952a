package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/internal/human"
)

// optionalData is data that a crawl keeps only if a flag asks for it.
type optionalData struct {
	name, flag string
	kept       func(crawl.Kept) uint64
}

var (
	linkData   = optionalData{"links", "--links", func(k crawl.Kept) uint64 { return k.Links }}
	textData   = optionalData{"texts", "--text", func(k crawl.Kept) uint64 { return k.Text }}
	fieldData  = optionalData{"fields", "--field", func(k crawl.Kept) uint64 { return k.Fields }}
	answerData = optionalData{"answers", "--save html", func(k crawl.Kept) uint64 { return k.Answers }}
)

// dataOf returns the optional data in columns of records.
func dataOf(columns []string) (data []*optionalData) {
	for _, name := range columns {
		var of *optionalData
		switch {
		case slices.Contains([]string{"text", "lang", "author", "published"}, name):
			of = &textData
		case name == "fields" || name == "incomplete" || strings.HasPrefix(name, "fields."):
			of = &fieldData
		case name == "warc" || name == "warc_offset":
			of = &answerData
		}
		if of != nil && !slices.Contains(data, of) {
			data = append(data, of)
		}
	}
	return data
}

// checkKept returns an error with the code exitNotKept if optional data was not kept of all pages.
// The caller has printed what is there.
func checkKept(c *attached, data ...*optionalData) error {
	if len(data) == 0 {
		return nil
	}
	kept, err := c.Kept()
	if err != nil {
		return err
	}
	var faults []error
	for _, d := range data {
		if n := d.kept(kept); n < kept.Pages {
			faults = append(faults, fmt.Errorf("%s were kept of %s of %s: the runs that fetched the others had no %s. "+
				"To collect all, begin a new crawl, in another directory, with %s",
				d.name, human.Commas(n), human.Plural(kept.Pages, "page"), d.flag, d.flag))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return printed{&exitError{exitNotKept, errors.Join(faults...)}}
}
