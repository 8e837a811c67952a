package canon

import (
	"flag"
	"math/rand/v2"
	"strings"
	"testing"
)

var seed = flag.Uint64("seed", 0, "seed of the random tests; 0: a new one")

// pieces of host names that IDNA maps, drops, refuses, or allows in some
// neighbourhoods only.
var pieces = strings.Split("a b z 0 9 - -- _ . .. xn-- XN-- bcher-kva wgv71a119e p1ai a-0hc ü Ü ß ς İ ı é e\u0301 \u0301 "+
	"日 本 。 ． ｡ ＧＯ １ \u00ad \u200c \u200d \u094d\u200d क\u094d\u200c ا ب א ב \u0660 \u06f0 \u30fb ー \u2260 \u226e \u2044 ／ ： ＠ ％ ？ ﹟ "+
	"\ufffd \ufeff \u2028 \u00a0 \u3000 \U0001f4a9 \U0001d4d0 \U000e0001 \ue000 \xff \xc3 ! ~ $ & ' + , ; = * %C3%BC %2e %61", " ")

// TestIDNA: names come out of the short cut as they do of the slow path.
func TestIDNA(t *testing.T) {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("replay with -seed=%d", s)
	dice := rand.New(rand.NewPCG(s, 7))
	all := []*Canonicalizer{newT(t, Options{}), newT(t, Options{Version: 1})}
	cut := 0
	for i := range 20_000 {
		c := all[i%len(all)]
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
		if host, done := c.rules.name(text[:nameLen(text)]); done && strings.Contains(host, "xn--") {
			cut++
		}
	}
	if cut < 1000 {
		t.Errorf("%d names took the short cut: nothing was compared", cut)
	}
}

// TestIDNARefusals: what the short cut leaves alone.
func TestIDNARefusals(t *testing.T) {
	both := []string{"", ".", "a..b", "xn--bcher-kva.1", "ü.0x1", "\xff", "ü／.example",
		"ü" + strings.Repeat("a", 60), "\u200d", "ℶ⮷〆\u1a81", "a\u0301א.example", strings.Repeat("ü.", 40) + "example"}
	for version, names := range [][]string{1: append(both, "xn--", "xn--a", "ü_.example"), 2: append(both, "xn--ü", "xn--.ü", "xn--xn---epa.ü")} {
		for _, name := range names {
			if host, done := newT(t, Options{Version: version}).rules.name(name); done {
				t.Errorf("version %d: %q is %q", version, name, host)
			}
		}
	}
}
