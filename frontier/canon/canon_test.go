package canon

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestGoldenURLs(t *testing.T) {
	file, err := os.Open("testdata/golden.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c, cases := newT(t, Options{}), 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		var raw, want string
		if _, err := fmt.Sscanf(line, "%q %q", &raw, &want); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		u, err := c.Parse(raw)
		if err != nil || u.String() != want {
			t.Errorf("Parse(%q) = %q (%v), want %q", raw, u, err, want)
		}
		cases++
	}
	if cases == 0 {
		t.Error("testdata/golden.txt has no cases")
	}
}

// TestSessionIDs: a parameter is removed if its name belongs to one program, or if its value has
// the form of a session id. Other values name pages.
func TestSessionIDs(t *testing.T) {
	c := newT(t, Options{})
	for _, test := range []struct {
		param    string
		stripped bool
		source   string
	}{
		{"PHPSESSID=1b7dh5tmh0og1ifa7fvmq2pb0k", true, "PHP, session.sid_bits_per_character=5"},
		{"PHPSESSID=0", true, "PHP"},
		{"jsessionid=0A1B2C3D4E5F60718293A4B5C6D7E8F9.node1", true, "Tomcat, with a route"},
		{"JSESSIONID=QhLBTw7vY3fG!-1871513242!7001", true, "WebLogic"},
		{"ASPSESSIONIDQQCCDABC=LDKFMDABKFNJMCLBMBOCHNKC", true, "ASP: 24 letters (Heritrix, StripSessionIDs)"},
		{"CFID=1169580&CFTOKEN=48630702", true, "ColdFusion (Heritrix, StripSessionCFIDs)"},
		{"CFID=14475712&CFTOKEN=2D89F5AF-3048-2957-DA4EE4B6B13661AB", true, "ColdFusion with a UUID"},
		{"osCsid=7f8a2d1c3b4e5f60718293a4b5c6d7e8", true, "osCommerce"},
		{"XTCsid=7f8a2d1c3b4e5f60718293a4b5c6d7e8", true, "xt:Commerce"},
		{"zenid=a1b2c3d4e5f60718293a4b5c6d", true, "Zen Cart"},
		{"sid=0123456789abcdef0123456789abcdef", true, "phpBB"},
		{"s=0123456789abcdef0123456789abcdef", true, "vBulletin, WoltLab"},
		{"session=8f14e45f-ceea-467f-a830-5f1d6f4c9c1d", true, "a UUID"},
		{"sessionid=u9hnd2q8x4c7z1k5v3b6m0a2", true, "Django before 1.5: letters and digits"},
		{"session_id=Zk3TqLw9XbVn2RmYc7PdHg", true, "128 bits in base64"},
		{"sessid=MTczMjgwMDAwMHxEdi1CQkFFQ180", true, "base64"},
		{"session_id=1732800000123456789", true, "a number of 19 digits"},

		{"session_id=17", false, "a talk"},
		{"sessionid=2041", false, "a talk"},
		{"session=26", false, "a school year, a term of a parliament"},
		{"session=2025-2026", false, "a term of a parliament"},
		{"session=building-a-bridge-of-stone-in-2026", false, "a talk by its title"},
		{"session=BuildingABridgeWithGo2026", false, "a talk by its title"},
		{"session=web3-http2-and-other-tales", false, "a talk by its title"},
		{"session_id=keynote-opening", false, "a talk"},
		{"session_id=decade-facade-cafe-beef", false, "words of the letters a to f"},
		{"session=Plenary%20Session%20on%20Stone", false, "words with spaces"},
		{"sid=123", false, "an article (PHP-Nuke)"},
		{"sid=SID-2026-0000000017-A", false, "an article's number"},
		{"sessid=morning", false, "a time of day"},
		{"s=the+committee+met+on+tuesday+2026+again", false, "a search (WordPress)"},
		{"s=0123456789abcdef", false, "a search of 16 digits"},
		{"s=", false, "an empty search"},
		{"sessions=0123456789abcdef0123456789abcdef", false, "another name"},
	} {
		u, err := c.Parse("http://h/talk?" + test.param)
		if got := u.String() == "http://h/talk"; err != nil || got != test.stripped {
			t.Errorf("%s becomes %s (%v), want it removed: %v: %s", test.param, u, err, test.stripped, test.source)
		}
		if !strings.Contains(test.param, "&") {
			u, err = c.Parse("http://h/talk;" + test.param)
			if got := u.String() == "http://h/talk"; err != nil || got != test.stripped {
				t.Errorf("in a path, %s becomes %s (%v), want it removed: %v: %s", test.param, u, err, test.stripped, test.source)
			}
		}
	}
}

