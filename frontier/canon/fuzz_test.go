package canon

import (
	"errors"
	neturl "net/url"
	"strings"
	"testing"

	"github.com/nlnwa/whatwg-url/url"
)

// references are the seed corpus of the fuzz targets. `go test` runs them too.
var references = []string{
	"", "#", "?", "?q", "?q#f", "#frag", "/", "/a/b?x=1", "c.html", "../c.html", "./", "..", "../../../x",
	"//host/x", "//host:8080", "///host/x", "\\\\host\\x", "/\\host", "http:x", "http:/x", "http:///x", "https:x",
	"http://example.org", "HTTP://EXAMPLE.org:80/%7euser/%2e%2E/a%2fb?x=%7e%zz%#f", "https://example.org:443",
	"http://example.org:", "http://example.org:0/", "http://example.org:00080/", "http://example.org:65536/",
	"http://user:pw@example.org/", "http://user@@example.org/", "http://example.org./", "http://example.org../",
	"http://a..b/", "http://.a/", "http://./", "http://xn--bcher-kva.example/", "http://bücher.example/ä?ö=ü",
	"http://BÜCHER.example/", "http://xn--/", "http://xn--a/", "http://a_b.example/", "http://-a-.example/",
	"http://127.0.0.1/", "http://0x7f.1/", "http://2130706433/", "http://127.0.0.1./", "http://+1/", "http://-1/",
	"http://a.-1/", "http://1.2.3.4.5/", "http://%31/", "http://１２７.０.０.１/", "http://256.256.256.256/", "http://1.2.3/",
	"http://[::1]/", "http://[::1]:8080/x", "http://[[::1]]/", "http://[1:2:3:4:5:6:7:8]/", "http://[::ffff:1.2.3.4]/",
	"http://[fe80::1%25eth0]/", "http://ex%61mple.org/", "http://ex ample.org/", "http://a%00b/", "http://a<b/",
	"http://h/a b", "http://h/%", "http://h/%%32%65", "http://h/%%32%65/%2e%2e/x", "http://h/a\tb\nc", " http://h/ ",
	"http://h/\x80\xff?\x80", "http://h/\u00e9", "http://h/a|b^c{d}`e\"f<g>h'i[j]", "http://h/?a|b^c{d}`e\"f<g>h'i[j]\\",
	"http://h/;jsessionid=1", "http://h/a;jsessionid=1/b;x;jsessionid=2;y?z", "http://h/..;jsessionid=1/a", "http://h/;",
	"http://h/?utm_source=a&b=1&utm_medium=c", "http://h/?utm_source=a", "http://h/?&&", "http://h/?UTM_X&&gclid=1&",
	"http://h/?%75tm_x=1&sid=1&sid=0123456789abcdef", "http://h//a//../b", "http://h/a/./b/.", "http://h/a/%2E%2e",
	"http://h/a\\b\\..\\c?d\\e", "mailto:x@y", "javascript:void(0)", "java\tscript:x", "data:,x", "tel:1", "C:\\x", "a:b",
	"localhost:80/x", "a:// 0", "http://0 #", "http://h\x01?", "http://h\t/", "ht\ntp://h/", "http\t://h/x", "http://h\x7f/", "http://h/\x7f\x01?\x7f\x01", "http://a.b-.c_d/~x",
	"http://example.org:8o/", "http://example.org:80:80/", "http://日本語.jp/", "http://\u00ad/", "http://a\u200db/",
	"http://h?x", "http://h#x", "http://h\\x", "http://:80/", "http://@/", "http://h:80@/", "https://h:80/", "http://h:443/",
	"http://0/", "http://0x/", "http://08/", "http://a.0x/", "http://a.09/", "http://a.1b/", "http://1b/", "http://ＧＯ.com/",
}

var bases = []string{
	"http://example.org/", "https://example.org/a/b/c.html?x=1", "http://example.org:8080/a//b/", "https://[::1]:1/x;y/z?",
	"http://127.0.0.1:8000/d/", "https://xn--bcher-kva.example/%C3%A4/", "https://h:80/", "http://h:443/a/",
}

