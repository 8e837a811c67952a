package robots

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/suite"
)

// TestRFC9309 checks the rules of RFC 9309 and Google's examples for them. Paths with a leading
// "-" must be refused, and other paths must be allowed.
func TestRFC9309(t *testing.T) {
	for _, c := range []struct{ section, file, paths string }{
		// 2.2.1 the user-agent line
		{"named group, not that of everyone", "User-agent: foobot\nDisallow: /a\n\nUser-agent: *\nDisallow: /b", "-/a /b"},
		{"everyone, when none is named", "User-agent: *\nDisallow: /b\n\nUser-agent: barbot\nDisallow: /a", "/a -/b"},
		{"no group for us", "User-agent: barbot\nDisallow: /", "/ /a"},
		{"no group at all", "Disallow: /", "/ /a"},
		{"case of the name", "user-agent: FOOBOT\ndisallow: /a", "-/a /b"},
		{"version behind the name", "User-agent: foobot/2.1\nDisallow: /a", "-/a"},
		{"a longer name is another", "User-agent: foobot-news\nDisallow: /a", "/a"},
		{"a shorter name is another", "User-agent: foo\nDisallow: /a", "/a"},
		{"a star behind the name", "User-agent: foobot*\nDisallow: /a", "-/a"},
		{"a digit behind the name is another", "User-agent: foobot2\nDisallow: /a", "/a"},
		{"groups for one name merge", "User-agent: foobot\nDisallow: /a\n\nUser-agent: barbot\nDisallow: /c\n\nUser-agent: foobot\nDisallow: /b", "-/a -/b /c"},
		{"groups for everyone merge", "User-agent: *\nDisallow: /a\n\nUser-agent: barbot\nDisallow: /c\n\nUser-agent: *\nDisallow: /b", "-/a -/b /c"},
		{"names share rules", "User-agent: barbot\nUser-agent: foobot\nDisallow: /a", "-/a"},
		{"named and everyone in one group", "User-agent: *\nUser-agent: foobot\nDisallow: /a\nUser-agent: *\nDisallow: /b", "-/a /b"},
		{"empty group of ours wins over everyone", "User-agent: foobot\nUser-agent: barbot\n\nUser-agent: *\nDisallow: /", "-/"},
		{"group without rules joins the next", "User-agent: foobot\n\nUser-agent: barbot\nDisallow: /a", "-/a"},
		{"group of ours with an empty rule", "User-agent: foobot\nDisallow:\n\nUser-agent: *\nDisallow: /", "/ /a"},
		{"other lines do not end the names", "User-agent: foobot\nSitemap: http://h/s.xml\nCrawl-delay: 1\nUser-agent: barbot\nDisallow: /a", "-/a"},
		{"merged groups, longest wins over both", "User-agent: foobot\nDisallow: /a/b\n\nUser-agent: foobot\nAllow: /a/b/c\nDisallow: /a/b/c/d", "/a -/a/b /a/b/c -/a/b/c/d"},
		{"group lines before any name", "Disallow: /a\nUser-agent: *\nDisallow: /b", "/a -/b"},
		{"two names of ours", "User-agent: foobot/1\nUser-agent: FooBot\nDisallow: /a", "-/a"},
		{"star beside our name does not count twice", "User-agent: foobot\nAllow: /a\nUser-agent: *\nDisallow: /", "/a /b"},
		{"star with a word behind it", "User-agent: * all\nDisallow: /a", "-/a"},

		// 2.2.2 allow and disallow
		{"prefix", "User-agent: *\nDisallow: /fish", "-/fish -/fish.html -/fish/salmon.html -/fishheads -/fish.php?id=1 /Fish.asp /catfish /?id=fish /desert/fish"},
		{"star at the end is ignored", "User-agent: *\nDisallow: /fish*", "-/fish -/fishheads/yummy.html /Fish.asp /catfish"},
		{"folder", "User-agent: *\nDisallow: /fish/", "-/fish/ -/fish/?id=1 -/fish/salmon.htm /fish /fish.html"},
		{"longest wins", "User-agent: *\nAllow: /p\nDisallow: /", "/page -/x"},
		{"longest wins, allow is shorter", "User-agent: *\nAllow: /folder\nDisallow: /folder/b", "/folder/a -/folder/b"},
		{"ties allow", "User-agent: *\nAllow: /folder\nDisallow: /folder", "/folder/page"},
		{"ties allow, other order", "User-agent: *\nDisallow: /folder\nAllow: /folder", "/folder/page"},
		{"longest by octets of the pattern", "User-agent: *\nAllow: /page\nDisallow: /*.htm", "-/page.htm /page.txt"},
		{"longest, more specific allow", "User-agent: *\nAllow: /$\nDisallow: /", "/ -/page.htm"},
		{"tie of another kind", "User-agent: *\nAllow: /page\nDisallow: /*.ph", "/page.php5"},
		{"RFC example 5.2", "User-agent: foobot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif", "/example/page/ -/example/page/disallowed.gif"},
		{"robots.txt itself", "User-agent: *\nDisallow: /", "/robots.txt -/robots.txt?x"},
		{"path is case sensitive", "User-agent: *\nDisallow: /X", "/x -/X"},
		{"rule without a slash matches nothing", "User-agent: *\nDisallow: fish", "/fish /xfish"},
		{"the query counts", "User-agent: *\nDisallow: /*?sid=", "-/a?sid=1 /a?x=sid="},
		{"index.html is not its folder", "User-agent: *\nAllow: /d/index.html\nDisallow: /", "/d/index.html -/d/"},

		// 2.2.2 percent-encoding: the table of the RFC
		{"plain query", "User-agent: *\nDisallow: /foo/bar?baz=quz", "-/foo/bar?baz=quz"},
		{"reserved in query", "User-agent: *\nDisallow: /foo/bar?baz=https://foo.bar", "-/foo/bar?baz=https://foo.bar -/foo/bar?baz=https%3A%2F%2Ffoo.bar"},
		{"escaped reserved in query", "User-agent: *\nDisallow: /foo/bar?baz=https%3A%2F%2Ffoo.bar", "-/foo/bar?baz=https://foo.bar -/foo/bar?baz=https%3a%2f%2ffoo.bar"},
		{"non-ASCII rule", "User-agent: *\nDisallow: /foo/bar/ツ", "-/foo/bar/%E3%83%84 -/foo/bar/%e3%83%84 -/foo/bar/ツ"},
		{"escaped rule", "User-agent: *\nDisallow: /foo/bar/%E3%83%84", "-/foo/bar/%E3%83%84 -/foo/bar/ツ"},
		{"escaped rule in lower case", "User-agent: *\nDisallow: /f%c3%bcr\nDisallow: /naïf%20", "-/f%C3%BCr -/für -/na%C3%AFf%20x"},
		{"escaped unreserved", "User-agent: *\nDisallow: /foo/bar/%62%61%7A", "-/foo/bar/%62%61%7A -/foo/bar/baz"},
		{"escaped slash is no slash", "User-agent: *\nDisallow: /a/b", "/a%2Fb -/a/b"},
		{"escaped slash, any star", "User-agent: *\nDisallow: /*%2F", "-/a%2fb -/x?u=a%2Fb /a/b"},
		{"stray percent", "User-agent: *\nDisallow: /100%", "-/100% -/100%x"},

		// 2.2.3 special characters
		{"comment", "User-agent: * # all\nDisallow: /a # not /b", "-/a /b"},
		{"end", "User-agent: *\nDisallow: /*.php$", "-/f.php -/d/f.php /f.php?x /f.php/ /f.php5 /f.PHP"},
		{"star in the middle", "User-agent: *\nDisallow: /fish*.php", "-/fish.php -/fishheads/catfish.php?p /Fish.PHP"},
		{"star first", "User-agent: *\nDisallow: *.php", "-/index.php -/d/f.php?x=/ /windows.PHP"},
		{"only a star", "User-agent: *\nDisallow: *", "-/ -/a"},
		{"stars in a row", "User-agent: *\nDisallow: /a**b***c$", "-/abc -/axxbyyc /abcd"},
		{"star may be empty", "User-agent: *\nDisallow: /a*b", "-/ab"},
		{"star and end", "User-agent: *\nDisallow: /a*b$", "-/ab -/abxb /abx"},
		{"parts may not overlap", "User-agent: *\nDisallow: /*aba*aba$", "-/abaaba /ababa"},
		{"escaped star is a star", "User-agent: *\nDisallow: /file-with-a-%2A.html", "-/file-with-a-*.html -/file-with-a-%2A.html /file-with-a-x.html"},
		{"escaped dollar is a dollar", "User-agent: *\nDisallow: /foo-%24", "-/foo-$ -/foo-$x -/foo-%24 /foo-"},
		{"dollar in the middle", "User-agent: *\nDisallow: /a$b", "-/a$b -/a%24b /a"},
		{"two dollars", "User-agent: *\nDisallow: /a$$", "-/a$ /a /a$$"},

		// 2.3 and 2.5: form
		{"byte order mark", "\ufeffUser-agent: *\nDisallow: /a", "-/a"},
		{"half a byte order mark", "\xef\xbbUser-agent: *\nDisallow: /a", "-/a"},
		{"more typos", "User agent: *\nDissallow: /a\nDissalow: /b\nDiasllow: /c\nDisallaw: /d", "-/a -/b -/c -/d"},
		{"unknown lines are skipped", "User-agent: *\nNoindex: /b\nHost: h\nClean-param: x\nDisallow: /a", "-/a /b"},
		{"blank lines within a group", "User-agent: *\n\n\nDisallow: /a\n\nDisallow: /b", "-/a -/b"},
		{"comment lines within the names", "User-agent: barbot\n# all of us\nUser-agent: foobot\nDisallow: /a", "-/a"},
		{"NUL bytes", "User-agent: *\nDisallow: /a\x00\nDisallow: /b", "/a -/b"},
		{"lines end in CR", "User-agent: *\rDisallow: /a\rDisallow: /b", "-/a -/b"},
		{"lines end in CRLF", "User-agent: *\r\nDisallow: /a\r\n", "-/a"},
		{"space around", "  User-agent :  *  \n\tDisallow\t:\t/a\t", "-/a"},
		{"missing colon", "User-agent *\nDisallow /a", "-/a"},
		{"typo", "Useragent: *\nDisalow: /a", "-/a"},
		{"HTML instead", "<!DOCTYPE html><html><body>User-agent: *<p>Disallow: /</html>", "/ /a"},
		{"empty", "", "/ /a"},
	} {
		t.Run(c.section, func(t *testing.T) {
			rules := Parse([]byte(c.file), "foobot")
			for _, path := range strings.Fields(c.paths) {
				path, disallowed := strings.CutPrefix(path, "-")
				allowed, rule := rules.Allowed(path)
				if allowed == disallowed {
					t.Errorf("Allowed(%q) = %v by the rule %q\n%s", path, allowed, rule, c.file)
				}
				if !allowed && !strings.HasPrefix(rule, "Disallow: ") {
					t.Errorf("Allowed(%q) = false by the rule %q, want a Disallow", path, rule)
				}
			}
		})
	}
}

