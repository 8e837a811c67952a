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
	found, _, ok, err = r.last(idOrURL, noLimit)
	return found, ok, err
}

// Trail returns the last record of a URL, then the record of its referrer, and so on up to
// a seed. idOrURL is as for Find. The result is empty for an unknown URL. If the trail has
// MaxTrail records, or if a record is missing, it ends before the seed, and its last
// record has a ReferrerID.
//
// A page's record is written before the records of the URLs found on the page. So each step
// reads only up to the record that the previous step found. In a breadth-first crawl, pages
// near a seed have the first records, so most steps read little.
func (r Reader) Trail(idOrURL string) ([]Record, error) {
	var trail []Record
	for key, limit := idOrURL, noLimit; key != "" && len(trail) < MaxTrail; {
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
	for l, err := range r.records(limit) {
		if err != nil {
			return Record{}, Place{}, false, err
		}
		if !slices.ContainsFunc(needles, func(needle []byte) bool { return bytes.Contains(l.text, needle) }) {
			continue
		}
		record, err := decode(l.text)
		if err != nil {
			return Record{}, Place{}, false, l.fault(err)
		}
		if match(&record) {
			found, at, ok = record, l.at, true
		}
	}
	return found, at, ok, nil
}

// needlesFor returns texts and a function that reports whether a record matches. The line
// of a matching record contains one of the texts. Searching lines for text is faster than
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