func TestStrippedParameters(t *testing.T) {
	const base = "http://h/"
	tests := []struct {
		options   Options
		ref, want string
	}{
		{Options{}, "?utm_source=a&utm_=b&utm=c", "?utm=c"},
		{Options{}, "?UTM_Source=a&GCLID=b", ""},
		{Options{}, "?%75tm_source=a&x", "?x"},
		{Options{}, "?x&utm_a&y", "?x&y"},
		{Options{}, "?utm_a&&x&", "?&x&"},
		{Options{}, "?utm_a&", ""},
		{Options{}, "?gclidx=1&xgclid=1&gclid", "?gclidx=1&xgclid=1"},
		{Options{}, "?=1&gclid==2", "?=1"},
		{Options{}, "?sid=012345678901234", "?sid=012345678901234"},
		{Options{}, "?sid=0123456789012345", ""},
		{Options{}, "?aspsessionidabc=1&cfid=1&cftoken=2", ""},
		{Options{}, ";jsessionid=1", ""},
		{Options{}, "a;jsessionid=1", "a"},
		{Options{}, "a;x=1;JSESSIONID=1;y", "a;x=1;y"},
		{Options{}, "a;jsessionid=1;x", "a;x"},
		{Options{}, "a;", "a;"},
		{Options{}, "jsessionid=1", "jsessionid=1"},
		{Options{}, "a;jsessionid=1/b?jsessionid=2", "a/b"},
		{Options{}, "a/..;jsessionid=1/b", "a/..;jsessionid=1/b"},
		{Options{}, "a/.;jsessionid=1", "a/.;jsessionid=1"},
		{Options{}, "a/...;jsessionid=1", "a/..."},
		{Options{KeepParams: []string{"utm_id"}}, "?utm_id=1&utm_x=2", "?utm_id=1"},
		{Options{KeepParams: []string{"*"}}, "?utm_id=1&gclid=2", "?utm_id=1&gclid=2"},
		{Options{StripParams: []string{}}, "?utm_id=1", "?utm_id=1"},
		{Options{StripParams: []string{"*"}}, "a;b?c=1&d", "a"},
		{Options{StripParams: []string{"Ref", "v=2"}}, "?ref=1&v=1&v=12&utm_x", "?v=1&utm_x"},
		{Options{SortQuery: true}, "?b=2&a=2&b=1&a=1&A", "?A&a=2&a=1&b=2&b=1"},
		{Options{SortQuery: true}, "?b&gclid=1&a", "?a&b"},
	}
	for _, test := range tests {
		c := newT(t, test.options)
		b, _ := c.Parse(base)
		u, err := c.Join(b, test.ref)
		if err != nil || u.String() != base+test.want {
			t.Errorf("%+v: Join(%q) = %q (%v), want %q", test.options, test.ref, u, err, base+test.want)
		}
		checkSlow(t, c, b, test.ref, u, err)
		checkCanonical(t, c, test.ref, u)
	}
}

func TestNewReportsEveryFault(t *testing.T) {
	_, err := New(Options{
		StripParams: []string{"ok", "", "a*b", "n=x", "n=0", "a&b"},
		KeepParams:  []string{"=3"},
		HostKey:     7,
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`StripParams has ""`, `"a*b"`, `"n=x"`, `"n=0"`, `"a&b"`, `KeepParams has "=3"`, "HostKey is 7"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("New: error %q does not contain %q", err, want)
		}
	}
}

func TestFormTellsOptionsApart(t *testing.T) {
	forms := map[string]Options{}
	for _, o := range []Options{{}, {SortQuery: true}, {StripParams: []string{}}, {StripParams: []string{"a"}}, {KeepParams: []string{"a"}}} {
		form := newT(t, o).Form()
		if other, taken := forms[form]; taken {
			t.Errorf("%+v and %+v share the form %q", o, other, form)
		}
		forms[form] = o
	}
	if a, b := newT(t, Options{}), newT(t, Options{StripParams: DefaultStrip()}); a.Form() != b.Form() {
		t.Errorf("Form of the default options is %q, with DefaultStrip spelled out %q, want the same", a.Form(), b.Form())
	}
}

