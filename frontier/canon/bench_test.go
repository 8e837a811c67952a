package canon

import "testing"

var benchmarks = []struct{ name, base, ref string }{
	{"parse/plain", "", "https://www.example.org/docs/guide/introduction.html?page=2&lang=en"},
	{"parse/changed", "", "HTTPS://www.Example.org:443/docs/../guide/%7euser/a b.html?utm_source=x&lang=en#top"},
	{"parse/idn", "", "https://bücher.example/straße?q=ä"},
	{"parse/punycode", "", "https://xn--bcher-kva.example/strasse?q=a"},
	{"parse/cyrillic", "", "https://пример.рф/страница"},
	{"join/idn", "https://xn--bcher-kva.example/a/", "https://bücher.example/strasse?q=a"},
	{"parse/ipv4", "", "http://127.0.0.1:8080/docs/guide.html"},
	{"parse/userinfo", "", "https://user:password@www.example.org/docs/guide/introduction.html?page=2"},
	{"join/absolute", "https://www.example.org/docs/", "https://www.example.org/docs/guide/introduction.html"},
	{"join/path", "https://www.example.org/docs/", "/docs/guide/introduction.html?page=2"},
	{"join/relative", "https://www.example.org/docs/a/b/c.html", "../guide/introduction.html#top"},
	{"join/query", "https://www.example.org/docs/?page=1", "?page=2"},
	{"join/fragment", "https://www.example.org/docs/?page=1", "#top"},
	{"join/network", "https://www.example.org/docs/", "//cdn.example.org/x.html"},
	{"join/mailto", "https://www.example.org/docs/", "mailto:someone@example.org"},
}

func BenchmarkJoin(b *testing.B) {
	c := newT(b, Options{})
	for _, bench := range benchmarks {
		b.Run("ref="+bench.name, func(b *testing.B) {
			base, _ := c.Parse(bench.base)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = c.Join(base, bench.ref)
			}
		})
	}
}
