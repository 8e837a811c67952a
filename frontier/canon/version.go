package canon

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/net/idna"
)

// Version is the version of the canonical form of new crawls. It is part of a
// crawl's settings: URLs of two versions must not meet in one store.
//
// Version 2 reads hosts as the URL standard of 2026 does. Version 1 remains for
// the crawls that were stored with it, with exactly its forms.
const Version = 2

// Tables is the version of Unicode by which this program reads hosts that are
// not ASCII. golang.org/x/net/idna chooses it by the Go version that compiles
// it, therefore it is part of the form: other tables map some names otherwise,
// and know characters that these refuse.
const Tables = idna.UnicodeVersion

// ErrForm reports a stored form that this program cannot make URLs of.
var ErrForm = errors.New("canon: this program cannot continue the stored form")

// VersionOf returns the version of form, a text that Form returned and that a
// crawl was stored with. The error is ErrForm: this program cannot make URLs of
// that form, because it is too old or has other Unicode tables.
func VersionOf(form string) (int, error) { return versionOf(form, Tables) }

func versionOf(form, tables string) (version int, err error) {
	if _, err := fmt.Sscanf(form, "v%d ", &version); err != nil || version < 1 {
		return 0, fmt.Errorf("%w: %q has no version", ErrForm, form)
	}
	if version > Version {
		return 0, fmt.Errorf("%w: it has version %d, this program has versions 1 to %d: continue with the program that made it, or a newer one",
			ErrForm, version, Version)
	}
	return version, checkTables(storedTables(form), tables)
}

// storedTables returns the Unicode version of a form: its second word, which
// version 1 lacks.
func storedTables(form string) string {
	_, rest, _ := strings.Cut(form, " ")
	if stored, found := strings.CutPrefix(rest, "unicode="); found {
		stored, _, _ = strings.Cut(stored, " ")
		return stored
	}
	return version1Tables
}

// checkTables compares the Unicode version of a form with that of this program.
func checkTables(stored, tables string) error {
	if stored == tables {
		return nil
	}
	return fmt.Errorf("%w: its host names follow Unicode %s, but this program, built by %s, has the tables of Unicode %s: "+
		"continue with a program built by a Go version that has Unicode %[2]s (Go 1.21 to 1.26 have 15.0.0, Go 1.27 has 17.0.0), or begin another crawl",
		ErrForm, stored, runtime.Version(), tables)
}

// describe returns the first words of the form, in which versions differ.
func describe(version int) string {
	if version == 1 {
		return "v1"
	}
	return fmt.Sprintf("v%d unicode=%s", version, Tables)
}

// rulesOf returns the rules of a version; 0 means Version.
func rulesOf(version int) (*rules, error) {
	switch version {
	case 1:
		return version1, checkTables(version1Tables, Tables)
	case 2:
		return version2, nil
	}
	return nil, fmt.Errorf("Version is %d, want 1 to %d", version, Version)
}