func TestErrorOfEachFault(t *testing.T) {
	c := newT(t, Options{})
	long := "http://h/" + strings.Repeat("a", MaxBytes-len("http://h/"))
	if u, err := c.Parse(long); err != nil || len(u.String()) != MaxBytes {
		t.Errorf("Parse of a URL of MaxBytes = %d bytes: %d bytes, error %v", len(long), len(u.String()), err)
	}
	tests := []struct {
		raw  string
		want error
	}{
		{long + "a", ErrTooLong},
		{"http://h/" + strings.Repeat("ä", MaxBytes/4), ErrTooLong}, // escaping makes it longer
		{"http://h/#" + strings.Repeat("a", 4*MaxBytes), ErrTooLong},
		{"http://" + strings.Repeat("a.", 126) + "a/", nil},
		{"http://" + strings.Repeat("a.", 127) + "a/", ErrMalformed},
		{"http://" + strings.Repeat("a", 64) + ".org/", ErrMalformed},
		{"http://ü" + strings.Repeat("a", 60) + ".org/", ErrMalformed},
		{"data:," + strings.Repeat("a", 8*MaxBytes), ErrScheme},
		{"mailto:a@b", ErrScheme},
		{"http://[", ErrMalformed},
	}
	for _, test := range tests {
		u, err := c.Parse(test.raw)
		if !errors.Is(err, test.want) || (err == nil) == u.IsZero() {
			t.Errorf("Parse(%.40q) = %.40q, %v, want %v", test.raw, u, err, test.want)
		}
		if err != nil && len(err.Error()) > 400 {
			t.Errorf("Parse(%.40q): the error message has %d bytes, want at most 400", test.raw, len(err.Error()))
		}
	}
	_, err := c.Parse("http://exa mple/")
	if e, ok := errors.AsType[*Error](err); !ok || e.Ref != "http://exa mple/" || !strings.Contains(err.Error(), `"http://exa mple/": the host has a character`) {
		t.Errorf("Parse of a host with a space: error %v, want an *Error that quotes the URL and names the character", err)
	}
}

func TestParseSeed(t *testing.T) {
	c := newT(t, Options{})
	for raw, want := range map[string]string{
		"example.org":            "https://example.org/",
		" example.org/a?b ":      "https://example.org/a?b",
		"localhost:8080/x":       "https://localhost:8080/x",
		"//example.org":          "https://example.org/",
		"http://example.org":     "http://example.org/",
		"HTTP:example.org":       "http://example.org/",
		"127.0.0.1:80":           "https://127.0.0.1:80/",
		"example.org/?u=http:":   "https://example.org/?u=http:",
		"example.org/?u=ftp://a": "https://example.org/?u=ftp://a",
	} {
		if u, err := c.ParseSeed(raw); err != nil || u.String() != want {
			t.Errorf("ParseSeed(%q) = %q (%v), want %q", raw, u, err, want)
		}
	}
	for raw, want := range map[string]error{
		"ftp://example.org": ErrScheme,
		"mailto:a@b.org:c":  ErrMalformed,
		"":                  ErrMalformed,
		"a b":               ErrMalformed,
	} {
		if u, err := c.ParseSeed(raw); !errors.Is(err, want) {
			t.Errorf("ParseSeed(%q) = %q, %v, want %v", raw, u, err, want)
		}
	}
}

func TestURLParts(t *testing.T) {
	c := newT(t, Options{})
	for _, test := range [][6]string{
		{"https://example.org:8443/a?b", "https", "example.org", "8443", "https://example.org:8443", "/a?b"},
		{"http://example.org", "http", "example.org", "", "http://example.org", "/"},
		{"http://[::1]:80/", "http", "[::1]", "", "http://[::1]", "/"},
		{"https://[::1]:80/?x", "https", "[::1]", "80", "https://[::1]:80", "/?x"},
	} {
		u, err := c.Parse(test[0])
		got := [6]string{test[0], u.Scheme(), u.Host(), u.Port(), u.Origin(), u.Path()}
		if err != nil || got != test || u.IsZero() {
			t.Errorf("URL, scheme, host, port, origin and path: %q (%v), want %q", got, err, test)
		}
	}
	var none URL
	if !none.IsZero() || none.String()+none.Scheme()+none.Host()+none.Port()+none.Origin()+none.Path() != "" {
		t.Error("the zero URL has parts")
	}
}

