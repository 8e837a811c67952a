package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/internal/address"
)

// secretFlags are the flags whose values may contain a user, a password or a token. Messages about
// faulty values do not show them.
var secretFlags = []string{"header", "proxy", "redis", "postgres", "to", "events"}

// withoutSecret returns the value of a flag without its secrets. hasSecret reports whether something
// was left out.
func withoutSecret(flag, text string) (shown string, hasSecret bool) {
	switch {
	case !slices.Contains(secretFlags, flag):
		return text, false
	case flag != "header":
		return address.Shown(text)
	}
	name, _, _ := strings.Cut(text, ":")
	if name = strings.TrimSpace(name); get.PrivateHeader(name) {
		return name + ": …", true
	}
	return text, false
}

// secretNote returns a note for the user of a printed command that has a URL without its secrets.
func secretNote(flag string) string {
	return fmt.Sprintf("a part of --%s is not shown: write the whole URL, or set %s to it", flag, envName(flag))
}
