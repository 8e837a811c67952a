package canon

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// toASCII is what the standard's parser does to a host name (domain to ASCII,
// not strict), without the rest of a URL around it, which takes three times as
// long. Fuzz targets hold it to the parser.
var toASCII = idna.New(
	idna.MapForLookup(), idna.BidiRule(), idna.ValidateLabels(true), idna.StrictDomainName(true),
	idna.CheckJoiners(true), idna.CheckHyphens(false), idna.VerifyDNSLength(false), idna.Transitional(false),
).ToASCII

// nameLen returns how many bytes the name has that s begins with: bytes that
// are canonical in a plain host, or that IDNA may make so.
func nameLen(s string) int {
	for i := range len(s) {
		if hostByte[s[i]] == 0 && s[i] < utf8.RuneSelf {
			return i
		}
	}
	return len(s)
}

// nameByIDNA returns the canonical form of a name with IDNA labels. false: it
// is left to the slow path, for it has none, is an address or no name at all.
func nameByIDNA(name string) (host string, done bool) {
	for range 2 { // what IDNA returns it may refuse to read: the form must be a fixed point
		mapped, err := toASCII(name)
		mapped = strings.TrimSuffix(mapped, ".")
		switch {
		case err != nil || !isResolvable(mapped) || !isAlpha(mapped[strings.LastIndexByte(mapped, '.')+1]):
			return "", false
		case mapped == name || isPlainHost([]byte(mapped)):
			return mapped, true
		}
		name = mapped
	}
	return "", false
}