func TestAllowedNamesTheRule(t *testing.T) {
	rules := Parse([]byte("User-agent: *\nDisallow: /a\nAllow: /a/*.html$\n"), "foobot")
	for path, want := range map[string]string{
		"/a/x":      "Disallow: /a",
		"/a/x.html": "Allow: /a/*.html$",
		"/b":        "",
	} {
		if _, rule := rules.Allowed(path); rule != want {
			t.Errorf("Allowed(%q) returned the rule %q, want %q", path, rule, want)
		}
	}
}

func TestAllowAll(t *testing.T) {
	for _, path := range []string{"", "/", "/a?b"} {
		if allowed, _ := AllowAll().Allowed(path); !allowed {
			t.Errorf("AllowAll refuses %q", path)
		}
		if allowed, _ := new(Rules).Allowed(path); !allowed {
			t.Errorf("zero Rules refuse %q", path)
		}
	}
}

func TestOnlyTheFirst500KiBCount(t *testing.T) {
	line := "Disallow: /" + strings.Repeat("x", 100) + "\n"
	file := "User-agent: *\nDisallow: /first\n" + strings.Repeat(line, MaxBytes/len(line)-1)
	pad := MaxBytes - len(file) - len("Disallow: /cu")
	file += "#" + strings.Repeat("p", pad-2) + "\n" + "Disallow: /cut\nDisallow: /behind\n"
	if cut := file[:MaxBytes]; !strings.HasSuffix(cut, "\nDisallow: /cu") {
		t.Fatalf("the first MaxBytes of the file end with %q, want them to end within the rule /cut", cut[len(cut)-20:])
	}
	rules := Parse([]byte(file), "foobot")
	for path, want := range map[string]bool{"/first": false, "/cut": true, "/cu": true, "/behind": true} {
		if allowed, rule := rules.Allowed(path); allowed != want {
			t.Errorf("Allowed(%q) = %v by the rule %q, want %v", path, allowed, rule, want)
		}
	}
	endless := Parse([]byte("User-agent: *"+strings.Repeat(" ", MaxBytes)+"\nDisallow: /"), "foobot")
	if endless.Len() != 0 {
		t.Errorf("one line beyond the limit gives %d rules, want none", endless.Len())
	}
}

