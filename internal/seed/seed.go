// Package seed parses seeds as people write them, and shows them without secrets.
//
// It decides whether a text is a seed, and owns the messages about texts that are none. Package
// canon defines the canonical form. Package seed does no I/O.
package seed

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

// WantURL and WantSeed are the last parts of error messages of commands that want a URL or a
// seed.
const (
	WantURL  = "want a URL such as https://example.org/"
	WantSeed = WantURL + ", or a host such as example.org"
)

// Parse returns the canonical form of a seed. It is stricter than package canon, which
// accepts links with hosts that no name server knows. Text with such a host is not meant
// as a seed. It can be a path, for example, or the header of a CSV file.
func Parse(c *canon.Canonicalizer, raw string) (canon.URL, error) {
	malformed := func(hint string) (canon.URL, error) {
		return canon.URL{}, &canon.Error{Ref: raw, Err: canon.ErrMalformed, Hint: hint}
	}
	text := strings.TrimSpace(raw)
	if strings.Contains(text, "\t") {
		return malformed("it contains a tab")
	}
	if !HasScheme(text) {
		text = strings.TrimPrefix(text, "//")
		authority := authorityOf(text)
		afterAddress := authority[strings.LastIndexByte(authority, ']')+1:] // without the colons of an IPv6 address
		_, port, hasPort := strings.Cut(afterAddress, ":")
		switch {
		case strings.HasPrefix(text, "/"):
			return malformed("it begins with a slash")
		case hasPort && (port == "" || strings.Trim(port, "0123456789") != ""):
			return malformed("the text after the colon is no port")
		case strings.Contains(authority, "@"):
			return malformed("it has an @ and no http:// or https://")
		}
	}
	url, err := c.ParseSeed(raw)
	if err != nil {
		return url, err
	}
	if host := url.Host(); host[0] != '[' && strings.Trim(host, HostLetters) != "" {
		return malformed(fmt.Sprintf("%q cannot be a host", host))
	}
	return url, nil
}

// HostLetters are the characters of host names in their canonical form.
const HostLetters = "abcdefghijklmnopqrstuvwxyz0123456789-_."

// HasScheme reports whether a seed has a scheme. If it has none, https is assumed.
func HasScheme(text string) bool {
	lower := strings.ToLower(strings.TrimSpace(text))
	_, _, found := cutScheme(lower)
	return found || strings.HasPrefix(lower, "http:") || strings.HasPrefix(lower, "https:")
}

// cutScheme cuts a seed at the "://" after its scheme. It does not cut at a "://" in the
// path, query or fragment.
func cutScheme(seed string) (scheme, rest string, found bool) {
	scheme, rest, found = strings.Cut(seed, "://")
	if !found || strings.ContainsAny(scheme, `/\?#`) {
		return "", seed, false
	}
	return scheme, rest, true
}

// authorityOf returns the part before the path of text, which is a URL without its scheme:
// [USER[:PASSWORD]@]HOST[:PORT].
func authorityOf(text string) string {
	if end := strings.IndexAny(text, `/\?#`); end >= 0 {
		return text[:end]
	}
	return text
}

// WithoutCredentials returns a seed without its user name and password, and whether the
// seed had any.
func WithoutCredentials(seed string) (bare string, had bool) {
	scheme, rest, found := cutScheme(seed)
	if !found {
		return seed, false
	}
	end := strings.LastIndexByte(authorityOf(rest), '@')
	if end < 0 {
		return seed, false
	}
	return scheme + "://" + rest[end+1:], true
}

// Shown returns a seed without credentials, for messages. It also works for text that is
// not a valid URL. For example, if a password contains a slash, Shown removes everything
// between the scheme and the last @.
func Shown(seed string) string {
	scheme, rest, found := cutScheme(seed)
	if found {
		scheme += "://"
	}
	authority := authorityOf(rest)
	end := strings.LastIndexByte(authority, '@')
	if end < 0 && strings.Contains(authority, ":") && strings.Trim(authority[strings.LastIndexByte(authority, ':')+1:], "0123456789") != "" {
		end = strings.LastIndexByte(rest, '@')
	}
	if end < 0 {
		return seed
	}
	return scheme + "…" + rest[end:]
}

// Fault describes what is wrong with a seed and what is wanted instead. It does not show the
// seed's password.
func Fault(raw string, err error, want string) string {
	fault := new(canon.Error)
	raw = Shown(raw)
	switch {
	case strings.TrimSpace(raw) == "":
		return "it is empty"
	case errors.Is(err, canon.ErrScheme):
		return fmt.Sprintf("%q is neither http nor https", raw)
	case errors.Is(err, canon.ErrTooLong):
		return fmt.Sprintf("%.60q… is longer than %d bytes", raw, canon.MaxBytes)
	case errors.As(err, &fault) && fault.Hint != "":
		return fmt.Sprintf("%q is no URL: %s; %s", raw, fault.Hint, want)
	}
	return fmt.Sprintf("%q is no URL; %s", raw, want)
}
