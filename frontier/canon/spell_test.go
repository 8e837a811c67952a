package canon

import (
	"errors"
	"testing"
)

// TestSpell: Spell resolves references as browsers do, and removes nothing that a server sees.
func TestSpell(t *testing.T) {
	for _, c := range []struct{ base, ref, want string }{
		{"http://h.example/item?id=7", "/item?id=7&PHPSESSID=1", "http://h.example/item?id=7&PHPSESSID=1"},
		{"http://h.example/list", "list;jsessionid=E4.node1", "http://h.example/list;jsessionid=E4.node1"},
		{"http://h.example/news", "?utm_source=x", "http://h.example/news?utm_source=x"},
		{"http://h.example/q", "/q?", "http://h.example/q?"},
		{"http://h.example/q?b=1&a=2", "?a=2&b=1", "http://h.example/q?a=2&b=1"},
		{"http://h.example/~a", "/%7ea", "http://h.example/%7ea"},
		{"http://h.example/a", "/b/../a", "http://h.example/a"},
		{"http://h.example/a", "HTTP://H.Example:80/a#top", "http://h.example/a"},
		{"http://h.example/a", "//u:p@h.example:8080/a", "http://h.example:8080/a"},
		{"http://h.example/a", "http://h.example./a", "http://h.example./a"},
		{"http://h.example./a", "/b", "http://h.example./b"},
		{"http://h.example/a", "", "http://h.example/a"},
		{"http://h.example/a?b", "#c", "http://h.example/a?b"},
		{"http://h.example/a", " /a b?c d\t", "http://h.example/a%20b?c%20d"},
		{"http://h.example/a", "/é?é", "http://h.example/%C3%A9?%C3%A9"},
		{"http://h.example/100%", "?x=%", "http://h.example/100%?x=%"},
		{"http://h.example", "", "http://h.example/"},
		{"http://[::1]:81/a", "b?", "http://[::1]:81/b?"},
		{"http://127.0.0.1/a", "//0x7f.1/a?", "http://127.0.0.1/a?"},
		{"https://bücher.example/a", "?", "https://xn--bcher-kva.example/a?"},
	} {
		got, err := Spell(c.base, c.ref)
		if err != nil || got != c.want {
			t.Errorf("Spell(%q, %q) = %q, %v, want %q", c.base, c.ref, got, err, c.want)
		}
		if again, err := Spell(got, ""); err != nil || again != got {
			t.Errorf("Spell(%q, \"\") = %q, %v", got, again, err)
		}
	}
	for ref, want := range map[string]error{"mailto:x": ErrScheme, "javascript:x": ErrScheme, "http://": ErrMalformed, "http://a b/": ErrMalformed} {
		if got, err := Spell("http://h.example/", ref); !errors.Is(err, want) {
			t.Errorf("Spell(%q) = %q, %v, want %v", ref, got, err, want)
		}
	}
}