func TestCrawlDelay(t *testing.T) {
	for _, c := range []struct {
		file string
		want time.Duration // negative means none
	}{
		{"User-agent: *\nCrawl-delay: 2.5\nDisallow: /a", 2500 * time.Millisecond},
		{"User-agent: *\nDisallow: /a\ncrawl-delay: 3", 3 * time.Second},
		{"User-agent: *\nCrawl-delay: 0", 0},
		{"User-agent: *\nDisallow: /a", -1},
		{"User-agent: *\nCrawl-delay: 5\nUser-agent: foobot\nDisallow: /a", -1},
		{"User-agent: foobot\nCrawl-delay: 5\n\nUser-agent: *\nDisallow: /a", 5 * time.Second},
		{"User-agent: foobot\nCrawl-delay: 5\nDisallow:\nUser-agent: foobot\nCrawl-delay: 2", 5 * time.Second},
		{"User-agent: *\nCrawl-delay: 9\n\nUser-agent: foobot\nDisallow:", -1},
		{"User-agent: *\nCrawl-delay: -1", -1},
		{"User-agent: *\nCrawl-delay: NaN", -1},
		{"User-agent: *\nCrawl-delay: inf", -1},
		{"User-agent: *\nCrawl-delay: soon", -1},
		{"User-agent: *\nCrawl-delay: 1e300", maxCrawlDelay},
	} {
		got, ok := Parse([]byte(c.file), "foobot").CrawlDelay()
		if !ok {
			got = -1
		}
		if got != c.want {
			t.Errorf("crawl-delay %v, want %v\n%s", got, c.want, c.file)
		}
	}
}

