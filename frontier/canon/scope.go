package canon

import (
	"fmt"
	"slices"
	"strings"
)

// ScopeMode says which hosts belong to a crawl, depending on its seeds. Scheme and
// port do not matter.
type ScopeMode uint8

const (
	ScopeHost       ScopeMode = iota // the seeds' hosts
	ScopeSubdomains                  // the seeds' hosts and their subdomains
	ScopeDomain                      // every host of the seeds' registrable domains
	ScopeAny                         // every host
)

var scopeNames = [...]string{"host", "subdomains", "domain", "any"}

func (m ScopeMode) String() string {
	if int(m) < len(scopeNames) {
		return scopeNames[m]
	}
	return fmt.Sprintf("ScopeMode(%d)", uint8(m))
}

// ParseScopeMode returns the mode whose String is name.
func ParseScopeMode(name string) (ScopeMode, error) {
	if m := slices.Index(scopeNames[:], name); m >= 0 {
		return ScopeMode(m), nil
	}
	return 0, fmt.Errorf("canon: scope is %q, want one of %s", name, strings.Join(scopeNames[:], ", "))
}

// Keys returns the scope keys of the seed u: the name of the host or domain that the seed
// admits to the crawl. It returns none for ScopeAny.
func Keys(mode ScopeMode, u URL) []string {
	switch mode {
	case ScopeAny:
		return nil
	case ScopeDomain:
		return []string{Domain(u.Host())}
	default:
		return []string{u.Host()}
	}
}

// Candidates returns the scope keys that can admit host. The URLs of host are in scope if
// Keys returned one of these scope keys for a seed. Candidates returns none for ScopeAny, where
// every URL is in scope.
func Candidates(mode ScopeMode, host string) []string {
	switch mode {
	case ScopeAny:
		return nil
	case ScopeDomain:
		return []string{Domain(host)}
	case ScopeHost:
		return []string{host}
	}
	keys := []string{host}
	if isAddress(host) {
		return keys
	}
	for {
		_, parent, found := strings.Cut(host, ".")
		if !found {
			return keys
		}
		keys, host = append(keys, parent), parent
	}
}
