package cli

import (
	"net/url"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/fetcher/get"
)

// secretFlags are the flags whose values may contain a password or a token. Messages
// about faulty values do not show them.
var secretFlags = []string{"header", "proxy", "redis", "postgres", "to", "events"}

// withoutSecret returns the value of a flag without its secrets, but with the names of
// users. hasSecret reports whether the value has a secret.
func withoutSecret(flag, text string) (shown string, hasSecret bool) {
	switch flag {
	case "header":
		name, _, _ := strings.Cut(text, ":")
		if name = strings.TrimSpace(name); get.PrivateHeader(name) {
			return name + ": …", true
		}
	case "proxy":
		if u, err := url.Parse(text); err == nil && u.User != nil {
			_, hasSecret = u.User.Password()
			u.User = url.User(u.User.Username())
			return u.String(), hasSecret
		}
	case "redis":
		return shownRedis(text)
	case "postgres":
		return shownPostgres(text)
	case "to", "events": // the query of such a URL may be secret, too
		bare, query, _ := strings.Cut(text, "?")
		shown, hasSecret = shownRedis(bare)
		return shown, hasSecret || query != ""
	}
	return text, false
}

// shownRedis returns a Redis URL with its user and without its password. hasSecret reports
// whether the URL has a password. A single word before the @ is a password.
func shownRedis(raw string) (shown string, hasSecret bool) {
	scheme, rest, _ := strings.Cut(raw, "://")
	at := strings.LastIndexByte(rest, '@')
	if at < 0 {
		return raw, false
	}
	user, password, named := strings.Cut(rest[:at], ":")
	if !named {
		user, password = "", user
	}
	if user != "" {
		user += ":@" // without the colon, the user would be taken for a password
	}
	return scheme + "://" + user + rest[at+1:], password != ""
}

// shownPostgres returns dsn with the user and without passwords. The DSN is a Postgres
// URL, or keywords with values. hasSecret reports whether it has a password.
func shownPostgres(dsn string) (shown string, hasSecret bool) {
	if !strings.Contains(dsn, "://") {
		return shownKeywords(dsn)
	}
	target, err := url.Parse(dsn)
	if err != nil {
		return "", true // another check refuses this URL
	}
	if user := target.User; user != nil {
		_, hasSecret = user.Password()
		target.User = nil
		if name := user.Username(); name != "" {
			target.User = url.User(name)
		}
	}
	query := target.Query()
	for _, name := range postgresSecrets {
		if query.Has(name) {
			hasSecret = true
			query.Del(name)
			target.RawQuery = query.Encode()
		}
	}
	return target.String(), hasSecret
}

// postgresSecrets are the connection parameters of Postgres that are secret.
var postgresSecrets = []string{"password", "sslpassword"}

// shownKeywords is like shownPostgres, for keywords and values: host=h password='p w'.
func shownKeywords(dsn string) (shown string, hasSecret bool) {
	const space = " \t\n\r\v\f"
	var kept []string
	for rest := strings.TrimLeft(dsn, space); rest != ""; rest = strings.TrimLeft(rest, space) {
		name, after, found := strings.Cut(rest, "=")
		if !found { // not a keyword with a value, so the driver refuses it
			return strings.Join(kept, " "), true
		}
		name, after = strings.Trim(name, space), strings.TrimLeft(after, space)
		quoted := strings.HasPrefix(after, "'")
		end := 0
		if quoted {
			end = 1
		}
		for end < len(after) && (quoted && after[end] != '\'' || !quoted && !strings.ContainsRune(space, rune(after[end]))) {
			if after[end] == '\\' {
				end++
			}
			end++
		}
		if quoted {
			end++
		}
		end = min(end, len(after))
		if slices.Contains(postgresSecrets, strings.ToLower(name)) {
			hasSecret = true
		} else {
			kept = append(kept, name+"="+after[:end])
		}
		rest = after[end:]
	}
	return strings.Join(kept, " "), hasSecret
}
