package canon

import (
	"flag"
	"math/rand/v2"
	"strings"
	"testing"
)

var seed = flag.Uint64("seed", 0, "seed of the random tests; 0: a new one")

// pieces are parts of host names that IDNA maps, drops, refuses, or allows only beside
// certain other characters.
var pieces = strings.Split("a b z 0 9 - -- _ . .. xn-- XN-- bcher-kva wgv71a119e p1ai a-0hc ü Ü ß ς İ ı é e\u0301 \u0301 "+
	"日 本 。 ． ｡ ＧＯ １ \u00ad \u200c \u200d \u094d\u200d क\u094d\u200c ا ب א ב \u0660 \u06f0 \u30fb ー \u2260 \u226e \u2044 ／ ： ＠ ％ ？ ﹟ "+
	"\ufffd \ufeff \u2028 \u00a0 \u3000 \U0001f4a9 \U0001d4d0 \U000e0001 \ue000 \xff \xc3 ! ~ $ & ' + , ; = * %C3%BC %2e %61", " ")

// TestIDNA: for names that need IDNA, Parse returns the same URLs as joinSlow.
func TestIDNA(t *testing.T) {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("replay with -seed=%d", s)
	dice := rand.New(rand.NewPCG(s, 7))
	c, cut := newT(t, Options{}), 0
	for range 20_000 {
		var name strings.Builder
		for range 1 + dice.IntN(5) {
			name.WriteString(pieces[dice.IntN(len(pieces))])
		}
		ref := "http://" + name.String() + []string{"", ".example", ".example.", ".рф", ".com:80"}[dice.IntN(5)] + "/"
		u, err := c.Parse(ref)
		checkSlow(t, c, URL{}, ref, u, err)
		if err == nil {
			checkCanonical(t, c, ref, u)
		}
		text, _, _ := strings.Cut(strings.TrimPrefix(ref, "http://"), "/")
		if host, err := parseName(text[:nameLen(text)]); err == nil && strings.Contains(host, "xn--") {
			cut++
		}
	}
	if cut < 1000 {
		t.Errorf("parseName returned %d names with xn--, want at least 1000: the test compared too little", cut)
	}
}

// TestIDNARefusals: parseName refuses these names, so Join leaves them to joinSlow.
func TestIDNARefusals(t *testing.T) {
	for _, name := range []string{"", ".", "a..b", "xn--bcher-kva.1", "ü.0x1", "\xff", "ü／.example", "xn--ü", "xn--.ü", "xn--xn---epa.ü",
		"ü" + strings.Repeat("a", 60), "\u200d", "ℶ⮷〆\u1a81", "a\u0301א.example", strings.Repeat("ü.", 40) + "example"} {
		if host, err := parseName(name); err == nil {
			t.Errorf("parseName(%q) = %q, want an error", name, host)
		}
	}
}