func TestHostKeyAndScope(t *testing.T) {
	tests := []struct {
		host, domain string
		subdomains   []string
	}{
		{"a.b.example.co.uk", "example.co.uk", []string{"a.b.example.co.uk", "b.example.co.uk", "example.co.uk", "co.uk", "uk"}},
		{"example.org", "example.org", []string{"example.org", "org"}},
		{"me.github.io", "me.github.io", []string{"me.github.io", "github.io", "io"}},
		{"co.uk", "co.uk", []string{"co.uk", "uk"}},
		{"localhost", "localhost", []string{"localhost"}},
		{"127.0.0.1", "127.0.0.1", []string{"127.0.0.1"}},
		{"[::1]", "[::1]", []string{"[::1]"}},
		{"xn--bcher-kva.example", "xn--bcher-kva.example", []string{"xn--bcher-kva.example", "example"}},
		{"web.intranet", "web.intranet", []string{"web.intranet", "intranet"}},
	}
	byHost, byDomain := newT(t, Options{}), newT(t, Options{HostKey: ByDomain})
	for _, test := range tests {
		u, err := byHost.Parse("http://" + test.host + ":81/")
		if err != nil {
			t.Fatal(err)
		}
		if got := byHost.HostKey(u); got != test.host {
			t.Errorf("HostKey(%s) by host = %q, want %q", u, got, test.host)
		}
		if got := byDomain.HostKey(u); got != test.domain {
			t.Errorf("HostKey(%s) by domain = %q, want %q", u, got, test.domain)
		}
		for mode, want := range map[ScopeMode][2][]string{
			ScopeHost:       {{test.host}, {test.host}},
			ScopeSubdomains: {{test.host}, test.subdomains},
			ScopeDomain:     {{test.domain}, {test.domain}},
			ScopeAny:        {nil, nil},
		} {
			if got := Keys(mode, u); !slices.Equal(got, want[0]) {
				t.Errorf("Keys(%v, %s) = %q, want %q", mode, u, got, want[0])
			}
			if got := Candidates(mode, test.host); !slices.Equal(got, want[1]) {
				t.Errorf("Candidates(%v, %s) = %q, want %q", mode, test.host, got, want[1])
			}
			if parsed, err := ParseScopeMode(mode.String()); err != nil || parsed != mode {
				t.Errorf("ParseScopeMode(%q) = %v, %v, want %v", mode, parsed, err, mode)
			}
		}
	}
	if _, err := ParseScopeMode("planet"); err == nil {
		t.Error("no error for an unknown scope")
	}
}

// TestFastPathAllocations: for usual references, Join makes one allocation. It makes none if
// the result is equal to the reference or to the base.
func TestFastPathAllocations(t *testing.T) {
	c := newT(t, Options{})
	base, _ := c.Parse("https://www.example.org/docs/a/b.html?x=1")
	for ref, want := range map[string]float64{
		"https://www.example.org/docs/guide.html?page=2": 0,
		"https://other.example.org/":                     0,
		"#top":                                           0,
		"":                                               0,
		"c.html":                                         1,
		"../c.html?utm_source=x#y":                       1,
		"/a b":                                           1,
		"?q":                                             1,
		"//cdn.example.org/x":                            1,
		"HTTPS://WWW.Example.org:443/%7e":                1,
	} {
		if got := testing.AllocsPerRun(100, func() { _, _ = c.Join(base, ref) }); got != want {
			t.Errorf("Join(%q): %v allocations, want %v", ref, got, want)
		}
	}
}

// TestConcurrentUse lets the race detector find races. All goroutines parse unusual hosts with
// the same base URLs, baseHTTP and baseHTTPS.
func TestConcurrentUse(t *testing.T) {
	c := newT(t, Options{})
	var racers sync.WaitGroup
	for range 8 {
		racers.Go(func() {
			for _, ref := range references {
				_, _ = c.Parse(ref)
			}
		})
	}
	racers.Wait()
}
