package canon

import (
	"encoding/hex"
	goerrors "errors"
	"math"
	"net/netip"
	neturl "net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nlnwa/whatwg-url/url"
	"golang.org/x/net/idna"
)

// A host is read as the host parser of the URL standard says. The library that
// splits a URL into its parts (package url) follows an older version of the standard
// and reads "-1" and "a.99999999999999999999b" as addresses. Therefore the library
// parses only IPv6 addresses here. Every other host is encoded before the library
// receives it.

var (
	errNoHost    = goerrors.New("no such host name can exist")
	errEscape    = goerrors.New("the host has a malformed escape or is not UTF-8")
	errIDNA      = goerrors.New("the host is not a valid internationalized name")
	errForbidden = goerrors.New("the host has a character that hosts cannot have")
	errIPv4      = goerrors.New("the host ends in a number, but is no IPv4 address")
)

// unreadable are characters that the standard allows in hosts, but net/url does not.
const unreadable = "`{}\""

// forbidden are the forbidden domain code points of the standard, without the
// control characters below space.
const forbidden = " #%/:<>?@[\\]^|\x7f"

// carryName encodes a host as a name that the library does not change.
func carryName(_ *url.Url, host string) string {
	switch {
	case len(host) > 2 && host[0] == '[' && strings.ContainsAny(host[1:len(host)-1], "[]"):
		return "[" // "[[::1]]", which the library would accept
	case host == "" || host[0] == '[':
		return host
	}
	return "x" + hex.EncodeToString([]byte(host))
}

// carriedHost returns the canonical form of the host that carryName encoded in u.
func carriedHost(u *url.Url) (string, error) {
	host := u.Hostname()
	if host[0] == '[' {
		return host, nil
	}
	name, err := hex.DecodeString(host[1:])
	if err != nil {
		return "", err
	}
	return parseName(string(name))
}

// nameLen returns the length of the name at the start of s. The name ends before the
// first ASCII byte that a plain host cannot contain.
func nameLen(s string) int {
	for i := range len(s) {
		if hostByte[s[i]] == 0 && s[i] < utf8.RuneSelf {
			return i
		}
	}
	return len(s)
}

// parseName is the host parser of the standard, for a host that is not an IPv6
// address. In addition it removes one dot at the end, and refuses names that DNS or
// net/url does not allow.
func parseName(name string) (host string, err error) {
	if strings.IndexByte(name, '%') >= 0 {
		if name, err = neturl.PathUnescape(name); err != nil {
			return "", errEscape
		}
	}
	if host, err = domainToASCII(name); err != nil {
		return "", err
	}
	host = strings.TrimSuffix(host, ".")
	switch last := host[strings.LastIndexByte(host, '.')+1:]; {
	case isNumber(last):
		return parseIPv4(host)
	case !isResolvable(host) || strings.ContainsAny(host, unreadable):
		return "", errNoHost
	}
	return host, nil
}

// unicodeToASCII is the algorithm Unicode ToASCII with the options that the standard
// prescribes if beStrict is false.
var unicodeToASCII = idna.New(
	idna.MapForLookup(), idna.BidiRule(), idna.ValidateLabels(true), idna.StrictDomainName(false),
	idna.CheckJoiners(true), idna.CheckHyphens(false), idna.VerifyDNSLength(false), idna.Transitional(false),
).ToASCII

// domainToASCII is the algorithm "domain to ASCII" of the standard, with beStrict
// false. An ASCII domain is only lower-cased: its "xn--" labels are not decoded.
func domainToASCII(domain string) (string, error) {
	result := lowerASCII(domain)
	if !isASCII(domain) {
		if !utf8.ValidString(domain) {
			return "", errEscape
		}
		if strings.ContainsFunc(domain, isLater) {
			return "", errIDNA
		}
		var err error
		if result, err = unicodeToASCII(strings.Map(amend, domain)); err != nil || hidesACE(result) {
			return "", errIDNA
		}
		// x/net/idna checks for right-to-left letters before it maps characters. Therefore
		// it misses ℶ, which it maps to ב. The second call checks the mapped name.
		if _, err := unicodeToASCII(result); err != nil {
			return "", errIDNA
		}
	}
	if result == "" {
		return "", errNoHost
	}
	for i := range len(result) {
		if c := result[i]; c < ' ' || strings.IndexByte(forbidden, c) >= 0 {
			return "", errForbidden
		}
	}
	return result, nil
}

