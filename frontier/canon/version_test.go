package canon

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/unicode/norm"
)

// tablesOfForms are the Unicode tables with which the forms in testdata were
// written. When TestTables fails, this Go version has others: crawls that were
// stored by a program with the old tables cannot go on with one that has the new
// ones (VersionOf says so to its user), and version 1 ends. Then run the tests,
// look at each form that changed, and write the new version here and into the
// message of checkTables.
//
// sumOfForms is of what version 2 makes of each character.
const (
	tablesOfForms = "15.0.0"
	sumOfForms    = "ab34af16024fd422"
)

// TestTables fails where the Go version that builds the program chooses other
// Unicode tables.
func TestTables(t *testing.T) {
	if Tables != tablesOfForms {
		t.Errorf("x/net/idna has Unicode %s here, the forms in testdata are of %s", Tables, tablesOfForms)
	}
	if norm.Version != Tables || bidi.UnicodeVersion != Tables {
		t.Errorf("x/net/idna has Unicode %s, x/text/unicode/norm %s, x/text/unicode/bidi %s: Form names only the first",
			Tables, norm.Version, bidi.UnicodeVersion)
	}
	all := sha256.New()
	for r := range rune(0xE1000) {
		if r < 0x34000 || r >= 0xE0000 { // no host has a character beyond
			host, _ := domainToASCII("a" + string(r))
			fmt.Fprintln(all, host)
		}
	}
	if sum := fmt.Sprintf("%x", all.Sum(nil)[:8]); sum != sumOfForms {
		t.Errorf("the hosts of all characters have the sum %s, want %s: version 2 has changed", sum, sumOfForms)
	}
}

func TestVersionOf(t *testing.T) {
	for _, tt := range []struct {
		form, tables string
		want         int
		refusal      string
	}{
		{newT(t, Options{}).Form(), Tables, Version, ""},
		{newT(t, Options{Version: 1}).Form(), Tables, 1, ""},
		{"v1 sort=false strip=utm_* keep=", "15.0.0", 1, ""},
		{"v1 sort=false strip=x unicode=16 keep=", "15.0.0", 1, ""}, // that is a parameter
		{"v1 sort=false strip= keep=", "17.0.0", 1, "its host names follow Unicode 15.0.0, but this program, built by go"},
		{"v2 unicode=15.0.0 sort=false strip= keep=", "15.0.0", 2, ""},
		{"v2 unicode=15.0.0 sort=false strip= keep=", "17.0.0", 2, "has the tables of Unicode 17.0.0: continue with a program built by a Go version that has Unicode 15.0.0"},
		{"v2 unicode=17.0.0 sort=false strip= keep=", "15.0.0", 2, "has the tables of Unicode 15.0.0: continue with a program built by a Go version that has Unicode 17.0.0"},
		{"v3 unicode=15.0.0 sort=false", "15.0.0", 0, "it has version 3, this program has versions 1 to 2: continue with"},
		{"", "15.0.0", 0, `"" has no version`},
		{"form", "15.0.0", 0, `"form" has no version`},
	} {
		version, err := versionOf(tt.form, tt.tables)
		if tt.refusal == "" && (version != tt.want || err != nil) {
			t.Errorf("versionOf(%q, %s) = %d (%v), want %d", tt.form, tt.tables, version, err, tt.want)
		}
		if tt.refusal != "" && (!errors.Is(err, ErrForm) || !strings.Contains(err.Error(), tt.refusal)) {
			t.Errorf("versionOf(%q, %s): %v, want %q", tt.form, tt.tables, err, tt.refusal)
		}
	}
}

// TestForm holds the text that crawls are stored with.
func TestForm(t *testing.T) {
	for want, o := range map[string]Options{
		"v1 sort=true strip=a,b keep=c":                              {Version: 1, SortQuery: true, StripParams: []string{"a", "b"}, KeepParams: []string{"c"}},
		"v2 unicode=" + tablesOfForms + " sort=false strip=a keep=":  {StripParams: []string{"a"}},
		"v2 unicode=" + tablesOfForms + " sort=false strip=a keep=b": {Version: 2, StripParams: []string{"a"}, KeepParams: []string{"b"}},
	} {
		if got := newT(t, o).Form(); got != want {
			t.Errorf("%+v: %q, want %q", o, got, want)
		}
	}
}

// TestVersion1 holds version 1 to the forms that it had when it was the newest.
func TestVersion1(t *testing.T) {
	file, err := os.Open("testdata/version1.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c, cases := newT(t, Options{Version: 1}), 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		var rawBase, ref, want string
		if _, err := fmt.Sscanf(lines.Text(), "%q %q %q", &rawBase, &ref, &want); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		base, _ := c.Parse(rawBase) // none, when it is no URL
		u, err := c.Join(base, ref)
		got := u.String()
		switch reason(err) {
		case ErrScheme:
			got = scheme
		case ErrMalformed:
			got = malformed
		}
		if got != want {
			t.Errorf("Join(%q, %q) = %q (%v), want %q", rawBase, ref, got, err, want)
		}
		checkSlow(t, c, base, ref, u, err)
		cases++
	}
	if cases < 700 {
		t.Errorf("%d cases", cases)
	}
}
