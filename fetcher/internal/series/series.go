// Package series recognises series of URLs that go on without saying anything new: calendars without end, and
// shops with a page for each combination of their filters.
//
// A series is the URLs of an origin that differ only in numbers and names of months (see Pattern). A page says
// something new if it has a text that no earlier page of its series had (see Read), or a link that is new to the
// crawl and leads out of the series. A link to another series that has been silent for a while does not count:
// the months of a calendar link to its days. A series is a trap if 50 of its pages in a row said nothing new,
// and links of silent pages still add to it. A series that only other pages list is none: it ends. What has
// said much is given more time: for each doubling of the texts beyond 128, the 50 pages double. While all pages of
// a series say something new, ever fewer of them are read, at last every 16th (see Skips).
//
// The package judges. It counts no pages of a crawl, applies no setting and makes no request (package fetcher).
// It does no I/O.
package series

import (
	"encoding/binary"
	"errors"
	"slices"
)

// Limits of the state of a host.
const (
	// MaxBytes is the largest length of Host.AppendBinary. The series that were not used for the longest
	// time are forgotten.
	MaxBytes = 2 << 10

	maxTexts    = 64   // of one series; with more, only every second one is remembered, and so on
	maxLevel    = 10   // a series with more texts than 64 × 2^maxLevel is never a trap
	maxPattern  = 120  // bytes of the pattern of a trap
	maxTrapping = 1024 // bytes of all traps
	maxCount    = 1 << 14
)

// When a series is a trap.
const (
	silentPages = 50 // pages in a row that said nothing new
	leastFed    = 25 // links to the series that silent pages added meanwhile
	quietPages  = 10 // pages in a row without a new text, after which links to the series are nothing new
)

// Which pages are read.
const (
	readsOfStride = 4 // pages with a new text after which half as many are read
	maxStride     = 4 // at least one of 2^maxStride pages is read
	soonQuiet     = 2 // pages in a row without a new text, after which all are read
)

// Host is what is known about the series of a host. The zero value knows nothing. It is not safe for concurrent use.
type Host struct {
	all   []*series // those used last are at the end
	traps int
}

// series is the state of one series.
type series struct {
	key     uint64 // of the pattern
	level   uint8  // texts with an id below idRange >> level are remembered
	ids     []uint32
	spoken  int    // pages with a new text
	quiet   int    // pages in a row without a new text
	silent  int    // pages in a row that said nothing new
	fed     int    // links that silent pages added to the series since a page said something new
	trap    bool   // the other fields except key and pattern are empty
	pattern string // of a trap; it can be cut
}

// patience is the number of silent pages that make a trap. A page with one new text is taken for silent with
// probability 1 - 1/2^level. For all pages in a row, that is at most e^-25.
func (s *series) patience() int { return silentPages << max(int(s.level)-1, 0) }

// isQuiet reports whether links to the series are nothing new.
func (s *series) isQuiet() bool { return s.trap || s.quiet >= quietPages<<s.level }

// Skips reports whether the text of a page of the series with this pattern is not needed, because the series has said
// much and one of its last pages said something new. Then nothing is noted about the page. Skips selects the pages by
// their URLs.
func (h *Host) Skips(pattern, url string) bool {
	s := h.find(keyOf(pattern))
	if s == nil || s.quiet >= soonQuiet<<s.level {
		return false
	}
	stride := s.spoken / readsOfStride
	return hashString(url)&(1<<stride-1) != 0
}

// Text notes the text of a page of the series with this pattern. It reports whether the page says something new.
// If not, the caller must call Links when it knows which links are new.
func (h *Host) Text(pattern string, text *Text) (isNew bool) {
	s := h.use(pattern)
	if s.trap {
		return false
	}
	if isNew = s.learn(text); isNew {
		s.spoken = min(s.spoken+1, maxStride*readsOfStride)
		s.quiet, s.silent, s.fed = 0, 0, 0
	} else {
		s.quiet = min(s.quiet+1, maxCount)
	}
	h.trim()
	return isNew
}

// Speak notes that a page of a series says something new, though not by a text that was read.
func (h *Host) Speak(pattern string) {
	if s := h.find(keyOf(pattern)); s != nil && !s.trap {
		s.quiet, s.silent, s.fed = 0, 0, 0
	}
}

// Links notes the URLs that a page without a new text has added to the crawl. It reports whether a series has
// become a trap.
func (h *Host) Links(pattern string, added []string) (trap bool) {
	own := h.use(pattern)
	fed := map[*series]string{own: pattern}
	for _, url := range added {
		target, numbered := Pattern(url)
		s := own
		if target != pattern {
			s = h.find(keyOf(target))
		}
		if !numbered || s == nil || s != own && !s.isQuiet() {
			own.silent, own.fed = 0, 0
			return false
		}
		s.fed = min(s.fed+1, maxCount)
		fed[s] = target
	}
	own.silent = min(own.silent+1, maxCount)
	for s, pattern := range fed {
		if !s.trap && s.silent >= s.patience() && s.fed >= leastFed {
			*s = series{key: s.key, trap: true, pattern: pattern[:min(len(pattern), maxPattern)]}
			h.traps++
			trap = true
		}
	}
	h.trim()
	return trap
}

// Judge returns whether a URL belongs to a series that is a trap.
func (h *Host) Judge(url string) (pattern string, trap bool) {
	if h.traps == 0 {
		return "", false
	}
	pattern, numbered := Pattern(url)
	if !numbered {
		return "", false
	}
	s := h.find(keyOf(pattern))
	return pattern, s != nil && s.trap
}

// Traps returns the patterns of the traps that are known, the latest one last.
func (h *Host) Traps() (patterns []string) {
	for _, s := range h.all {
		if s.trap {
			patterns = append(patterns, s.pattern)
		}
	}
	return patterns
}