// amend maps the characters that Unicode 15.1 to 17 map differently from Unicode
// 15.0: the capital ß, capital letters whose small letters were added to Unicode later,
// five ideographs, and format characters, which later versions drop. See Tables.
func amend(r rune) rune {
	switch {
	case r < 0x04C0:
		return r
	case 0x10A0 <= r && r <= 0x10C5: // Georgian
		return r - 0x10A0 + 0x2D00
	case r == 0x115F, r == 0x1160, r == 0x17B4, r == 0x17B5, r == 0x180E, 0x2061 <= r && r <= 0x2063,
		0x206A <= r && r <= 0x206F, r == 0x3164, r == 0xFFA0, 0x1D173 <= r && r <= 0x1D17A:
		return -1
	}
	switch r {
	case 0x04C0:
		return 0x04CF
	case 'ẞ':
		return 'ß'
	case 0x2132:
		return 0x214E
	case 0x2183:
		return 0x2184
	case 0x2F868:
		return 0x36FC
	case 0x2F874:
		return 0x5F53
	case 0x2F91F:
		return 0x243AB
	case 0x2F95F:
		return 0x7AEE
	case 0x2F9BF:
		return 0x45D7
	}
	return r
}

// hidesACE reports whether a label of host decodes to a label that begins with
// "xn--". UTS #46 refuses such a host, but x/net/idna does not.
func hidesACE(host string) bool {
	if !strings.Contains(host, "xn--xn--") {
		return false
	}
	decoded, err := idna.Punycode.ToUnicode(host)
	if err != nil {
		return true
	}
	for label := range strings.SplitSeq(decoded, ".") {
		if strings.HasPrefix(label, "xn--") {
			return true
		}
	}
	return false
}

// isNumber is the ends-in-a-number checker of the standard. A host must be an IPv4 address
// if isNumber returns true for its last label.
func isNumber(label string) bool {
	if hasHexPrefix(label) {
		return strings.Trim(label[2:], "0123456789abcdefABCDEF") == ""
	}
	return label != "" && strings.Trim(label, "0123456789") == ""
}

func hasHexPrefix(s string) bool { return len(s) >= 2 && s[0] == '0' && lower(s[1]) == 'x' }

// parseIPv4 is the IPv4 parser of the standard. An address has one to four
// numbers, decimal, octal or hexadecimal. The last number fills the remaining bytes.
func parseIPv4(host string) (string, error) {
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return "", errIPv4
	}
	var addr uint64
	for i, part := range parts {
		n, ok := parseIPv4Number(part)
		room := uint(8)
		if i == len(parts)-1 {
			room = 8 * uint(5-len(parts))
		}
		if !ok || n >= 1<<room {
			return "", errIPv4
		}
		addr = addr<<room | n
	}
	return netip.AddrFrom4([4]byte{byte(addr >> 24), byte(addr >> 16), byte(addr >> 8), byte(addr)}).String(), nil
}

// parseIPv4Number returns the value of a part of an IPv4 address, or
// math.MaxUint64 for a number of more than 64 bits.
func parseIPv4Number(part string) (n uint64, ok bool) {
	base := 10
	switch {
	case part == "":
		return 0, false
	case hasHexPrefix(part):
		part, base = part[2:], 16
	case len(part) > 1 && part[0] == '0':
		part, base = part[1:], 8
	}
	if part == "" {
		return 0, true
	}
	n, err := strconv.ParseUint(part, base, 64)
	if goerrors.Is(err, strconv.ErrRange) {
		return math.MaxUint64, true
	}
	return n, err == nil
}
