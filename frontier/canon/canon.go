// Package canon gives every URL one spelling, and says which host it belongs to.
//
// It owns the canonical URL, the host key (the unit of politeness) and the keys
// that decide scope. It fetches nothing, resolves no names, remembers no URL and
// does no I/O. Everything in it is safe for concurrent use.
//
// # The canonical form
//
// A URL is read as the WHATWG URL standard says (https://url.spec.whatwg.org/):
//
//   - white space around it and tabs and newlines in it are dropped;
//   - scheme and host are lower-cased;
//   - a host that is not ASCII is converted by UTS #46. The "xn--" labels of an ASCII
//     host are neither decoded nor checked;
//   - IPv4 addresses in any spelling become dotted quads;
//   - dot segments are resolved, and a default port is removed;
//   - a byte that is not UTF-8 counts as U+FFFD.
//
// This package adds rules of its own:
//
//   - userinfo, fragment and the "?" of an empty query are removed;
//   - one dot at the end of the host name is removed. The names with and without the dot
//     mean the same host, and a host must have one host key. A name that is impossible in
//     DNS (an empty label, a label beyond 63 bytes, a name beyond 253 bytes) is refused
//     with ErrMalformed;
//   - an escape (%XX) has upper-case digits. Escaped unreserved bytes (A-Z a-z 0-9 - . _ ~)
//     are unescaped, and no others. A "%" without two hex digits after it becomes %25, so
//     that unescaping never creates an escape;
//   - in a path, control characters, space, " < > ^ ` { | } and non-ASCII bytes are
//     escaped; in a query, control characters, space, " ' < > and non-ASCII bytes. The
//     standard escapes the same characters, but not "|" in a path. This package escapes
//     "|" there, because net/url re-encodes a whole path that contains a "|";
//   - query parameters and path parameters (";name=value" at the end of a segment) are
//     removed if the strip list matches them;
//   - query parameters keep their order unless Options.SortQuery is set.
//
// The form of a host that is not ASCII follows one version of Unicode: see Tables.
//
// The form is a fixed point: canon(canon(x)) = canon(x). Package net/url parses it
// without a change, so the request line contains URL.Path byte for byte.
package canon

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// MaxBytes is the length of the longest canonical URL. A reference of more than maxRef bytes is
// refused without being parsed: with ErrTooLong, or with ErrScheme if it has another scheme.
const (
	MaxBytes = 8 << 10
	maxRef   = 4 * MaxBytes
)

var (
	// ErrScheme reports a URL that is neither http nor https.
	ErrScheme = errors.New("canon: not http or https")
	// ErrMalformed reports text that is not a URL.
	ErrMalformed = errors.New("canon: malformed URL")
	// ErrTooLong reports a URL of more than MaxBytes.
	ErrTooLong = errors.New("canon: URL too long")
)

// Error says which reference was refused. It wraps ErrScheme, ErrMalformed or
// ErrTooLong. Its message is built only when the method Error is called.
type Error struct {
	Ref  string // as given
	Err  error  // the sentinel
	Hint string // what is wrong with Ref; can be empty
}

// maxShown is how many bytes of a refused reference an error message quotes.
const maxShown = 120

func (e *Error) Error() string {
	shown := e.Ref
	if len(shown) > maxShown {
		shown = shown[:maxShown] + "…"
	}
	if e.Hint == "" {
		return fmt.Sprintf("%v: %q", e.Err, shown)
	}
	return fmt.Sprintf("%v: %q: %s", e.Err, shown, e.Hint)
}

func (e *Error) Unwrap() error { return e.Err }

// HostKey selects the unit of politeness.
type HostKey uint8

const (
	ByHost   HostKey = iota // the host name
	ByDomain                // the registrable domain
)

func (k HostKey) String() string {
	if k == ByDomain {
		return "domain"
	}
	return "host"
}

// Options change the canonical form. The zero value is the default.
type Options struct {
	StripParams []string // patterns of parameters to remove, see DefaultStrip; nil means DefaultStrip, empty means none
	KeepParams  []string // patterns of parameters to keep although StripParams matches them
	SortQuery   bool     // sort query parameters by name; equal names keep their order
	HostKey     HostKey
}

// Canonicalizer makes canonical URLs. It is safe for concurrent use.
type Canonicalizer struct {
	strip   stripList
	sort    bool
	hostKey HostKey
	form    string
}

// New returns a Canonicalizer with options o, or an error that joins every fault of o.
func New(o Options) (*Canonicalizer, error) {
	names := o.StripParams
	if names == nil {
		names = DefaultStrip()
	}
	strip, err := newStripList(names, o.KeepParams)
	if o.HostKey > ByDomain {
		err = errors.Join(err, fmt.Errorf("HostKey is %d, want ByHost or ByDomain", o.HostKey))
	}
	if err != nil {
		return nil, fmt.Errorf("canon: %w", err)
	}
	return &Canonicalizer{
		strip:   strip,
		sort:    o.SortQuery,
		hostKey: o.HostKey,
		form: fmt.Sprintf("v%d unicode=%s sort=%t strip=%s keep=%s", Version, Tables, o.SortQuery,
			strings.Join(names, ","), strings.Join(o.KeepParams, ",")),
	}, nil
}

// Form returns one line that describes everything that the canonical form depends on.
// A crawl stores the line as one of its settings. The line does not contain the host key.
func (c *Canonicalizer) Form() string { return c.form }

// Parse returns the canonical form of an absolute URL. The error is an *Error.
func (c *Canonicalizer) Parse(raw string) (URL, error) { return c.Join(URL{}, raw) }

// ParseSeed is Parse for a URL that a person typed. If raw has no "://" before its path
// and does not begin with "http:" or "https:", the scheme is https.
func (c *Canonicalizer) ParseSeed(raw string) (URL, error) {
	return c.Parse(addScheme(trim(raw)))
}

// Join returns the canonical form of ref, a reference in a document. base is the base
// URL of the document. If base is zero, ref must be absolute. The error is an *Error.
//
// The result does not depend on how the document spells its base URL. The parts that a
// canonical base lacks (stripped parameters, userinfo, fragment) have no effect: either
// a reference does not inherit them, or they are removed from the result.
func (c *Canonicalizer) Join(base URL, ref string) (URL, error) {
	var room [512]byte // most URLs are built on the stack and allocated once
	b := builder{c: c}
	buf, end := b.resolve(room[:0], base, trim(ref))
	switch end {
	case resolved:
		if string(buf) == base.s {
			return base, nil
		}
		return b.url(buf, ref)
	case otherScheme:
		return URL{}, &Error{Ref: ref, Err: ErrScheme}
	}
	return c.joinSlow(base, ref)
}

// HostKey returns the host key of u. All URLs with the same host key share one delay.
func (c *Canonicalizer) HostKey(u URL) string {
	if c.hostKey == ByDomain {
		return Domain(u.Host())
	}
	return u.Host()
}

// Domain returns the registrable domain of a canonical host name (the public suffix
// and one more label). It returns host itself if host has no such domain: an IP
// address, localhost or a public suffix.
func Domain(host string) string {
	if isAddress(host) {
		return host
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	if err != nil {
		return host
	}
	return domain
}