func newT(t testing.TB, o Options) *Canonicalizer {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// variants are the canonicalizers that each fuzz input goes through.
func variants(t testing.TB) []*Canonicalizer {
	return []*Canonicalizer{
		newT(t, Options{}),
		newT(t, Options{SortQuery: true}),
		newT(t, Options{StripParams: []string{"*"}, KeepParams: []string{"a*"}}),
		newT(t, Options{StripParams: []string{}}),
	}
}

// FuzzParse checks that Parse gives the same result as joinSlow. A canonical form must not
// change when it is parsed again, and net/url must parse it without a change.
func FuzzParse(f *testing.F) {
	for _, ref := range references {
		f.Add(ref)
	}
	all := variants(f)
	f.Fuzz(func(t *testing.T, raw string) {
		for _, c := range all {
			u, err := c.Parse(raw)
			checkSlow(t, c, URL{}, raw, u, err)
			if err == nil {
				checkCanonical(t, c, raw, u)
			}
		}
	})
}

// FuzzJoin makes the checks of FuzzParse for Join. It also compares Join with the standard's
// parser, which receives the original base and not its canonical form.
func FuzzJoin(f *testing.F) {
	for i, ref := range references {
		f.Add(bases[i%len(bases)], ref)
		f.Add(references[(i*31)%len(references)], ref)
	}
	all := variants(f)
	f.Fuzz(func(t *testing.T, rawBase, ref string) {
		for _, c := range all {
			base, err := c.Parse(rawBase)
			if err != nil {
				return
			}
			u, err := c.Join(base, ref)
			checkSlow(t, c, base, ref, u, err)
			if err == nil {
				checkCanonical(t, c, ref, u)
			}
			if len(rawBase) > MaxBytes || len(ref) > MaxBytes {
				continue // canon and the parser below check the length of different texts
			}
			joined, joinErr := parser.ParseRef(rawBase, ref)
			if joinErr != nil {
				if err == nil {
					t.Fatalf("Join(%q, %q) = %q, but the standard's parser refuses it: %v", base, ref, u, joinErr)
				}
				continue
			}
			href, hostErr := hrefOf(c, joined, base, trim(ref))
			if hostErr != nil {
				if err == nil {
					t.Fatalf("Join(%q, %q) = %q, but its host is refused: %v", base, ref, u, hostErr)
				}
				continue
			}
			want, wantErr := c.Parse(href)
			if !errors.Is(err, reason(wantErr)) || u != want {
				t.Fatalf("Join(%q, %q) = %q (%v), want %q (%v), the canonical form of %q", base, ref, u, err, want, wantErr, href)
			}
		}
	})
}

// hrefOf returns the text of u, which the parser made of ref and base. If u is an HTTP or HTTPS
// URL, the host in this text has its canonical form.
func hrefOf(c *Canonicalizer, u *url.Url, base URL, ref string) (string, error) {
	if !isHTTP(u.Scheme()) {
		return u.Href(false), nil
	}
	host, err := carriedHost(u)
	if u.Port() != "" {
		host += ":" + u.Port()
	}
	return u.Scheme() + "://" + host + u.Pathname() + u.Search(), err
}

func checkSlow(t *testing.T, c *Canonicalizer, base URL, ref string, u URL, err error) {
	t.Helper()
	slow, slowErr := c.joinSlow(base, ref)
	if u != slow || !errors.Is(err, reason(slowErr)) {
		t.Fatalf("Join(%q, %q) = %q (%v), by the slow path %q (%v)", base, ref, u, err, slow, slowErr)
	}
}

// reason returns the sentinel of err.
func reason(err error) error {
	for _, sentinel := range []error{ErrScheme, ErrMalformed, ErrTooLong} {
		if errors.Is(err, sentinel) {
			return sentinel
		}
	}
	return err
}

// checkCanonical fails unless u, made from raw, is a canonical URL.
func checkCanonical(t *testing.T, c *Canonicalizer, raw string, u URL) {
	t.Helper()
	if twice, err := c.Parse(u.String()); err != nil || twice != u {
		t.Fatalf("Parse(%q) = %q, Parse of that = %q (%v), want no change", raw, u, twice, err)
	}
	origin := u.Scheme() + "://" + u.Host()
	if u.Port() != "" {
		origin += ":" + u.Port()
	}
	if origin != u.Origin() || u.Origin()+u.Path() != u.String() || !strings.HasPrefix(u.Path(), "/") {
		t.Fatalf("the parts of %q do not make it up: origin %q, host %q, port %q, path %q", u, u.Origin(), u.Host(), u.Port(), u.Path())
	}
	n, err := neturl.Parse(u.String())
	if err != nil || n.Host != strings.TrimPrefix(u.Origin(), u.Scheme()+"://") || n.RequestURI() != u.Path() {
		t.Fatalf("net/url reads %q (from %q) as host %q, request %q (%v)", u, raw, n.Host, n.RequestURI(), err)
	}
	if len(u.String()) > MaxBytes {
		t.Fatalf("Parse(%.40q) has %d bytes, want at most %d", raw, len(u.String()), MaxBytes)
	}
}
