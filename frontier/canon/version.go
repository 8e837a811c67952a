package canon

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/net/idna"
)

// Version is the version of the canonical form. It is part of a crawl's settings,
// because a store must not hold URLs of two versions.
const Version = 2

// Tables is the version of Unicode by which this program reads hosts that are not
// ASCII. golang.org/x/net/idna chooses it by the Go version that compiles the
// program. Tables is part of the form, because the tables of another version map
// some names differently, and accept characters that these tables refuse.
const Tables = idna.UnicodeVersion

// ErrForm reports that this program cannot make the URLs of a stored form (a text that
// Canonicalizer.Form returned).
var ErrForm = errors.New("canon: this program cannot continue the stored form")

// CheckForm returns an error that wraps ErrForm if this program cannot continue a
// crawl with the given form. It compares the version and the Unicode tables of the form
// with those of this program.
func CheckForm(form string) error { return checkForm(form, Tables) }

func checkForm(form, tables string) error {
	var version int
	var stored string
	if _, err := fmt.Sscanf(form, "v%d unicode=%s", &version, &stored); version < 1 || version == Version && err != nil {
		return fmt.Errorf("%w: %q has no version", ErrForm, form)
	}
	if version != Version {
		return fmt.Errorf("%w: it has version %d, this program has version %d: continue with the program that made it, or begin another crawl",
			ErrForm, version, Version)
	}
	if stored != tables {
		return fmt.Errorf("%w: its host names follow Unicode %s, but this program, built by %s, has the tables of Unicode %s: "+
			"continue with a program built by a Go version that has Unicode %[2]s (Go 1.21 to 1.26 have 15.0.0, Go 1.27 has 17.0.0), or begin another crawl",
			ErrForm, stored, runtime.Version(), tables)
	}
	return nil
}
