// Package sitemap reads the URLs out of sitemaps: the XML of sitemaps.org and
// its index, text files of one URL a line, RSS and Atom feeds, each gzipped or
// not.
//
// It owns the forms of a file and their limits. It reads a stream, and keeps no
// more of it than a token. It requests nothing, resolves no URL against another
// and judges none: whether a sitemap may speak for a host, how deep indexes may
// nest and how often to come back is its caller's business. What a file says of
// a URL besides (lastmod, changefreq, priority) is not read: most sites generate
// it, and it decides nothing here.
//
// Broken files are the rule, so there is no XML parser behind it but the HTML
// tokenizer, which goes on where a parser stops: undeclared namespaces, stray
// ampersands and tags, bytes that are no UTF-8. Nor does it know entities that a
// file defines.
package sitemap

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

const (
	// MaxBytes is how much of a sitemap is read, uncompressed.
	MaxBytes = 50 << 20
	// MaxEntries is how many entries are taken from one.
	MaxEntries = 50_000

	// maxToken bounds a tag, a comment or a text: the article in a feed.
	maxToken = 1 << 20
	// maxURL bounds what is kept of an entry's URL. A longer one has no
	// canonical form that a frontier takes.
	maxURL = 4 * canon.MaxBytes
)

var (
	// ErrFormat reports a file that is no sitemap of any form.
	ErrFormat = errors.New("sitemap: not a sitemap")
	// ErrTooLarge reports a file of more than MaxBytes.
	ErrTooLarge = errors.New("sitemap: too large")
	// ErrTooMany reports a file of more than MaxEntries.
	ErrTooMany = errors.New("sitemap: too many entries")
	// ErrToken reports a tag, comment or text of more than 1 MiB.
	ErrToken = errors.New("sitemap: token too long")
	// ErrCut reports XML that ends within its elements.
	ErrCut = errors.New("sitemap: ends too early")
)

// Error says where in a file, as it is uncompressed and in UTF-8, reading it
// ended and why. The entries before it were visited.
type Error struct {
	Line   int   // from 1
	Offset int64 // in bytes
	Err    error // one of those above, or what the reader or the decompressor said
}

func (e *Error) Error() string { return fmt.Sprintf("line %d, byte %d: %v", e.Line, e.Offset, e.Err) }

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }

// Kind is what an entry names.
type Kind uint8

const (
	Page    Kind = iota
	Sitemap      // another file, for Read
)

func (k Kind) String() string {
	if k == Sitemap {
		return "sitemap"
	}
	return "page"
}

// Entry is one URL of a sitemap, as the file spells it but for entities and the
// white space around it. Feeds name relative ones too, relative to themselves.
type Entry struct {
	URL  string
	Kind Kind
}

// Format is the form of a sitemap.
type Format string

const (
	URLSet Format = "urlset"
	Index  Format = "index"
	Text   Format = "text"
	RSS    Format = "rss"
	Atom   Format = "atom"
)

// Summary is what was read.
type Summary struct {
	Format  Format // empty: of none
	Gzip    bool
	Entries int   // that were visited
	TooMany int   // beyond MaxEntries, which were not visited
	TooLong int   // too long to be a URL
	Skipped int   // that are empty or not UTF-8, and lines that are no URL
	Bytes   int64 // uncompressed
}

// WellKnown returns the paths where sitemaps are that no robots.txt names, the
// likeliest first.
func WellKnown() []string {
	return []string{"/sitemap.xml", "/sitemap_index.xml", "/sitemap.xml.gz", "/sitemap.txt"}
}

// Read shows the entries of a sitemap to visit, in order, until visit returns
// false. The error, an *Error, says why reading ended before the file did.
func Read(r io.Reader, visit func(Entry) bool) (Summary, error) {
	return read(newInput(r, MaxBytes), visit)
}

func read(in *input, visit func(Entry) bool) (Summary, error) {
	var sum Summary
	show := func(url string, kind Kind) error {
		switch {
		case len(url) > maxURL:
			sum.TooLong++
			return nil
		case url == "" || !utf8.ValidString(url):
			sum.Skipped++
			return nil
		case sum.Entries == MaxEntries:
			sum.TooMany++
			return nil
		}
		sum.Entries++
		if !visit(Entry{URL: url, Kind: kind}) {
			return errStopped
		}
		return nil
	}
	line, offset := 1, int64(0)
	text, isText, err := in.open()
	switch {
	case err != nil:
	case isText:
		sum.Format = Text
		line, offset, err = readLines(text, show, &sum.Skipped)
		if err == nil && sum.Entries == 0 {
			sum.Format, err = "", ErrFormat
		}
	default:
		x := newElements(text, show)
		err = x.read()
		line, offset, sum.Format = x.line, x.offset, x.format
	}
	sum.Gzip, sum.Bytes = in.gzip, in.bytes()
	if errors.Is(err, errStopped) {
		return sum, nil
	}
	if sum.TooMany > 0 {
		err = tooMany(sum.TooMany, err)
	}
	if err == nil {
		return sum, nil
	}
	return sum, &Error{Line: line, Offset: offset, Err: err}
}

// tooMany returns the error of a file with entries beyond MaxEntries, which may
// have another fault, too.
func tooMany(more int, err error) error {
	if err == nil {
		return fmt.Errorf("%w: %d more than %d", ErrTooMany, more, MaxEntries)
	}
	return fmt.Errorf("%w: at least %d more than %d; %w", ErrTooMany, more, MaxEntries, err)
}

// errStopped reports that visit wants no more.
var errStopped = errors.New("sitemap: stopped")

// readLines reads a text sitemap, and returns where it ended.
func readLines(text *bufio.Reader, show func(string, Kind) error, skipped *int) (line int, offset int64, err error) {
	var url []byte
	for line = 1; ; {
		part, err := text.ReadSlice('\n')
		offset += int64(len(part))
		if len(url) <= maxURL { // of a longer line the rest is not kept
			url = append(url, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		switch found := trim(string(url)); {
		case found == "" || found[0] == '#':
		case !isURL(found):
			*skipped++
		default:
			if err := show(found, Page); err != nil {
				return line, offset, err
			}
		}
		if errors.Is(err, io.EOF) {
			return line, offset, nil
		}
		if err != nil {
			return line, offset, err
		}
		url = url[:0]
		line++
	}
}
