package robots

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jimsmart/grobotstxt"
)

var seed = flag.Uint64("seed", 0, "replay the random test with this seed; 0 takes a new one")

// Generated files and paths consist of these parts. The parts have none of the texts that
// Google's matcher treats differently (see the package comment): no escapes, no $ except at the
// end of a rule, no index.htm and no foobot*. Bytes beyond ASCII occur only in the list agents.
var (
	keys     = []string{"User-agent: ", "Disallow: ", "Allow: ", "Disallow: ", "Allow: ", "Crawl-delay: ", "Sitemap: ", "disalow:", "Unknown: ", "# ", ""}
	agents   = []string{"*", "foobot", "FooBot/1.2", "barbot", "* x", "foo", "foobot-x", "foobot x", "foobot2", "foobot.x", "foobot/", "**", "*/1", "foobot:", "foobotä", "foobot_"}
	segments = []string{"/", "a", "b", "ab", "*", "?", "=", "/a", "/b/", ".html", "aa", "&", ";", "", "**"}
	ends     = []string{"\n", "\n", "\n", "$\n", "\r\n", " \n", "\n\n", " # x\n", "\r"}
)

// generate returns a file and a path that are made from choices.
func generate(choices []byte) (file, path string) {
	pick := func(from []string) string {
		if len(choices) == 0 {
			return from[0]
		}
		c := choices[0]
		choices = choices[1:]
		return from[int(c)%len(from)]
	}
	path = "/"
	for range 5 {
		path += strings.ReplaceAll(pick(segments), "*", "x")
	}
	var b strings.Builder
	b.WriteString("User-agent: " + pick(agents) + "\n")
	for len(choices) > 0 {
		key := pick(keys)
		b.WriteString(key)
		if strings.HasPrefix(key, "User") {
			b.WriteString(pick(agents) + "\n")
			continue
		}
		b.WriteString("/")
		for range len(pick(segments)) {
			b.WriteString(pick(segments))
		}
		b.WriteString(pick(ends))
	}
	return b.String(), path
}

// compare compares our answer with Google's.
func compare(t *testing.T, file, path string) {
	t.Helper()
	if strings.HasPrefix(path, "//") {
		return // Google's URL parser would read the next part as a host
	}
	want := grobotstxt.AgentAllowed(file, "foobot", "http://h"+path)
	if got, rule := Parse([]byte(file), "foobot").Allowed(path); got != want {
		t.Fatalf("Allowed(%q) = %v by the rule %q, Google's matcher says %v\n%q", path, got, rule, want, file)
	}
}

func TestAgreesWithGoogle(t *testing.T) {
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("replay with -seed=%d", s)
	random, refused := rand.New(rand.NewPCG(s, 0)), 0
	for range 20_000 {
		choices := make([]byte, random.IntN(80))
		for i := range choices {
			choices[i] = byte(random.Uint32())
		}
		file, path := generate(choices)
		compare(t, file, path)
		if allowed, _ := Parse([]byte(file), "foobot").Allowed(path); !allowed {
			refused++
		}
	}
	if refused < 1000 {
		t.Errorf("%d of 20000 random cases refuse their path, want at least 1000", refused)
	}
}

func FuzzAgreesWithGoogle(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Fuzz(func(t *testing.T, choices []byte) {
		file, path := generate(choices[:min(len(choices), 500)])
		compare(t, file, path)
	})
}

// FuzzParse: no file and path cause a panic. Allowed returns the first rule that matches
// according to Google's matcher, with that rule's answer. The binary form keeps all rules. If
// a normalised path is normalised again, it does not change.
func FuzzParse(f *testing.F) {
	f.Add("User-agent: *\nDisallow: /a%2f*b$\nAllow: /ü?x=%3A\nSitemap: x", "/a/b?x=%41")
	f.Add("User-agent: foobot\nCrawl-delay: 1e9\nDisallow: /*$*$", "/$")
	f.Fuzz(func(t *testing.T, file, path string) {
		rules := Parse([]byte(file), "foobot")
		allowed, by := rules.Allowed(path)
		if path != "/robots.txt" && strings.HasPrefix(path, "/") && len(path)*len(file) < 1<<20 {
			normal := normalisePath(path)
			if again := normalisePath(normal); again != normal {
				t.Errorf("normalisePath(%q) = %q, then %q", path, normal, again)
			}
			want := slices.IndexFunc(rules.rules, func(r rule) bool {
				p := r.text[strings.IndexByte(r.text, ' ')+1:]
				return glob(normal, p) || glob(foldQuery(normal), p)
			})
			switch {
			case want < 0 && by != "":
				t.Errorf("Allowed(%q) returned the rule %q, want none", path, by)
			case want >= 0 && (by != rules.rules[want].text || allowed != rules.rules[want].allow):
				t.Errorf("Allowed(%q) = %v by the rule %q, want the rule %q and its answer",
					path, allowed, by, rules.rules[want].text)
			}
		}
		form, err := rules.AppendBinary(nil)
		if err != nil {
			return
		}
		var back Rules
		if err := back.UnmarshalBinary(form); err != nil {
			t.Fatalf("round trip: %v", err)
		}
		if !slices.Equal(back.rules, rules.rules) {
			t.Errorf("round trip: %v, want %v", back.rules, rules.rules)
		}
	})
}

// glob reports whether a pattern matches a path, according to Google's matcher, which package
// grobotstxt translates to Go.
func glob(path, pattern string) bool { return grobotstxt.Matches(path, pattern) }

func FuzzUnmarshal(f *testing.F) {
	form, _ := Parse([]byte(strings.Repeat("User-agent: *\nDisallow: /a*b$\nAllow: /c\n", 50)), "x").AppendBinary(nil)
	f.Add(form)
	f.Add([]byte{1, 0, 0, 4, '/', 'a'})
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Rules
		if r.UnmarshalBinary(b) == nil {
			r.Allowed("/a?b")
		}
		var s State
		_ = s.Restore(b, "x", time.Unix(0, 0))
	})
}
