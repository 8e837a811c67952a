package exact_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

func TestRulesGiveClasses(t *testing.T) {
	const deep = 9
	for _, c := range []struct {
		rules string
		url   string
		depth uint16
		found exact.Found
		want  string // the class's name
	}{
		{"none", "https://a.test/", 0, exact.BySeed, "bulk"},
		{"seeds", "https://a.test/", 0, exact.BySeed, "seeds"},
		{"seeds", "https://a.test/", 0, exact.ByLink, "bulk"},
		{"sitemaps", "https://a.test/", deep, exact.BySitemap, "sitemaps"},
		{"sitemaps,seeds", "https://a.test/", deep, exact.BySeed, "seeds"},
		{"depth<=1", "https://a.test/", 1, exact.ByLink, "depth<=1"},
		{"depth<=1", "https://a.test/", 2, exact.ByLink, "bulk"},
		{"depth<=0,depth<=5", "https://a.test/", 2, exact.ByLink, "depth<=5"},
		{"host=*.gov", "https://www.a.gov/x", deep, exact.ByLink, "host=*.gov"},
		{"host=*.gov", "https://www.a.gov:8443/x", deep, exact.ByLink, "host=*.gov"},
		{"host=*.GOV", "https://www.a.gov/x", deep, exact.ByLink, "host=*.GOV"},
		{"host=*.gov", "https://gov.test/a.gov", deep, exact.ByLink, "bulk"},
		{"host=*.gov", "https://agov/", deep, exact.ByLink, "bulk"},
		{"host=www.*.a*.gov", "https://www.a.x.aa.gov/x", deep, exact.ByLink, "host=www.*.a*.gov"},
		{"host=a*a", "https://a/", deep, exact.ByLink, "bulk"},
		{"host=a.gov", "https://a.gov.x/", deep, exact.ByLink, "bulk"},
		{"host=*", "https://a.gov.x/", deep, exact.ByLink, "host=*"},
		{"host=[::1]", "http://[::1]:80/", deep, exact.ByLink, "host=[::1]"},
		{"re=/product/", "https://a.test/product/1", deep, exact.ByLink, "re=/product/"},
		{"re=/product/", "https://a.test/products", deep, exact.ByLink, "bulk"},
		{`re=/p\d{2,3}$,all`, "https://a.test/p12", deep, exact.ByLink, `re=/p\d{2,3}$`},
		{`re=/a\,b,all`, "https://a.test/a,b", deep, exact.ByLink, `re=/a\,b`},
		{"all", "https://a.test/", deep, exact.ByLink, "all"},
		// Rules that depend only on the URL come before the other rules, even if they are
		// given later.
		{"seeds,all", "https://a.test/", 0, exact.BySeed, "all"},
		{"seeds,depth<=3,host=*.gov,all", "https://b.gov/", 0, exact.BySeed, "host=*.gov"},
		{"depth<=3, seeds", "https://b.gov/", 0, exact.BySeed, "depth<=3"},
	} {
		rules, err := exact.ParseTexts([]string{c.rules})
		if err != nil {
			t.Errorf("ParseTexts(%q): %v", c.rules, err)
			continue
		}
		item := frontier.Offer{URL: c.url, Host: "unused", Depth: c.depth}
		if got := rules.Name(rules.Class(&item, c.found)); got != c.want {
			t.Errorf("rules %q, URL %s, found %d, depth %d: class %q, want %q", c.rules, c.url, c.found, c.depth, got, c.want)
		}
		item.Class = frontier.Sitemap
		if got := rules.Class(&item, c.found); got != frontier.Sitemap {
			t.Errorf("rules %q give a sitemap file class %d, want it unchanged", c.rules, got)
		}
	}
}

// TestClassNumbers: the number of a class depends only on the kinds and positions of the
// rules, because items store this number.
func TestClassNumbers(t *testing.T) {
	rules, err := exact.ParseTexts([]string{"all,seeds,depth<=1,sitemaps,re=x"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]frontier.Class{
		"all": 4, "seeds": frontier.Exact, "depth<=1": 5, "sitemaps": 3, "re=x": 6, "sitemap-files": frontier.Sitemap,
	} {
		if got, ok := rules.ClassOf(name); !ok || got != want {
			t.Errorf("ClassOf(%q) = %d, want %d", name, got, want)
		}
		if pure := name == "all" || name == "re=x"; rules.Pure(want) != pure {
			t.Errorf("Pure of the class %q = %t, want %t", name, !pure, pure)
		}
	}
	if _, ok := rules.ClassOf("bulk"); ok {
		t.Error("ClassOf(\"bulk\") returned a class, want none")
	}
	if got := rules.String(); got != "all,seeds,depth<=1,sitemaps,re=x" {
		t.Errorf("String() = %q, want the text of all rules in their order", got)
	}
	if rules.Name(7) != "" || rules.Text(7) != "" || rules.Text(4) != "all" || rules.Text(frontier.Sitemap) == "" {
		t.Error("Name or Text is wrong: want none for class 7, \"all\" for class 4, and a text for sitemap files")
	}
}

func TestNamedRules(t *testing.T) {
	rules, err := exact.NewRules(exact.Rule{Name: "news", Text: `re=/news/\d+,`}, exact.Rule{Text: "seeds"})
	if err != nil {
		t.Fatal(err)
	}
	windows, err := exact.ParseWindows("news=24h, seeds=7d", rules)
	if want := (exact.Windows{frontier.Exact: 7 * 24 * time.Hour, 4: 24 * time.Hour}); err != nil || windows != want {
		t.Errorf("ParseWindows = %v, %v; want %v", windows, err, want)
	}
	if rules.Text(4) != `re=/news/\d+,` {
		t.Errorf("Text of the rule named news = %q, want its pattern with the comma", rules.Text(4))
	}
}

func TestBadRules(t *testing.T) {
	for text, want := range map[string][]string{
		"":                            {"no rule"},
		" , ":                         {"no rule"},
		"seed":                        {`"seed"`, "want one of"},
		"seeds,dpeth<=1,all,re=(":     {`"dpeth<=1"`, `"re=("`, "missing closing )"},
		"depth<=-1":                   {`"-1" is no depth`},
		"depth<=65536":                {`"65536" is no depth`},
		"depth<1":                     {`"depth<1"`},
		"host=":                       {"want a host name"},
		"re=":                         {"it is empty"},
		"seeds,seeds":                 {"is given twice"},
		"none,seeds":                  {`"none"`},
		strings.Join(depths(13), ","): {"want at most 12 rules"},
	} {
		_, err := exact.ParseTexts([]string{text})
		for _, part := range want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("ParseTexts(%q): %v, want an error that says %q", text, err, part)
			}
		}
	}
	_, err := exact.NewRules(exact.Rule{Name: "a", Text: "seeds"}, exact.Rule{Name: "a", Text: "all"}, exact.Rule{Name: "sitemap-files", Text: "re=x"})
	if err == nil || strings.Count(err.Error(), "another class has the name") != 2 {
		t.Errorf("NewRules with two names that are in use: %v, want an error for each", err)
	}
	if _, err := exact.ParseTexts([]string{strings.Join(append(depths(12), "seeds", "sitemaps"), ",")}); err != nil {
		t.Errorf("ParseTexts of the largest number of rules: %v", err)
	}
}

