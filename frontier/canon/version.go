package canon

import (
	"errors"
	"fmt"
	"unicode"
)

// Version is the version of the canonical form. It is part of a crawl's settings,
// because a store must not hold URLs of two versions.
const Version = 2

// Tables is the version of Unicode by which hosts that are not ASCII are read. It is part of the
// form, because other versions accept other characters. It does not depend on the Go version that
// compiles the program: golang.org/x/net/idna has the tables of Unicode 15.0 up to Go 1.26, and those
// of 17.0 from Go 1.27 on; the functions amend and isLater make up for the differences.
const Tables = "15.0.0"

// ErrForm reports that this program cannot make the URLs of a stored form (a text that
// Canonicalizer.Form returned).
var ErrForm = errors.New("canon: this program cannot continue the stored form")

// CheckForm returns an error that wraps ErrForm if this program cannot continue a
// crawl with the given form. It compares the version and the Unicode tables of the form
// with those of this program.
func CheckForm(form string) error {
	var version int
	var stored string
	if _, err := fmt.Sscanf(form, "v%d unicode=%s", &version, &stored); version < 1 || version == Version && err != nil {
		return fmt.Errorf("%w: %q has no version", ErrForm, form)
	}
	if version != Version {
		return fmt.Errorf("%w: it has version %d, this program has version %d: continue with the program that made it, or begin another crawl",
			ErrForm, version, Version)
	}
	if stored != Tables {
		return fmt.Errorf("%w: its host names follow Unicode %s, those of this program Unicode %s: continue with the program that made it, or begin another crawl",
			ErrForm, stored, Tables)
	}
	return nil
}

// isLater reports whether a host must not have the character, because Unicode has it only since 15.1,
// 16.0 or 17.0, or does not allow it in all the hosts in which 15.0 allows it.
func isLater(r rune) bool { return r >= 0x88F && unicode.Is(later, r) }

// later has the characters of isLater, and others between them that no version allows. It is
// the difference between the tables of golang.org/x/net v0.62.0.
var later = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x088F, 0x0897, 1}, {0x0C5C, 0x0C5C, 1}, {0x0CDC, 0x0CDC, 1}, {0x1806, 0x1806, 1}, {0x1ACF, 0x1AEB, 1},
		{0x1B4E, 0x1B4F, 1}, {0x1B7F, 0x1B7F, 1}, {0x1C89, 0x1C8A, 1}, {0x20C1, 0x20C1, 1}, {0x2427, 0x2429, 1},
		{0x2B96, 0x2B96, 1}, {0x31E4, 0x31E5, 1}, {0xA7CB, 0xA7CF, 1}, {0xA7D2, 0xA7D2, 1}, {0xA7D4, 0xA7D4, 1},
		{0xA7DA, 0xA7F1, 1}, {0xFBC3, 0xFBD2, 1}, {0xFD90, 0xFD91, 1}, {0xFDC8, 0xFDCE, 1},
	},
	R32: []unicode.Range32{
		{0x105C0, 0x105F3, 1}, {0x10940, 0x10959, 1}, {0x10D40, 0x10D8F, 1}, {0x10EC2, 0x10EFC, 1},
		{0x11380, 0x113E2, 1}, {0x116D0, 0x116E3, 1}, {0x1171E, 0x1171E, 1}, {0x11B60, 0x11BF9, 1},
		{0x11DB0, 0x11DE9, 1}, {0x11F5A, 0x11F5A, 1}, {0x13460, 0x143FA, 1}, {0x16100, 0x16139, 1},
		{0x16D40, 0x16D79, 1}, {0x16EA0, 0x16ED3, 1}, {0x16FF2, 0x16FF6, 1}, {0x187F8, 0x187FF, 1},
		{0x18CFF, 0x18CFF, 1}, {0x18D09, 0x18DF2, 1}, {0x1CC00, 0x1CEF0, 1}, {0x1E5D0, 0x1E6FF, 1},
		{0x1F6D8, 0x1F6D8, 1}, {0x1F777, 0x1F77A, 1}, {0x1F8B2, 0x1F8D8, 1}, {0x1FA54, 0x1FA57, 1},
		{0x1FA89, 0x1FA8F, 1}, {0x1FABE, 0x1FABE, 1}, {0x1FAC6, 0x1FACD, 1}, {0x1FADC, 0x1FADF, 1},
		{0x1FAE9, 0x1FAEF, 1}, {0x1FBCB, 0x1FBEF, 1}, {0x1FBFA, 0x1FBFA, 1}, {0x2B73A, 0x2B73F, 1},
		{0x2CEA2, 0x2CEAD, 1}, {0x2EBF0, 0x2EE5D, 1}, {0x323B0, 0x33479, 1},
	},
}
