package record

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// MaxTrail is the longest trail that Trail follows, in records.
const MaxTrail = 100

// Find returns the last record of a URL. idOrURL is its canonical form or the id of its
// record. Find reads all records once.
func (r Reader) Find(idOrURL string) (found Record, ok bool, err error) {
	found, _, ok, err = r.last(idOrURL, everything)
	return found, ok, err
}

// Trail returns the last record of a URL, then the record of its referrer, and so on up to
// a seed. idOrURL is as for Find. The result is empty for an unknown URL. It ends before
// the seed after MaxTrail records, or if a record is missing. Then its last record has a
// ReferrerID.
//
// A page's record is written before the records of the URLs found on it, so each step reads
// no further than the step before. In a breadth-first crawl the whole trail costs little
// more than one pass.
func (r Reader) Trail(idOrURL string) ([]Record, error) {
	var trail []Record
	for key, limit := idOrURL, everything; key != "" && len(trail) < MaxTrail; {
		found, at, ok, err := r.last(key, limit)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		trail = append(trail, found)
		key, limit = found.ReferrerID, at
	}
	return trail, nil
}

// last returns the last record of a URL before limit, and where it begins.
func (r Reader) last(idOrURL string, limit Place) (found Record, at Place, ok bool, err error) {
	needles, match := needlesFor(idOrURL)
	for b, err := range r.blocks(limit) {
		if err != nil {
			return Record{}, Place{}, false, err
		}
		for _, needle := range needles {
			for hit := range hits(b.lines, needle) {
				begin := bytes.LastIndexByte(b.lines[:hit], '\n') + 1
				end := hit + bytes.IndexByte(b.lines[hit:], '\n')
				offset := b.at.Offset + int64(begin)
				record, err := decode(b.lines[begin:end])
				if err != nil {
					return Record{}, Place{}, false, fault(b.name, offset, err)
				}
				if here := (Place{b.at.File, offset}); match(&record) && (!ok || at.Before(here)) {
					found, at, ok = record, here, true
				}
			}
		}
	}
	return found, at, ok, nil
}

// hits returns the offsets of needle in text.
func hits(text, needle []byte) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for from := 0; ; {
			i := bytes.Index(text[from:], needle)
			if i < 0 || !yield(from+i) {
				return
			}
			from += i + len(needle)
		}
	}
}

// needlesFor returns texts, of which the line of a matching record contains one, and a
// function that reports whether a record matches. Searching lines for text is faster than
// parsing them. Quotes within strings are escaped, so a quoted key is found only where it
// is a key.
func needlesFor(idOrURL string) (needles [][]byte, match func(*Record) bool) {
	if isID(idOrURL) {
		return [][]byte{[]byte(`"id":"` + idOrURL + `"`)}, func(r *Record) bool { return r.ID == idOrURL }
	}
	var plain bytes.Buffer // the writer of the record may have escaped & or not
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(idOrURL) // encoding a string does not fail
	escaped, _ := json.Marshal(idOrURL)
	for _, text := range [][]byte{bytes.TrimSpace(plain.Bytes()), escaped} {
		needles = append(needles, append([]byte(`"url":`), text...))
	}
	needles = slices.CompactFunc(needles, bytes.Equal)
	return needles, func(r *Record) bool { return r.URL == idOrURL }
}

// isID reports whether s has the form of a record's id. No URL has this form.
func isID(s string) bool { return len(s) == 16 && strings.Trim(s, "0123456789abcdef") == "" }
