package canon

import (
	"fmt"
	"strings"
)

// ScopeMode says how far a crawl may go from its seeds. Scheme and port do not
// matter to it.
type ScopeMode uint8

const (
	ScopeHost       ScopeMode = iota // the seeds' hosts
	ScopeSubdomains                  // and the hosts below them
	ScopeDomain                      // every host of the seeds' registrable domains
	ScopeAny                         // everywhere
)

var scopeNames = [...]string{"host", "subdomains", "domain", "any"}

func (m ScopeMode) String() string {
	if int(m) < len(scopeNames) {
		return scopeNames[m]
	}
	return fmt.Sprintf("ScopeMode(%d)", uint8(m))
}

// ParseScopeMode returns the mode that String prints as name.
func ParseScopeMode(name string) (ScopeMode, error) {
	for m, n := range scopeNames {
		if n == name {
			return ScopeMode(m), nil
		}
	}
	return 0, fmt.Errorf("canon: scope is %q, want one of %s", name, strings.Join(scopeNames[:], ", "))
}

// Keys returns the scope keys that the seed u opens; none for ScopeAny.
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

// Candidates returns the scope keys for the URLs of host: they are in scope if one of
// these is open. It returns none for ScopeAny: everything is in scope.
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
