package extract

import (
	"slices"
	"testing"
)

func TestSrcsetCandidates(t *testing.T) {
	for set, want := range map[string][]string{
		"a.png":                           {"a.png"},
		" a.png 1x , b.png 2x ":           {"a.png", "b.png"},
		"a.png,b.png":                     {"a.png,b.png"}, // a comma within a URL is part of it
		"a.png, b.png":                    {"a.png", "b.png"},
		"a.png 100w,b.png 200w":           {"a.png", "b.png"},
		"data:image/png;base64,AA== 1x":   {"data:image/png;base64,AA=="},
		"a.png x(1,2) 1x, b.png":          {"a.png", "b.png"},
		",, a.png,, , b.png":              {"a.png", "b.png"},
		"a.png (unclosed, b.png":          {"a.png"},
		"":                                nil,
		" , ":                             nil,
		"a.png\t1x,\nb.png\f2x,c.png\r3x": {"a.png", "b.png", "c.png"},
	} {
		if got := slices.Collect(candidates(set)); !slices.Equal(got, want) {
			t.Errorf("candidates(%q) = %q, want %q", set, got, want)
		}
	}
}

func TestRefreshTarget(t *testing.T) {
	for content, want := range map[string]string{
		"5; url=a":         "a",
		"0;URL=a":          "a",
		"0,url=a":          "a",
		"0 url=a":          "a",
		"0;a":              "a",
		" 1.5 ; URL = 'a'": "a",
		`0;url="a" b`:      "a",
		`0;url="a`:         "a",
		"0;urls/a":         "urls/a",
		"0; 'a'b":          "a",
		"5":                "",
		"5;":               "",
		"5;url=":           "",
		"url=a":            "",
		"x;url=a":          "",
		"5a;url=b":         "",
		"":                 "",
	} {
		if got := refreshTarget(content); got != want {
			t.Errorf("refreshTarget(%q) = %q, want %q", content, got, want)
		}
	}
}