func TestNamedSitemaps(t *testing.T) {
	rules := Parse([]byte("Sitemap: https://h/a.xml\nUser-agent: barbot\nSitemap: /b.xml\nDisallow: /\nsitemap:\n"), "foobot")
	if got := fmt.Sprint(rules.Sitemaps()); got != "[https://h/a.xml /b.xml]" {
		t.Errorf("Sitemaps() = %s", got)
	}
	many := Parse([]byte(strings.Repeat("Sitemap: /x\n", 2*MaxSitemaps)), "foobot")
	if got := len(many.Sitemaps()); got != MaxSitemaps {
		t.Errorf("%d sitemaps, want %d", got, MaxSitemaps)
	}
}

func TestProductToken(t *testing.T) {
	for agent, want := range map[string]string{
		"crawler/1.0 (+http://h/)": "crawler", "My-Bot_2": "My-Bot_2", "a b": "a", "": "", "(x)": "",
		" foo;bar": "foo", "m\x00": "m",
	} {
		if got := ProductToken(agent); got != want {
			t.Errorf("ProductToken(%q) = %q, want %q", agent, got, want)
		}
	}
}

// TestHostilePatternIsLinear: a hundred patterns with 500 stars each are compared with a long path
// within a second.
func TestHostilePatternIsLinear(t *testing.T) {
	var file strings.Builder
	file.WriteString("User-agent: *\n")
	for i := range 100 {
		fmt.Fprintf(&file, "Disallow: /%s%d$\n", strings.Repeat("a*", 500), i)
	}
	rules := Parse([]byte(file.String()), "foobot")
	start := time.Now()
	path := "/" + strings.Repeat("a", 8000) + "0123456789"
	if allowed, _ := rules.Allowed(path); allowed {
		t.Error("Allowed = true, want the pattern that ends in 9 to match")
	}
	if took := time.Since(start); suite.TooLong(took, time.Second) {
		t.Errorf("100 patterns of 500 stars took %v, want milliseconds", took)
	}
}

// BenchmarkAllowed checks a path against 2,000 rules that do not match. In the benchmark
// "crafted" the rules begin like the path, and each two neighbouring bytes of a rule are also
// neighbours in the path. So pairSet excludes none of these rules, and each must be tried.
func BenchmarkAllowed(b *testing.B) {
	const path = "/section-1203456789/articles/2026/november/the-title-of-an-article?page=2"
	for _, kind := range []struct{ name, before, between, after string }{
		{"prefixes", "Disallow: /section-", "", "/private/\n"},
		{"stars", "Disallow: /*section-", "", "/private*.html\n"},
		{"crafted", "Disallow: /section-*november/*articles/*", "*", "\n"},
	} {
		var file strings.Builder
		file.WriteString("User-agent: *\n")
		for i := range 2000 {
			digits := strings.Join(strings.Split(fmt.Sprint(i), ""), kind.between)
			file.WriteString(kind.before + digits + kind.after)
		}
		rules := Parse([]byte(file.String()), "foobot")
		b.Run("rules=2000/kind="+kind.name, func(b *testing.B) {
			for b.Loop() {
				if allowed, rule := rules.Allowed(path); !allowed {
					b.Fatal(rule)
				}
			}
		})
	}
}
