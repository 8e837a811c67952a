package extract

import (
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

func TestQueriesInCharset(t *testing.T) {
	for _, tt := range []struct{ charset, ref, want string }{
		{"windows-1251", "/да?q=да нет&π#ü", "/да?q=%E4%E0 %ED%E5%F2&%26%23960%3B#%26%23252%3B"},
		{"windows-1251", "/да", "/да"},
		{"windows-1251", "?q=%E4&a=b", "?q=%E4&a=b"},
		{"windows-1252", "?†", "?%86"},
		{"gb18030", "?a\ue5e5中", "?a%26%2358853%3B%D6%D0"},
		{"gbk", "?\ue5e5€", "?%26%2358853%3B%80"},
		{"shift_jis", "?−本", "?%81|%96{"},
		{"shift_jis", `?¥‾\~ｱ`, `?\~\~%B1`},
		{"euc-jp", "?−本", "?%A1%DD%CB%DC"},
		// The encoder keeps its state between characters.
		{"iso-2022-jp", "?q=日本", `?q=%1B$BF|K\%1B(B`},
		{"iso-2022-jp", "?日本a語#日", `?%1B$BF|K\%1B(Ba%1B$B8l%1B(B#%1B$BF|%1B(B`},
		{"iso-2022-jp", "?日\n\t本", `?%1B$BF|K\%1B(B`},
		{"iso-2022-jp", "?日é本", `?%1B$BF|%1B(B%26%23233%3B%1B$BK\%1B(B`},
		{"iso-2022-jp", "?日é", `?%1B$BF|%1B(B%26%23233%3B`},
		{"iso-2022-jp", "?−ｱﾞﾟ｡", `?%1B$B!]%%22!+!,!%23%1B(B`},
		{"iso-2022-jp", "?\x0eA", "?%26%2365533%3BA"},
	} {
		if got := newQueryEncoder(tt.charset).encode(tt.ref); got != tt.want {
			t.Errorf("%s: encode(%+q) = %+q, want %+q", tt.charset, tt.ref, got, tt.want)
		}
	}
	var utf8 *queryEncoder
	if got := utf8.encode("?ä"); got != "?ä" {
		t.Errorf("UTF-8: encode(%q) = %q, want it unchanged", "?ä", got)
	}
	if long := "?" + strings.Repeat("ä", 2*canon.MaxBytes); newQueryEncoder("windows-1252").encode(long) != long {
		t.Error("a reference that is too long for a URL was encoded")
	}
}

// TestQueryOfPage reads a page in ISO-2022-JP, from its bytes to its links.
func TestQueryOfPage(t *testing.T) {
	const want = `https://www.example.org/?q=%1B$BF|K\%1B(B`
	form, err := canon.New(canon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	page := HTML([]byte("<a href='/?q=\x1b$BF|K\\\x1b(B'>"), "text/html; charset=iso-2022-jp", testURL(t, "https://www.example.org/"), Options{Canon: form})
	if len(page.Links) != 1 || page.Links[0].URL.String() != want {
		t.Errorf("links %v, want %s", page.Links, want)
	}
}

// TestQueryAllocations: the encoder allocates at most once for a query of many
// characters.
func TestQueryAllocations(t *testing.T) {
	ref := "?q=" + strings.Repeat("да нет ", 200)
	q := newQueryEncoder("windows-1251")
	if got := testing.AllocsPerRun(100, func() { q.encode(ref) }); got > 1 {
		t.Errorf("%v allocations, want at most 1", got)
	}
}
