// Package address prints the URLs of servers without their secrets.
//
// It owns the decision which parts of such a URL may be shown. It connects to no server, and does
// not decide whether a URL is valid. URLs of pages are not its business.
package address

import (
	"slices"
	"strings"
)

// harmless are the options of URLs that may be shown. Other options may be a password, a user or
// a token.
var harmless = strings.Fields("ca connect_timeout db region sasl sslmode sslrootcert")

// wholeHost are the schemes of URLs of which only the host may be shown: a program that knows the
// path of a webhook can often send to it.
var wholeHost = strings.Fields("http https socks5")

// Shown returns the URL of a server without its secrets, for every text that a program prints or
// stores. hidden reports whether something was left out.
//
// Only the scheme and the hosts remain, and the path and harmless options of a URL that is not of a
// webhook or a proxy. A user is left out, too: some servers know a client by its user alone. If an
// unescaped delimiter makes it uncertain where the host begins, only the scheme remains. The text
// "-" stands for standard output, and remains as it is.
func Shown(raw string) (shown string, hidden bool) {
	scheme, rest, found := strings.Cut(raw, "://")
	switch {
	case raw == "" || raw == "-":
		return raw, false
	case !found || strings.ContainsAny(scheme, "/\\?#@: "):
		return "…", true
	}
	scheme += "://"
	authority := rest
	if end := strings.IndexAny(rest, `/\?#`); end >= 0 {
		authority = rest[:end]
	}
	rest = rest[len(authority):]
	if strings.Contains(rest, "@") {
		return scheme + "…", true
	}
	at := strings.LastIndexByte(authority, '@')
	hosts := authority[at+1:]
	rest, _, fragment := strings.Cut(rest, "#")
	path, query, _ := strings.Cut(rest, "?")
	hidden = at >= 0 || fragment
	if slices.Contains(wholeHost, strings.ToLower(strings.TrimSuffix(scheme, "://"))) {
		return scheme + hosts, hidden || strings.Trim(path, "/") != "" || query != ""
	}
	var options []string
	for option := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(option, "=")
		switch {
		case slices.Contains(harmless, name):
			options = append(options, option)
		case option != "":
			hidden = true
		}
	}
	shown = scheme + hosts + path
	if options != nil {
		shown += "?" + strings.Join(options, "&")
	}
	return shown, hidden
}
