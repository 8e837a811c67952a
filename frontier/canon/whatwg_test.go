package canon

import (
	"errors"
	"testing"
)

const (
	scheme    = "!scheme"
	malformed = "!malformed"
)

// standardCases are cases of the WHATWG URL standard, transcribed from its
// prose (the URL and host parsers, the percent-encode sets) and checked against
// what browsers do. want is the canonical form or one of the constants above.
// "Beyond" marks cases in which the canonical form differs from the standard's.
var standardCases = []struct{ base, ref, want string }{
	// Scheme.
	{"", "http://example.org/", "http://example.org/"},
	{"", "https://example.org/", "https://example.org/"},
	{"", "HTTP://example.org/", "http://example.org/"},
	{"", "hTTpS://example.org/", "https://example.org/"},
	{"", "http:example.org", "http://example.org/"},
	{"", "http:/example.org", "http://example.org/"},
	{"", "http:///example.org", "http://example.org/"},
	{"", "http:////example.org", "http://example.org/"},
	{"", "http:\\\\example.org", "http://example.org/"},
	{"", "http:/\\example.org", "http://example.org/"},
	{"", "ht\ntp://example.org/", "http://example.org/"},
	{"", "http\t://example.org/", "http://example.org/"},
	{"", "ftp://example.org/", scheme},
	{"", "file:///etc/hosts", scheme},
	{"", "mailto:someone@example.org", scheme},
	{"", "javascript:alert(1)", scheme},
	{"", "java\nscript:alert(1)", scheme},
	{"", "data:text/html,x", scheme},
	{"", "tel:+123", scheme},
	{"", "blob:http://example.org/x", scheme},
	{"", "ws://example.org/", scheme},
	{"", "httpx://example.org/", scheme},
	{"", "localhost:8080/x", scheme},
	{"", "example.org/x", malformed},
	{"", "//example.org/x", malformed},
	{"", "/x", malformed},
	{"", "", malformed},
	{"", "1http://example.org/", malformed},
	{"", "://example.org/", malformed},
	{"", "http", malformed},
	// White space and controls.
	{"", "  http://example.org/  ", "http://example.org/"},
	{"", "\x00\x1f http://example.org/\x00", "http://example.org/"},
	{"", "http://exa\tmple.org/a\nb\r\nc", "http://example.org/abc"},
	{"", "http://example.org/a b", "http://example.org/a%20b"},
	{"", "http://example.org/ a", "http://example.org/%20a"},
	{"", "http://example.org/a\x01b", "http://example.org/a%01b"},
	{"", "http://example.org/\x7f", "http://example.org/%7F"},
	{"", "http://example.org/?a b", "http://example.org/?a%20b"},
	{"", "http://exam ple.org/", malformed},
	{"", "http://example.org\u00a0/", malformed},
	// Host.
	{"", "http://EXAMPLE.org/", "http://example.org/"},
	{"", "http://ex%61mple%2eorg/", "http://example.org/"},
	{"", "http://example.org./", "http://example.org/"}, // beyond: no dot at the end
	{"", "http://example.org../", malformed},            // beyond: impossible in DNS
	{"", "http://a..b/", malformed},                     // beyond: likewise
	{"", "http://.a/", malformed},                       // beyond: likewise
	{"", "http://a_b.example/", "http://a_b.example/"},  // an underscore is valid
	{"", "http://-a-.example/", "http://-a-.example/"},  // hyphens are not checked
	{"", "http://ab--cd.example/", "http://ab--cd.example/"},
	{"", "http://a!$&'()*+,;=b/", "http://a!$&'()*+,;=b/"},
	{"", "http://a~b/", "http://a~b/"},
	{"", "http://a`{}b/", malformed}, // beyond: net/url refuses it
	{"", "http://", malformed},
	{"", "http://?x", malformed},
	{"", "http://#x", malformed},
	{"", "http://:80/", malformed},
	{"", "http://a%00b/", malformed},
	{"", "http://a%zzb/", malformed},
	{"", "http://a%b/", malformed},
	{"", "http://a<b/", malformed},
	{"", "http://a>b/", malformed},
	{"", "http://a^b/", malformed},
	{"", "http://a|b/", malformed},
	{"", "http://a[b/", malformed},
	{"", "http://a]b/", malformed},
	{"", "http://a%2fb/", malformed},
	{"", "http://a%23b/", malformed},
	{"", "http://a%40b/", malformed},
	{"", "http://a%5cb/", malformed},
	{"", "http://a%7fb/", malformed},
	{"", "http://%41.org/", "http://a.org/"},
	{"", "http://%2541.org/", malformed},
	// IDNA.
	{"", "http://bücher.example/", "http://xn--bcher-kva.example/"},
	{"", "http://BÜCHER.example/", "http://xn--bcher-kva.example/"},
	{"", "http://b%C3%BCcher.example/", "http://xn--bcher-kva.example/"},
	{"", "http://xn--bcher-kva.example/", "http://xn--bcher-kva.example/"},
	{"", "http://XN--BCHER-KVA.example/", "http://xn--bcher-kva.example/"},
	{"", "http://faß.example/", "http://xn--fa-hia.example/"}, // nontransitional
	{"", "http://日本語。jp/", "http://xn--wgv71a119e.jp/"},
	{"", "http://日本語．jp/", "http://xn--wgv71a119e.jp/"},
	{"", "http://ＧＯ.com/", "http://go.com/"},
	{"", "http://a\u00adb.com/", "http://ab.com/"}, // a soft hyphen is ignored
	{"", "http://\u00ad/", malformed},
	{"", "http://xn--/", "http://xn--/"}, // an ASCII host is not decoded
	{"", "http://xn--a/", "http://xn--a/"},
	{"", "http://a.xn--a/", "http://a.xn--a/"},
	{"", "http://a.b.c.xn--pokxncvks/", "http://a.b.c.xn--pokxncvks/"},
	{"", "http://a.b.c.XN--pokxncvks/", "http://a.b.c.xn--pokxncvks/"},
	{"", "http://a.b.c.Xn--pokxncvks/", "http://a.b.c.xn--pokxncvks/"},
	{"", "http://10.0.0.xn--pokxncvks/", "http://10.0.0.xn--pokxncvks/"},
	{"", "http://10.0.0.XN--pokxncvks/", "http://10.0.0.xn--pokxncvks/"},
	{"", "http://10.0.0.xN--pokxncvks/", "http://10.0.0.xn--pokxncvks/"},
	{"", "http://%78n--a/", "http://xn--a/"},
	{"", "http://xn--ls8h=/", "http://xn--ls8h=/"},
	{"", "http://xn--1ug.example/", "http://xn--1ug.example/"}, // a joiner
	{"", "http://xn--a-yoc/", "http://xn--a-yoc/"},             // mixed directions
	{"", "http://xn--mhb.1/", malformed},                       // ends in a number
	{"", "http://xn--a.ß/", malformed},                         // the host is not ASCII
	{"", "http://xn--tešla/", malformed},
	{"", "http://xn--xn---epa.ß/", malformed}, // decodes to another "xn--" label
	{"", "http://xn--zca.ß/", "http://xn--zca.xn--zca/"},
	{"", "http://FAẞ.de/", "http://xn--fa-hia.de/"},
	{"", "http://fa%E1%BA%9E.de/", "http://xn--fa-hia.de/"},
	{"", "http://Ⴀ.example/", "http://xn--rkj.example/"}, // since Unicode 16
	{"", "http://\u04c0ℲↃ.example/", "http://xn--s5a407lwea.example/"},
	{"", "http://a\u115f\u2063b/", "http://ab/"},
	{"", "http://\U0002f868.example/", "http://xn--snl.example/"},
	{"", "http://ü_.example/", "http://xn--_-dha.example/"}, // the rules of STD 3 do not apply
	{"", "http://ü!.example/", "http://xn--!-dha.example/"},
	{"", "http://ü ./", malformed},
	{"", "http://ü％41/", malformed},
	{"", "http://ü／a/", malformed},
	{"", "http://≠/", "http://xn--1ch/"},
	{"", "http://a≮b/", "http://xn--ab-tjv/"},
	{"", "http://-x.ß/", "http://-x.xn--zca/"},
	{"", "http://\u200d.example/", malformed},
	{"", "http://ي.1/", malformed},
	{"", "http://1.ي/", malformed}, // one right-to-left label makes the bidi rule apply to all labels
	{"", "http://يa/", malformed},
	{"", "http://www.xn--bcher-kva.example/", "http://www.xn--bcher-kva.example/"},
	{"", "http://%C3/", malformed},
	{"", "http://a\ufffdb/", malformed},
	// IPv4.
	{"", "http://127.0.0.1/", "http://127.0.0.1/"},
	{"", "http://127.0.0.1./", "http://127.0.0.1/"},
	{"", "http://127.1/", "http://127.0.0.1/"},
	{"", "http://0x7f.1/", "http://127.0.0.1/"},
	{"", "http://0X7F.0X1/", "http://127.0.0.1/"},
	{"", "http://2130706433/", "http://127.0.0.1/"},
	{"", "http://017700000001/", "http://127.0.0.1/"},
	{"", "http://0x7f000001/", "http://127.0.0.1/"},
	{"", "http://0300.168.0xF0/", "http://192.168.0.240/"},
	{"", "http://%30%78%63%30%2e%30%32%35%30.01/", "http://192.168.0.1/"},
	{"", "http://０Ｘｃ０．０２５０．０１/", "http://192.168.0.1/"},
	{"", "http://0/", "http://0.0.0.0/"},
	{"", "http://0x/", "http://0.0.0.0/"},
	{"", "http://1.2.3/", "http://1.2.0.3/"},
	{"", "http://4294967295/", "http://255.255.255.255/"},
	{"", "http://4294967296/", malformed},
	{"", "http://256.256.256.256/", malformed},
	{"", "http://1.2.3.4.5/", malformed},
	{"", "http://1.2.3.08/", malformed},
	{"", "http://a.b.09/", malformed},
	{"", "http://foo.0x4/", malformed},
	{"", "http://a.1/", malformed},
	{"", "http://1..2/", malformed},
	{"", "http://1b/", "http://1b/"},
	{"", "http://0xg/", "http://0xg/"},
	{"", "http://1.2.3.4a/", "http://1.2.3.4a/"},
	{"", "http://-1/", "http://-1/"},
	{"", "http://a.+1/", "http://a.+1/"},
	{"", "http://a.99999999999999999999b/", "http://a.99999999999999999999b/"},
	{"", "http://99999999999999999999b./", "http://99999999999999999999b/"},
	{"", "http://a.99999999999999999999/", malformed},
	{"", "http://99999999999999999999/", malformed},
	{"", "http://0xffffffffffffffffffff/", malformed},
	{"", "http://0x100000000/", malformed},
	{"", "http://0xffffffffffffffffffffg/", "http://0xffffffffffffffffffffg/"},
	{"", "http://a.0x0000000000000000000g/", "http://a.0x0000000000000000000g/"},
	{"", "http://00000000000000000000000000177.1/", "http://127.0.0.1/"},
	{"", "http://1.16777216/", malformed},
	{"", "http://1.16777215/", "http://1.255.255.255/"},
	{"", "http://1.256.1/", malformed},
	{"", "http://0x.0x.0X/", "http://0.0.0.0/"},
	{"", "http://1.2.3.4../", malformed},
	// IPv6.
	{"", "http://[::1]/", "http://[::1]/"},
	{"", "http://[0:0:0:0:0:0:0:1]/", "http://[::1]/"},
	{"", "http://[2001:DB8::A]/", "http://[2001:db8::a]/"},
	{"", "http://[1:0:0:2:0:0:0:3]/", "http://[1:0:0:2::3]/"},
	{"", "http://[::127.0.0.1]/", "http://[::7f00:1]/"},
	{"", "http://[::ffff:1.2.3.4]/", "http://[::ffff:102:304]/"},
	{"", "http://[1::2::3]/", malformed},
	{"", "http://[::1%25eth0]/", malformed},
	{"", "http://[::1/", malformed},
	{"", "http://[1:2:3]/", malformed},
	{"", "http://[::1.2.3]/", malformed},
	{"", "http://[::12345]/", malformed},
	{"", "http://[[::1]]/", malformed},
	// Port.
	{"", "http://example.org:80/", "http://example.org/"},
	{"", "https://example.org:443/", "https://example.org/"},
	{"", "http://example.org:443/", "http://example.org:443/"},
	{"", "https://example.org:80/", "https://example.org:80/"},
	{"", "http://example.org:/", "http://example.org/"},
	{"", "http://example.org:0/", "http://example.org:0/"},
	{"", "http://example.org:00080/", "http://example.org/"},
	{"", "http://example.org:0008080/", "http://example.org:8080/"},
	{"", "http://example.org:65535/", "http://example.org:65535/"},
	{"", "http://example.org:65536/", malformed},
	{"", "http://example.org:99999999999999999999/", malformed},
	{"", "http://example.org:8a/", malformed},
	{"", "http://example.org:-1/", malformed},
	{"", "http://example.org:80:80/", malformed},
	{"", "http://[::1]:8080/", "http://[::1]:8080/"},
	// Userinfo: beyond the standard, it is removed.
	{"", "http://user@example.org/", "http://example.org/"},
	{"", "http://user:secret@example.org:8080/", "http://example.org:8080/"},
	{"", "http://a@b@c/", "http://c/"},
	{"", "http://:@example.org/", "http://example.org/"},
	{"", "http://example.org:80@evil.example/", "http://evil.example/"},
	{"", "http://example.org\\@evil.example/", "http://example.org/@evil.example/"},
	{"", "http://user@/", malformed},
	// Path.
	{"", "http://example.org", "http://example.org/"},
	{"", "http://example.org/a/./b", "http://example.org/a/b"},
	{"", "http://example.org/a/../b", "http://example.org/b"},
	{"", "http://example.org/../../b", "http://example.org/b"},
	{"", "http://example.org/a/b/..", "http://example.org/a/"},
	{"", "http://example.org/a/b/.", "http://example.org/a/b/"},
	{"", "http://example.org/a/%2e%2E/b", "http://example.org/b"},
	{"", "http://example.org/a/.%2e/b", "http://example.org/b"},
	{"", "http://example.org/a/%2e/b", "http://example.org/a/b"},
	{"", "http://example.org/a/.../b", "http://example.org/a/.../b"},
	{"", "http://example.org/a/..b/c", "http://example.org/a/..b/c"},
	{"", "http://example.org//a//b//", "http://example.org//a//b//"},
	{"", "http://example.org/a//../b", "http://example.org/a/b"},
	{"", "http://example.org/a\\b\\..\\c", "http://example.org/a/c"},
	{"", "http://example.org\\a", "http://example.org/a"},
	{"", "http://example.org/\"<>`{}", "http://example.org/%22%3C%3E%60%7B%7D"},
	{"", "http://example.org/^|", "http://example.org/%5E%7C"}, // "|": beyond, for net/url
	{"", "http://example.org/[]!$&'()*+,;=:@", "http://example.org/[]!$&'()*+,;=:@"},
	{"", "http://example.org/ä/日", "http://example.org/%C3%A4/%E6%97%A5"},
	{"", "http://example.org/\xff", "http://example.org/%EF%BF%BD"},
	{"", "http://example.org/\U0001F600", "http://example.org/%F0%9F%98%80"},
	// Escapes: beyond the standard, which does not change them.
	{"", "http://example.org/%7Euser", "http://example.org/~user"},
	{"", "http://example.org/%61%5A%30%2d%2e%5f%7e", "http://example.org/aZ0-._~"},
	{"", "http://example.org/%2f%3f%23", "http://example.org/%2F%3F%23"},
	{"", "http://example.org/%e4%b8%ad", "http://example.org/%E4%B8%AD"},
	{"", "http://example.org/%", "http://example.org/%25"},
	{"", "http://example.org/%zz%4", "http://example.org/%25zz%254"},
	{"", "http://example.org/%252e", "http://example.org/%252e"},
	{"", "http://example.org/%%32%65", "http://example.org/%252e"},
	{"", "http://example.org/?%7e%2b%26=%3d+", "http://example.org/?~%2B%26=%3D+"},
	// Query and fragment.
	{"", "http://example.org?x", "http://example.org/?x"},
	{"", "http://example.org/?", "http://example.org/"}, // beyond: an empty query is none
	{"", "http://example.org/?#", "http://example.org/"},
	{"", "http://example.org/#a?b", "http://example.org/"},
	{"", "http://example.org#a", "http://example.org/"},
	{"", "http://example.org/?a?b/../c", "http://example.org/?a?b/../c"},
	{"", "http://example.org/?\"'<>", "http://example.org/?%22%27%3C%3E"},
	{"", "http://example.org/?`{}|\\^[]", "http://example.org/?`{}|\\^[]"},
	{"", "http://example.org/?ä=\xff", "http://example.org/?%C3%A4=%EF%BF%BD"},
	{"", "http://example.org/?b=2&a=1&b=1", "http://example.org/?b=2&a=1&b=1"},
	{"", "http://example.org/?&&", "http://example.org/?&&"},
	// Relative references.
	{"http://h/a/b?q", "", "http://h/a/b?q"},
	{"http://h/a/b?q", "#f", "http://h/a/b?q"},
	{"http://h/a/b?q", "?", "http://h/a/b"},
	{"http://h/a/b?q", "?r", "http://h/a/b?r"},
	{"http://h/a/b?q", "?r#f", "http://h/a/b?r"},
	{"http://h/a/b?q", "c", "http://h/a/c"},
	{"http://h/a/b?q", "c/", "http://h/a/c/"},
	{"http://h/a/b?q", "./c", "http://h/a/c"},
	{"http://h/a/b?q", ".", "http://h/a/"},
	{"http://h/a/b?q", "..", "http://h/"},
	{"http://h/a/b?q", "../c", "http://h/c"},
	{"http://h/a/b?q", "../../../c", "http://h/c"},
	{"http://h/a/b?q", "/c", "http://h/c"},
	{"http://h/a/b?q", "\\c", "http://h/c"},
	{"http://h/a/b?q", "/", "http://h/"},
	{"http://h/a/b?q", "//i/c", "http://i/c"},
	{"http://h/a/b?q", "//i", "http://i/"},
	{"http://h/a/b?q", "///i/c", "http://i/c"},
	{"http://h/a/b?q", "\\/i/c", "http://i/c"},
	{"http://h/a/b?q", "//", malformed},
	{"http://h/a/b?q", "c:d", scheme},
	{"http://h/a/b?q", "./c:d", "http://h/a/c:d"},
	{"http://h/a/b?q", "1:2", "http://h/a/1:2"},
	{"http://h/a/b?q", "http:c", "http://h/a/c"},
	{"http://h/a/b?q", "http:/c", "http://h/c"},
	{"http://h/a/b?q", "http:?r", "http://h/a/b?r"},
	{"http://h/a/b?q", "https:c", "https://c/"},
	{"http://h/a/b?q", "https://i/c", "https://i/c"},
	{"http://h/a/b?q", " c ", "http://h/a/c"},
	{"http://h/a/b?q", "c\td", "http://h/a/cd"},
	{"http://h/a/b/", "..", "http://h/a/"},
	{"http://h/a/b/", "c", "http://h/a/b/c"},
	{"https://h:8443/a", "//i:443/", "https://i/"},
	{"https://h:8443/a", "//h:8443/b", "https://h:8443/b"},
	{"https://h:8443/a", "http://h:8443/b", "http://h:8443/b"},
	{"https://h:80/a", "http://h:80/b", "http://h/b"},
	{"http://[::1]:1/a", "b", "http://[::1]:1/b"},
}

func TestStandard(t *testing.T) {
	c := newT(t, Options{})
	for _, test := range standardCases {
		base, err := c.Parse(test.base)
		if test.base != "" && err != nil {
			t.Fatal(err)
		}
		u, err := c.Join(base, test.ref)
		got := u.String()
		switch {
		case errors.Is(err, ErrScheme):
			got = scheme
		case errors.Is(err, ErrMalformed):
			got = malformed
		}
		if got != test.want {
			t.Errorf("Join(%q, %q) = %q (%v), want %q", test.base, test.ref, got, err, test.want)
		}
		if err == nil {
			checkCanonical(t, c, test.ref, u)
		}
		checkSlow(t, c, base, test.ref, u, err)
	}
	t.Logf("%d cases", len(standardCases))
}
