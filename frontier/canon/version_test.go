package canon

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/unicode/norm"
)

// sumOfForms is a checksum of the canonical hosts that are made from every character, in five contexts.
const sumOfForms = "985addb205dea1db"

// TestUnicodeTables: the canonical form is the same with the tables of each Go version. It fails if
// x/net/idna or x/text has tables for which amend and isLater do not make up. Then compare the hosts of
// all characters with those of the old tables, and mend these functions.
func TestUnicodeTables(t *testing.T) {
	if norm.Version != idna.UnicodeVersion || bidi.UnicodeVersion != idna.UnicodeVersion {
		t.Errorf("x/net/idna has Unicode %s, x/text/unicode/norm %s, x/text/unicode/bidi %s", idna.UnicodeVersion, norm.Version, bidi.UnicodeVersion)
	}
	all := sha256.New()
	for r := range rune(0xE1000) {
		if r < 0x34000 || r >= 0xE0000 { // no character between these two values is valid in a host
			// Latin letters, alone, right-to-left letters, a virama, and a non-joiner between Arabic letters.
			for _, around := range [][2]string{{"a", ""}, {"", ""}, {"א", "ב"}, {"क्", "x"}, {"ب\u200c", ""}} {
				host, _ := domainToASCII(around[0] + string(r) + around[1])
				fmt.Fprintln(all, host)
			}
		}
	}
	if sum := fmt.Sprintf("%x", all.Sum(nil)[:8]); sum != sumOfForms {
		t.Errorf("with Unicode %s, the canonical hosts of all characters have the checksum %s, want %s", idna.UnicodeVersion, sum, sumOfForms)
	}
}

func TestCheckForm(t *testing.T) {
	for _, tt := range []struct{ form, refusal string }{
		{newT(t, Options{}).Form(), ""},
		{"v2 unicode=15.0.0 sort=false strip= keep=", ""},
		{"v2 unicode=17.0.0 sort=false strip= keep=", "follow Unicode 17.0.0, those of this program Unicode 15.0.0: continue with"},
		{"v1 sort=false strip=utm_* keep=", "it has version 1, this program has version 2: continue with"},
		{"v3 unicode=15.0.0 sort=false", "it has version 3, this program has version 2: continue with"},
		{"v2 sort=false strip= keep=", "has no version"},
		{"", `"" has no version`},
		{"form", `"form" has no version`},
	} {
		err := CheckForm(tt.form)
		if tt.refusal == "" && err != nil {
			t.Errorf("CheckForm(%q): %v, want no error", tt.form, err)
		}
		if tt.refusal != "" && (!errors.Is(err, ErrForm) || !strings.Contains(err.Error(), tt.refusal)) {
			t.Errorf("CheckForm(%q): %v, want %q", tt.form, err, tt.refusal)
		}
	}
}

// TestFormOfOptions: the text of Form, which every crawl stores, does not change.
func TestFormOfOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"v2 unicode=15.0.0 sort=true strip=a,b keep=c": {SortQuery: true, StripParams: []string{"a", "b"}, KeepParams: []string{"c"}},
		"v2 unicode=15.0.0 sort=false strip=a keep=":   {StripParams: []string{"a"}},
		"v2 unicode=15.0.0 sort=false strip=a keep=b":  {StripParams: []string{"a"}, KeepParams: []string{"b"}},
	} {
		if got := newT(t, o).Form(); got != want {
			t.Errorf("Form of %+v = %q, want %q", o, got, want)
		}
	}
}
