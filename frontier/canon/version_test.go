package canon

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/unicode/norm"
)

// tablesOfForms is the version of the Unicode tables with which the canonical URLs in
// testdata were written. If TestUnicodeTables fails, this Go version has other tables. Then
// run the tests, look at each URL that changed, and write the new version here and into the
// message of CheckForm. CheckForm tells users that a program with the new tables cannot
// continue a crawl that was stored with the old ones.
//
// sumOfForms is a checksum of the canonical hosts that are made from every character.
const (
	tablesOfForms = "15.0.0"
	sumOfForms    = "ab34af16024fd422"
)

// TestUnicodeTables fails if the Go version that builds the program has other Unicode
// tables.
func TestUnicodeTables(t *testing.T) {
	if Tables != tablesOfForms {
		t.Errorf("x/net/idna has Unicode %s here, the forms in testdata were written with %s", Tables, tablesOfForms)
	}
	if norm.Version != Tables || bidi.UnicodeVersion != Tables {
		t.Errorf("x/net/idna has Unicode %s, x/text/unicode/norm %s, x/text/unicode/bidi %s: Form names only the first",
			Tables, norm.Version, bidi.UnicodeVersion)
	}
	all := sha256.New()
	for r := range rune(0xE1000) {
		if r < 0x34000 || r >= 0xE0000 { // no character between these two values is valid in a host
			host, _ := domainToASCII("a" + string(r))
			fmt.Fprintln(all, host)
		}
	}
	if sum := fmt.Sprintf("%x", all.Sum(nil)[:8]); sum != sumOfForms {
		t.Errorf("the canonical hosts of all characters have the checksum %s, want %s", sum, sumOfForms)
	}
}

func TestCheckForm(t *testing.T) {
	for _, tt := range []struct{ form, tables, refusal string }{
		{newT(t, Options{}).Form(), Tables, ""},
		{"v2 unicode=15.0.0 sort=false strip= keep=", "15.0.0", ""},
		{"v2 unicode=15.0.0 sort=false strip= keep=", "17.0.0", "has the tables of Unicode 17.0.0: continue with a program built by a Go version that has Unicode 15.0.0"},
		{"v2 unicode=17.0.0 sort=false strip= keep=", "15.0.0", "has the tables of Unicode 15.0.0: continue with a program built by a Go version that has Unicode 17.0.0"},
		{"v1 sort=false strip=utm_* keep=", "15.0.0", "it has version 1, this program has version 2: continue with"},
		{"v3 unicode=15.0.0 sort=false", "15.0.0", "it has version 3, this program has version 2: continue with"},
		{"v2 sort=false strip= keep=", "15.0.0", "has no version"},
		{"", "15.0.0", `"" has no version`},
		{"form", "15.0.0", `"form" has no version`},
	} {
		err := checkForm(tt.form, tt.tables)
		if tt.refusal == "" && err != nil {
			t.Errorf("checkForm(%q, %s): %v, want no error", tt.form, tt.tables, err)
		}
		if tt.refusal != "" && (!errors.Is(err, ErrForm) || !strings.Contains(err.Error(), tt.refusal)) {
			t.Errorf("checkForm(%q, %s): %v, want %q", tt.form, tt.tables, err, tt.refusal)
		}
	}
}

// TestFormOfOptions: the text of Form, which every crawl stores, does not change.
func TestFormOfOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"v2 unicode=" + tablesOfForms + " sort=true strip=a,b keep=c": {SortQuery: true, StripParams: []string{"a", "b"}, KeepParams: []string{"c"}},
		"v2 unicode=" + tablesOfForms + " sort=false strip=a keep=":   {StripParams: []string{"a"}},
		"v2 unicode=" + tablesOfForms + " sort=false strip=a keep=b":  {StripParams: []string{"a"}, KeepParams: []string{"b"}},
	} {
		if got := newT(t, o).Form(); got != want {
			t.Errorf("Form of %+v = %q, want %q", o, got, want)
		}
	}
}
