package name

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for text, want := range map[string][3]bool{ // Valid, OfCrawl, OfRelay
		"a": {true, true, true}, "A-z_0.9": {true, true, true}, "-": {true, true, true}, ".a": {true, true, false},
		".": {true, false, false}, "..": {true, false, false}, "": {}, "a b": {}, "a/b": {}, "ä": {}, "a\n": {},
		strings.Repeat("a", 64): {true, true, true}, strings.Repeat("a", 65): {},
	} {
		if got := [3]bool{Valid(text), OfCrawl(text), OfRelay(text)}; got != want {
			t.Errorf("%q: Valid, OfCrawl, OfRelay = %t, want %t", text, got, want)
		}
	}
}
