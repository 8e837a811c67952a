package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

// What is wanted where a URL is expected, and where a host will do.
const (
	wantURL  = "want a URL such as https://example.org/"
	wantSeed = wantURL + ", or a host such as example.org"
)

// checkArguments refuses seeds of the command line that are names of files.
func checkArguments(args []string) error {
	var errs []error
	for _, arg := range args {
		if hasScheme(arg) {
			continue
		}
		if info, err := os.Stat(arg); err == nil && info.Mode().IsRegular() {
			errs = append(errs, fmt.Errorf("argument %q is a file here, want --seeds %s to read seeds from it (or https://%s for the host)",
				arg, shellQuote(arg), strings.TrimLeft(arg, "/")))
		}
	}
	return errors.Join(errs...)
}

// parseSeed returns the canonical form of a seed. It is stricter than canon: a
// link may have a host that no name server knows, but a seed with such a host
// is something else, such as a path or the header of a CSV file.
func parseSeed(c *canon.Canonicalizer, raw string) (canon.URL, error) {
	malformed := func(hint string) (canon.URL, error) {
		return canon.URL{}, &canon.Error{Ref: raw, Err: canon.ErrMalformed, Hint: hint}
	}
	text := strings.TrimSpace(raw)
	if strings.Contains(text, "\t") {
		return malformed("it has a tab in it")
	}
	if !hasScheme(text) {
		text = strings.TrimPrefix(text, "//")
		authority := authorityOf(text)
		afterAddress := authority[strings.LastIndexByte(authority, ']')+1:] // colons of an IPv6 address are no port's
		_, port, hasPort := strings.Cut(afterAddress, ":")
		switch {
		case strings.HasPrefix(text, "/"):
			return malformed("it begins with a slash")
		case hasPort && (port == "" || strings.Trim(port, "0123456789") != ""):
			return malformed("what follows the colon is no port")
		case strings.Contains(authority, "@"):
			return malformed("it has an @ and no http:// or https://")
		}
	}
	url, err := c.ParseSeed(raw)
	if err != nil {
		return url, err
	}
	if host := url.Host(); host[0] != '[' && strings.Trim(host, hostLetters) != "" {
		return malformed(fmt.Sprintf("%q cannot be a host", host))
	}
	return url, nil
}

// hostLetters are what the names of hosts are made of, in their canonical form.
const hostLetters = "abcdefghijklmnopqrstuvwxyz0123456789-_."

// hasScheme reports whether a seed says how to fetch it. Without that https is
// tried.
func hasScheme(text string) bool {
	lower := strings.ToLower(strings.TrimSpace(text))
	return strings.Contains(lower, "://") || strings.HasPrefix(lower, "http:") || strings.HasPrefix(lower, "https:")
}

// authorityOf returns the part of a URL without its scheme that ends before the
// path: [USER[:PASSWORD]@]HOST[:PORT].
func authorityOf(text string) string {
	if end := strings.IndexAny(text, `/\?#`); end >= 0 {
		return text[:end]
	}
	return text
}

// withoutCredentials returns a seed without the user name and password that it
// may have, and whether it had any.
func withoutCredentials(seed string) (bare string, had bool) {
	scheme, rest, found := strings.Cut(seed, "://")
	if !found {
		return seed, false
	}
	end := strings.LastIndexByte(authorityOf(rest), '@')
	if end < 0 {
		return seed, false
	}
	return scheme + "://" + rest[end+1:], true
}

// shownSeed returns a seed as it may be shown. Text that is no URL may hold a
// password too, with a slash in it for example: then all before the last @ goes.
func shownSeed(seed string) string {
	scheme, rest, found := strings.Cut(seed, "://")
	if !found {
		scheme, rest = "", seed
	} else {
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

// credentialsShown is how many seeds with credentials are reported one by one.
const credentialsShown = 10

// dropCredentials takes the credentials from seeds, which are not used, and says so.
type dropCredentials struct {
	stderr io.Writer
	seeds  uint64 // that had some
}

func (d *dropCredentials) from(line seedLine) seedLine {
	bare, had := withoutCredentials(line.text)
	if !had {
		return line
	}
	if d.seeds++; d.seeds <= credentialsShown {
		fmt.Fprintf(d.stderr, "warning: %s: the user name and password in %s are not used; "+
			"to send them crawl with -H 'Authorization: Basic BASE64', the base64 of USER:PASSWORD\n", line.source, shownSeed(line.text))
	}
	line.text = bare
	return line
}

// done says how many more seeds had credentials than were shown.
func (d *dropCredentials) done() {
	if d.seeds > credentialsShown {
		fmt.Fprintf(d.stderr, "warning: %d more seeds have a user name and password that are not used\n", d.seeds-credentialsShown)
	}
}
