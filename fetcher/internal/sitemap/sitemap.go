// Package sitemap reads the URLs in sitemaps and feeds. It reads the XML of sitemaps.org and its
// index, RSS and Atom feeds (the links of their items), and text files with one URL per line, gzipped or
// not. XML can be in any charset of the Encoding standard, text in UTF-8 or UTF-16.
//
// It owns the forms of a file and their limits. It reads a stream, and keeps only one token
// of it in memory. It makes no requests, resolves no URLs and applies no rules. The caller
// decides which hosts a sitemap may list, how deep indexes may nest and when to read a
// sitemap again. The package ignores changefreq and priority, because most sites generate
// them. Many sites generate lastmod, too, so the caller must find out whether it is true.
//
// Broken files are common. So the package uses the HTML tokenizer instead of an XML parser.
// It continues after undeclared namespaces, stray ampersands and tags, and invalid UTF-8.
// It does not replace entities that a file defines.
package sitemap

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

const (
	// MaxBytes is how much of a sitemap is read, uncompressed.
	MaxBytes = 50 << 20
	// MaxEntries is how many entries of a sitemap are visited.
	MaxEntries = 50_000

	// maxToken bounds a tag, a comment or a text.
	maxToken = 1 << 20
	// maxURL bounds what is kept of an entry's URL. A longer URL has no canonical form
	// that a frontier accepts.
	maxURL = 4 * canon.MaxBytes
)

var (
	// ErrFormat reports a file that is not a sitemap of any form.
	ErrFormat = errors.New("sitemap: not a sitemap")
	// ErrTooLarge reports a file of more than MaxBytes bytes.
	ErrTooLarge = errors.New("sitemap: too large")
	// ErrTooMany reports a file of more than MaxEntries entries.
	ErrTooMany = errors.New("sitemap: too many entries")
	// ErrToken reports a tag, comment or text of more than 1 MiB.
	ErrToken = errors.New("sitemap: token too long")
	// ErrCut reports XML that ends while elements are open.
	ErrCut = errors.New("sitemap: ends too early")
)

// Kind is what an entry refers to.
type Kind uint8

const (
	Page      Kind = iota
	Sitemap        // another sitemap, which Read can read
	Part           // another part of the same feed (RFC 5005); only ReadFeed visits it
	Enclosure      // a file that belongs to an item of a feed; only ReadFeed visits it
)

// Entry is one URL of a sitemap as the file spells it, without entities and surrounding
// white space.
type Entry struct {
	URL  string
	Kind Kind
	// Bases are the values of xml:base of the elements around the URL, outermost first. The URL
	// is relative to the last one, each of them to the one before, and the first to the URL of the
	// file. Bases is valid only during the call of visit.
	Bases []string
}

// Summary counts what was read.
type Summary struct {
	Entries   int // entries that were visited
	TooMany   int // entries beyond MaxEntries, which were not visited
	TooLong   int // entries whose URL is too long
	Undecoded int // entries whose URL has bytes that are not text in the charset of the file
}

// Read calls visit with the entries of a sitemap, in order, until visit returns false. Read
// returns an error if it could not read the whole file, or if the file has more than
// MaxEntries entries: one of the errors above, or that of the reader or the decompressor. It
// returns no error if visit returned false. The argument contentType is the Content-Type of the
// file, or empty.
func Read(r io.Reader, contentType string, visit func(Entry) bool) (Summary, error) {
	return read(r, contentType, reading{limit: MaxBytes}, visit)
}

// ReadFeed is like Read, for a feed that is read for its links. It also visits the enclosures of
// items, and further parts of the feed.
func ReadFeed(r io.Reader, contentType string, visit func(Entry) bool) (Summary, error) {
	return read(r, contentType, reading{limit: MaxBytes, feed: true}, visit)
}

// Modified is the lastmod of an entry. The day, month or year of a date without a time is in UTC.
type Modified struct {
	URL          string
	Bases        []string  // as in Entry
	First, Until time.Time // the page was modified last in this second, day, month or year; Until is its end
}

// ReadModified is like Read, and also calls modified with each lastmod, soon after the call of visit with its entry.
func ReadModified(r io.Reader, contentType string, visit func(Entry) bool, modified func(Modified)) (Summary, error) {
	return read(r, contentType, reading{limit: MaxBytes, modified: modified}, visit)
}

// reading is how a file is read.
type reading struct {
	modified func(Modified) // nil means that lastmod is not read
	limit    int64          // of its bytes
	feed     bool           // as ReadFeed does
}

func read(r io.Reader, contentType string, how reading, visit func(Entry) bool) (Summary, error) {
	var sum Summary
	text, err := open(r, contentType, how.limit)
	show := func(entry Entry) error {
		url := entry.URL
		switch {
		case len(url) > maxURL:
			sum.TooLong++
			return nil
		case url == "":
			return nil
		case !utf8.ValidString(url), text.decoded && strings.ContainsRune(url, utf8.RuneError):
			sum.Undecoded++
			return nil
		case sum.Entries == MaxEntries:
			sum.TooMany++
			return nil
		}
		sum.Entries++
		if !visit(entry) {
			return errStopped
		}
		return nil
	}
	switch {
	case err != nil:
	case text.lines:
		err = readLines(text.Reader, show)
		if err == nil && sum.Entries == 0 {
			err = ErrFormat
		}
	default:
		x := newElements(text.Reader, how.feed, show)
		x.modified = how.modified
		err = x.read()
	}
	if errors.Is(err, errStopped) {
		return sum, nil
	}
	if sum.TooMany > 0 {
		err = tooMany(sum.TooMany, err)
	}
	return sum, err
}

// tooMany returns the error of a file with more than MaxEntries entries. The file may also
// have another fault, err.
func tooMany(more int, err error) error {
	if err == nil {
		return fmt.Errorf("%w: %d more than %d", ErrTooMany, more, MaxEntries)
	}
	return fmt.Errorf("%w: at least %d more than %d; %w", ErrTooMany, more, MaxEntries, err)
}

// errStopped reports that visit returned false.
var errStopped = errors.New("sitemap: stopped")

// readLines reads a text sitemap.
func readLines(text *bufio.Reader, show func(Entry) error) error {
	var url []byte
	for {
		part, err := text.ReadSlice('\n')
		if len(url) <= maxURL { // the rest of a longer line is not kept
			url = append(url, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if found := trim(string(url)); isURL(found) { // other lines are empty, comments or meaningless
			if err := show(Entry{URL: found}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		url = url[:0]
	}
}