func depths(n int) (rules []string) {
	for i := range n {
		rules = append(rules, fmt.Sprintf("depth<=%d", i))
	}
	return rules
}

func TestParseWindows(t *testing.T) {
	rules := mustRules(t, "seeds,depth<=1,re=a{1,2}")
	for text, want := range map[string]exact.Windows{
		"":                         {},
		"seeds=24h":                {frontier.Exact: 24 * time.Hour},
		"depth<=1=90m,seeds=2d":    {frontier.Exact: 48 * time.Hour, 4: 90 * time.Minute},
		"re=a{1,2}=1s":             {5: time.Second},
		"sitemap-files=36500d":     {frontier.Sitemap: 36500 * 24 * time.Hour},
		"seeds=0,depth<=1=0s":      {},
		"seeds=1h30m , depth<=1=0": {frontier.Exact: 90 * time.Minute},
		"bulk=30d,seeds=1h":        {frontier.Bulk: 30 * 24 * time.Hour, frontier.Exact: time.Hour},
	} {
		if got, err := exact.ParseWindows(text, rules); err != nil || got != want {
			t.Errorf("ParseWindows(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"seeds":              "want a class and how long",
		"pages=1h":           `no class has the name "pages"; want one of seeds, sitemap-files, depth<=1, re=a{1,2}, bulk`,
		"bulk=1h,bulk=2h":    "has a window already",
		"seeds=":             "neither 0 nor a duration",
		"seeds=1":            "neither 0 nor a duration",
		"seeds=-1h":          "neither 0 nor a duration",
		"seeds=1ms":          "neither 0 nor a duration",
		"seeds=36501d":       "neither 0 nor a duration",
		"seeds=1000000h":     "neither 0 nor a duration",
		"seeds=1h,seeds=2h":  "has a window already",
		"x=1h,seeds=y":       `"seeds=y"`,
		"seeds=1.5d":         "neither 0 nor a duration",
		"seeds=99999999999d": "neither 0 nor a duration",
	} {
		if _, err := exact.ParseWindows(text, rules); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseWindows(%q): %v, want an error that says %q", text, err, want)
		}
	}
}

// FuzzParseTexts: parsing the text of parsed rules returns the same rules.
func FuzzParseTexts(f *testing.F) {
	for _, text := range []string{"seeds", "none", `re=/a{1,2},depth<=3,host=*.x,all`, `re=[,],re=\,`, "re=(,", "seeds,,all"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := exact.ParseTexts([]string{text})
		name, _, named := strings.Cut(text, ":")
		if err != nil || named && !strings.ContainsAny(name, "=<,") { // a text with the name of a class is not a list
			return
		}
		again, err := exact.ParseTexts([]string{rules.String()})
		if err != nil || again.String() != rules.String() {
			t.Fatalf("%q is written as %q, which is read as %v, %v", text, rules, again, err)
		}
		item := frontier.Offer{URL: "https://a.test:1/x", Depth: 2}
		for _, found := range []exact.Found{exact.ByLink, exact.BySeed, exact.BySitemap} {
			class := rules.Class(&item, found)
			if again.Class(&item, found) != class || rules.Name(class) == "" {
				t.Fatalf("%q: class %d with name %q, but %d after the rules were written and read", text, class, rules.Name(class), again.Class(&item, found))
			}
		}
	})
}

func BenchmarkClass(b *testing.B) {
	for _, text := range []string{"seeds", "seeds,depth<=1,host=*.gov,re=/product/"} {
		rules := mustRules(b, text)
		item := frontier.Offer{URL: "https://www.example.org/some/path?with=query", Depth: 5}
		b.Run("rules="+text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rules.Class(&item, exact.ByLink)
			}
		})
	}
}