// learn adds the texts of a page to those of the series, and reports whether any is new.
func (s *series) learn(text *Text) (isNew bool) {
	if s.level > maxLevel {
		return true
	}
	for _, id := range text.pieces {
		isNew = s.add(id) || isNew
	}
	numbers := 0
	for _, id := range text.numbers {
		if s.add(id) {
			numbers++
		}
	}
	return isNew || numbers >= leastNumbers || s.level > maxLevel
}

func (s *series) add(id uint32) (isNew bool) {
	if id >= idRange>>s.level {
		return false
	}
	at, known := slices.BinarySearch(s.ids, id)
	if known {
		return false
	}
	s.ids = slices.Insert(s.ids, at, id)
	for len(s.ids) > maxTexts {
		s.level++
		most, _ := slices.BinarySearch(s.ids, idRange>>s.level)
		s.ids = s.ids[:most]
	}
	if s.level > maxLevel {
		s.ids = nil
	}
	return true
}

// keyOf returns 48 bits of the hash of a pattern.
func keyOf(pattern string) uint64 { return hashString(pattern) >> 16 }

func (h *Host) find(key uint64) *series {
	for _, s := range h.all {
		if s.key == key {
			return s
		}
	}
	return nil
}

// use returns the state of a series, which is now the last one.
func (h *Host) use(pattern string) *series {
	key := keyOf(pattern)
	if n := len(h.all); n > 0 && h.all[n-1].key == key {
		return h.all[n-1]
	}
	s := h.find(key)
	if s == nil {
		s = &series{key: key}
	} else {
		h.all = slices.DeleteFunc(h.all, func(other *series) bool { return other == s })
	}
	h.all = append(h.all, s)
	return s
}

// size is at least the length of the encoded form of s.
func (s *series) size() int { return 6 + 1 + 4*3 + 3*len(s.ids) + 2 + len(s.pattern) }

// trim forgets series until the others fit into MaxBytes.
func (h *Host) trim() {
	all, traps := 1, 0
	for _, s := range h.all {
		all += s.size()
		if s.trap {
			traps += s.size()
		}
	}
	for all > MaxBytes {
		at := slices.IndexFunc(h.all, func(s *series) bool { return s.trap == (traps > maxTrapping) })
		s := h.all[at]
		all -= s.size()
		if s.trap {
			traps -= s.size()
			h.traps--
		}
		h.all = slices.Delete(h.all, at, at+1)
	}
}

// version is the first byte of the encoding. Version 1 had no spoken.
const version = 2

// ErrState reports bytes that were not written by AppendBinary.
var ErrState = errors.New("series: not the state of a host")

// AppendBinary appends the state to b, at most MaxBytes. If nothing is known, it appends nothing.
func (h *Host) AppendBinary(b []byte) ([]byte, error) {
	if len(h.all) > 0 {
		b = append(b, version)
	}
	for _, s := range h.all {
		b = append(b, byte(s.key>>40), byte(s.key>>32), byte(s.key>>24), byte(s.key>>16), byte(s.key>>8), byte(s.key))
		if s.trap {
			b = append(append(b, trapMark, byte(len(s.pattern))), s.pattern...)
			continue
		}
		b = append(b, s.level)
		for _, n := range [...]int{s.spoken, s.quiet, s.silent, s.fed, len(s.ids)} {
			b = binary.AppendUvarint(b, uint64(n))
		}
		last := uint32(0)
		for _, id := range s.ids {
			b = binary.AppendUvarint(b, uint64(id-last))
			last = id
		}
	}
	return b, nil
}

// trapMark stands in place of the level of a trap.
const trapMark = 0xff

// UnmarshalBinary sets the state from the bytes of AppendBinary. That of version 1 is forgotten. After an error, which is ErrState, h is unchanged.
func (h *Host) UnmarshalBinary(b []byte) error {
	if len(b) == 0 || b[0] == 1 {
		*h = Host{}
		return nil
	}
	if b[0] != version || len(b) > MaxBytes {
		return ErrState
	}
	var read Host
	for b = b[1:]; len(b) > 0; {
		s, rest := decode(b)
		if s == nil {
			return ErrState
		}
		if s.trap {
			read.traps++
		}
		read.all, b = append(read.all, s), rest
	}
	*h = read
	return nil
}

// decode reads one series. It returns nil if b does not begin with one.
func decode(b []byte) (s *series, rest []byte) {
	if len(b) < 8 {
		return nil, nil
	}
	s = &series{level: b[6], trap: b[6] == trapMark}
	for _, c := range b[:6] {
		s.key = s.key<<8 | uint64(c)
	}
	if s.trap {
		s.level = 0
		if n := int(b[7]); n <= maxPattern && len(b) >= 8+n {
			s.pattern = string(b[8 : 8+n])
			return s, b[8+n:]
		}
		return nil, nil
	}
	b = b[7:]
	number := func(most uint64) (n uint64) {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > most {
			s = nil
			return 0
		}
		b = b[size:]
		return n
	}
	counts := [...]uint64{number(maxStride * readsOfStride), number(maxCount), number(maxCount), number(maxCount), number(maxTexts)}
	if s == nil || s.level > maxLevel+1 {
		return nil, nil
	}
	s.spoken, s.quiet, s.silent, s.fed = int(counts[0]), int(counts[1]), int(counts[2]), int(counts[3])
	last := uint64(0)
	for i := range counts[4] {
		gap := number(uint64(idRange) >> s.level)
		last += gap
		if s == nil || last >= uint64(idRange)>>s.level || gap == 0 && i > 0 {
			return nil, nil
		}
		s.ids = append(s.ids, uint32(last))
	}
	return s, b
}
