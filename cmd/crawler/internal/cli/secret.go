package cli

import (
	"net/url"
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
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			_, hasSecret = u.User.Password()
			shown := url.URL{Scheme: u.Scheme, Host: u.Host}
			if name := u.User.Username(); name != "" {
				shown.User = url.User(name)
			}
			return shown.String(), hasSecret || strings.Trim(u.Path, "/") != "" || u.RawQuery != ""
		}
	case "redis":
		return shownRedis(text)
	case "postgres":
		return shownPostgres(text)
	case "to", "events": // the query of such a URL may be secret, too
		bare, query, _ := strings.Cut(text, "?")
		if scheme, _, _ := strings.Cut(strings.ToLower(text), "://"); scheme == "http" || scheme == "https" {
			return shownWebhook(bare, query != "")
		}
		shown, hasSecret = shownRedis(bare)
		return shown, hasSecret || query != ""
	}
	return text, false
}

// shownWebhook returns the scheme and the host of the URL of a webhook. A program that knows its path can
// often send to it, so hasSecret is true if it has a path, a user or a query.
func shownWebhook(bare string, query bool) (shown string, hasSecret bool) {
	scheme, rest, _ := strings.Cut(bare, "://")
	at := strings.LastIndexByte(rest, '@')
	host, path, _ := strings.Cut(rest[at+1:], "/")
	host, _, fragment := strings.Cut(host, "#")
	return scheme + "://" + host, query || path != "" || at >= 0 || fragment
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

// shownPostgres returns the URL of a Postgres with its user and without passwords. hasSecret
// reports whether it has a password.
func shownPostgres(raw string) (shown string, hasSecret bool) {
	target, err := url.Parse(raw)
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
	for _, name := range []string{"password", "sslpassword"} {
		if query.Has(name) {
			hasSecret = true
			query.Del(name)
			target.RawQuery = query.Encode()
		}
	}
	return target.String(), hasSecret
}
