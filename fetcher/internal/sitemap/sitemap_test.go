package sitemap

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of random tests")

var proof = flag.Bool("proof", false, "run the tests at full size")

// entries reads a file and returns a line for each entry. A plus sign precedes the URL of a
// sitemap.
func entries(t testing.TB, file string) (found string, sum Summary, err error) {
	t.Helper()
	var b strings.Builder
	sum, err = Read(strings.NewReader(file), "", func(e Entry) bool {
		if e.Kind == Sitemap {
			b.WriteByte('+')
		}
		b.WriteString(e.URL + "\n")
		return true
	})
	if n := strings.Count(b.String(), "\n"); n != sum.Entries && !strings.Contains(file, "\n") {
		t.Errorf("%d entries visited, but %d in the summary", n, sum.Entries)
	}
	return b.String(), sum, err
}

func zipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return b.String()
}

const (
	head = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"
	set  = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`
)

func TestReadEachFormat(t *testing.T) {
	for _, c := range []struct {
		name, file, want string
		err              error
	}{
		{name: "urlset", want: "http://h/a\nhttp://h/b?x=1&y=2\n",
			file: head + set + "<url>\n<loc>\n http://h/a </loc><lastmod>2026-01-01</lastmod></url><url><priority>1</priority><loc>http://h/b?x=1&amp;y=2</loc></url></urlset>"},
		{name: "index", want: "+http://h/a.xml\n+http://i/b.xml.gz\n",
			file: head + "<sitemapindex><sitemap><loc>http://h/a.xml</loc></sitemap><sitemap><loc>http://i/b.xml.gz</loc><lastmod>x</lastmod></sitemap></sitemapindex>"},
		{name: "prefixes", want: "http://h/a\n",
			file: `<ns0:urlset xmlns:ns0="x"><ns0:url><ns0:loc>http://h/a</ns0:loc></ns0:url></ns0:urlset>`},
		{name: "upper case", want: "http://h/A\n", file: "<URLSET><Url><LOC>http://h/A</LOC></Url></URLSET>"},
		{name: "CDATA and comments", want: "http://h/a?x&y\nhttp://h/&amp;\n",
			file: set + "<!-- <url><loc>no</loc></url> --><url><loc><![CDATA[http://h/a?x&y]]></loc></url><url><loc>http://h/<!-- x --><![CDATA[&amp;]]></loc></url></urlset>"},
		{name: "numeric entities", want: "http://h/äñ&\n", file: set + "<url><loc>http://h/&#228;&#xF1;&#38;</loc></url></urlset>"},
		{name: "ampersands that are no entities", want: "http://h/?a&copy=1&b&lt=2&&;&#;&#x110000;&nbsp;\n",
			file: set + "<url><loc>http://h/?a&copy=1&b&lt=2&&;&#;&#x110000;&nbsp;</loc></url></urlset>"},
		{name: "unescaped only once", want: "http://h/?a&amp;b\n", file: set + "<url><loc>http://h/?a&amp;amp;b</loc></url></urlset>"},
		{name: "images are no pages", want: "http://h/a\nhttp://h/b\n",
			file: set + `<url><loc>http://h/a</loc><image:image><image:loc>http://h/i.png</image:loc></image:image><video:video><video:player_loc>no</video:player_loc></video:video></url><url><loc>http://h/b</loc></url></urlset>`},
		{name: "text", want: "http://h/a\nHTTPS://h/b?x&amp;y\nhttp://h/c\n",
			file: "\ufeffhttp://h/a\r\n\r\n  HTTPS://h/b?x&amp;y\t\n# comment\nftp://h/no\n/no\nhttp://h/c"},
		{name: "another root element", file: head + "<!DOCTYPE html><html><body><loc>http://h/a</loc></body></html>", err: ErrFormat},
		{name: "no line is a URL", file: "Not found\n", err: ErrFormat},
		{name: "empty", file: "", err: ErrFormat},
		{name: "only a declaration", file: head, err: ErrFormat},
		{name: "root element missing", want: "http://h/a\n", file: "<url><loc>http://h/a</loc></url>"},

		{name: "byte order mark of UTF-8", want: "http://h/ä\n",
			file: "\ufeff<?xml version='1.0' encoding='utf-16'?>" + set + "<url><loc>http://h/ä</loc></url></urlset>"},
		{name: "not UTF-8", want: "http://h/b\n",
			file: set + "<url><loc>http://h/\xe4</loc></url><url><loc>http://h/b</loc></url></urlset>"},

		// broken files
		{name: "cut in a URL", want: "http://h/a\n", err: ErrCut, file: set + "<url><loc>http://h/a</loc></url><url><loc>http://h/b"},
		{name: "cut in a tag", want: "http://h/a\n", err: ErrCut, file: set + "<url><loc>http://h/a</loc></url><url><lo"},
		{name: "unclosed", want: "http://h/a\nhttp://h/b\n", file: set + "<url><loc>http://h/a<url><loc>http://h/b</url></urlset>"},
		{name: "stray end tags", want: "http://h/a\n", file: set + "</url></x><url></loc><loc>http://h/a</loc></url></urlset>"},
		{name: "unknown elements between", want: "http://h/a\n", file: set + "<urls><url><p><br></p><loc>http://h/a</loc></url></urls></urlset>"},
		{name: "entries without a URL", want: "http://h/b\n", file: set + "<url><loc> </loc></url><url><loc/></url><url></url><url><loc>http://h/b</loc></url></urlset>"},
		{name: "script and style", want: "http://h/a\n", file: set + "<script><url><loc>http://h/a</loc></url></script></urlset>"},
		{name: "junk behind the root", want: "http://h/a\n", file: set + "<url><loc>http://h/a</loc></url></urlset>\x00<<<&&&"},
		{name: "deep", want: "http://h/a\nhttp://h/b\n",
			file: set + "<url><loc>http://h/a</loc>" + strings.Repeat("<x>", 1000) + "</url><url><loc>http://h/b</loc></url></urlset>"},
		{name: "entities of the DOCTYPE are not expanded", want: "http://h/&lol;\n",
			file: `<!DOCTYPE urlset [<!ENTITY lol "lol"><!ENTITY lol2 "&lol;&lol;">]>` + set + "<url><loc>http://h/&lol;</loc></url></urlset>"},
		{name: "a token without end", want: "http://h/a\n", err: ErrToken,
			file: set + "<url><loc>http://h/a</loc></url><!-- " + strings.Repeat("x", 2*maxToken)},
		{name: "a URL without end", want: "http://h/b\n",
			file: set + "<url><loc>http://h/" + strings.Repeat("x", maxURL) + "</loc></url><url><loc>http://h/b</loc></url></urlset>"},
		{name: "a line without end", want: "http://h/a\nhttp://h/b\n", file: "http://h/a\nhttp://h/" + strings.Repeat("x", 3*maxURL) + "\nhttp://h/b\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, file := range []string{c.file, zipped(c.file)} {
				got, _, err := entries(t, file)
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("entries (-want +got):\n%s", diff)
				}
				if !errors.Is(err, c.err) || (err != nil) != (c.err != nil) {
					t.Errorf("error %v, want %v", err, c.err)
				}
			}
		})
	}
}

func TestFilesThatEndTooEarly(t *testing.T) {
	broken := errors.New("connection reset")
	var seen []string
	for _, file := range []string{"http://h/a\nhttp://h/b\n", set + "<url><loc>http://h/a</loc></url>\n<url>"} {
		_, err := Read(io.MultiReader(strings.NewReader(file), iotest.ErrReader(broken)), "", func(e Entry) bool {
			seen = append(seen, e.URL)
			return true
		})
		if !errors.Is(err, broken) {
			t.Errorf("error %v, want %v", err, broken)
		}
	}
	if got := strings.Join(seen, " "); got != "http://h/a http://h/b http://h/a" {
		t.Errorf("entries before the error: %s", got)
	}
	whole := zipped(set + strings.Repeat("<url><loc>http://h/a</loc></url>", 1000))
	for _, damaged := range []string{whole[:5], whole[:len(whole)/2], whole[:len(whole)-6] + "xxxxxx"} {
		if _, _, err := entries(t, damaged); err == nil {
			t.Error("damaged gzip: no error")
		}
	}
}

func TestReadTakesFiftyMegabytes(t *testing.T) {
	line := "http://h/" + strings.Repeat("x", 2*maxURL-10) + "\n" // too long for an entry, so that MaxEntries is not reached
	file := io.MultiReader(strings.NewReader("http://h/a\n"), io.LimitReader(&endless{text: line}, MaxBytes-11))
	sum, err := Read(file, "", func(Entry) bool { return true })
	if err != nil || sum.Entries != 1 {
		t.Errorf("summary %+v, %v, want 1 entry", sum, err)
	}
}

func TestVisitCanStop(t *testing.T) {
	for _, file := range []string{"http://h/a\nhttp://h/b\n", set + "<url><loc>http://h/a</loc></url><url><loc>http://h/b</loc></url></urlset>"} {
		seen := 0
		sum, err := Read(strings.NewReader(file), "", func(Entry) bool { seen++; return false })
		if err != nil || seen != 1 || sum.Entries != 1 {
			t.Errorf("%d entries visited, summary %+v, %v, want 1 entry and no error", seen, sum, err)
		}
	}
}

// endless is a reader that repeats a text for ever.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (n int, err error) {
	for n < len(p) {
		copied := copy(p[n:], e.text[e.at:])
		n += copied
		e.at = (e.at + copied) % len(e.text)
	}
	return n, nil
}

// TestLimitsOfFile reads files that never end, or are bombs, in bounded memory.
func TestLimitsOfFile(t *testing.T) {
	limit := int64(2 << 20)
	if *proof {
		limit = MaxBytes
	}
	begin := func(text string) io.Reader { return strings.NewReader(text) }
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range limit>>19 + 1 {
		_, _ = z.Write([]byte("<urlset>" + strings.Repeat(" ", 1<<19)))
	}
	_ = z.Close()
	for _, c := range []struct {
		name    string
		file    io.Reader
		want    error
		entries int
	}{
		{"too many pages", io.MultiReader(begin(set), &endless{text: "<url><loc>http://h/a</loc></url>\n"}), ErrTooMany, MaxEntries},
		{"too many lines", &endless{text: "http://h/a\n"}, ErrTooMany, MaxEntries},
		{"text without end", io.MultiReader(begin(set+"<url><loc>"), &endless{text: "x"}), ErrToken, 0},
		{"tag without end", io.MultiReader(begin(set+"<url "), &endless{text: "a=b "}), ErrToken, 0},
		{"line without end", io.MultiReader(begin("http://h/a\n"), &endless{text: "x"}), ErrTooLarge, 1},
		{"nesting without end", io.MultiReader(begin(set), &endless{text: "<x>"}), ErrTooLarge, 0},
		{"bomb", &bomb, ErrTooLarge, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			highest := uint64(0)
			watch := &watchedReader{from: c.file, watch: func() {
				runtime.ReadMemStats(&after)
				highest = max(highest, after.HeapAlloc)
			}}
			sum, err := read(watch, "", reading{limit: limit}, func(Entry) bool { return true })
			if !errors.Is(err, c.want) || sum.Entries != c.entries {
				t.Errorf("summary %+v, %v, want %d entries, %v", sum, err, c.entries, c.want)
			}
			if highest > before.HeapAlloc+64<<20 {
				t.Errorf("the heap grew by %d MiB, want at most 64", (highest-before.HeapAlloc)>>20)
			}
		})
	}
}

// watchedReader is a reader that calls its function watch at every thousandth call of Read.
type watchedReader struct {
	from  io.Reader
	watch func()
	reads int
}

func (w *watchedReader) Read(p []byte) (int, error) {
	if w.reads++; w.reads%1000 == 0 {
		w.watch()
	}
	return w.from.Read(p)
}

// FuzzRead: no file causes a panic or an invalid entry. The entries are the same whether a
// file is read in one piece, byte by byte or compressed.
func FuzzRead(f *testing.F) {
	f.Add(head + set + "<url><loc>http://h/a</loc></url><url><loc><![CDATA[http://h/b]]></loc></url></urlset>")
	f.Add("<sitemapindex><sitemap><loc>http://h/&amp;&#x41;</loc></sitemap></sitemapindex>")
	f.Add("\xff\xfe<\x00u\x00r\x00l\x00s\x00e\x00t\x00>\x00")
	f.Add("<?xml encoding='shift_jis'?><url><loc>\x93\xfa</loc>")
	f.Add("http://h/a\nhttp://h/b\r\n#")
	f.Add("\x1f\x8b\x08\x00")
	f.Add("<html>" + strings.Repeat("\xb0", 8<<10)) // refused at the first tag, before it is read whole
	f.Fuzz(func(t *testing.T, file string) {
		want, sum, err := entries(t, file)
		for url := range strings.Lines(want) {
			url = strings.TrimSuffix(strings.TrimPrefix(url, "+"), "\n")
			if len(url) > maxURL {
				t.Errorf("the entry %q is longer than maxURL", url)
			}
		}
		var pieces strings.Builder
		again, errAgain := Read(iotest.OneByteReader(strings.NewReader(file)), "", func(e Entry) bool {
			if e.Kind == Sitemap {
				pieces.WriteByte('+')
			}
			pieces.WriteString(e.URL + "\n")
			return true
		})
		if pieces.String() != want || again != sum || fmt.Sprint(errAgain) != fmt.Sprint(err) {
			t.Errorf("byte by byte: %+v %v %q\nwhole: %+v %v %q", again, errAgain, pieces.String(), sum, err, want)
		}
		if strings.HasPrefix(file, "\x1f\x8b") {
			return
		}
		small, sumZ, errZ := entries(t, zipped(file))
		if small != want || sumZ != sum || fmt.Sprint(errZ) != fmt.Sprint(err) {
			t.Errorf("compressed: %+v %v %q\nplain: %+v %v %q", sumZ, errZ, small, sum, err, want)
		}
	})
}

// TestBrokenFilesKeepWhatCameBefore damages files at random places. Read still visits all
// entries that end before the damaged place.
func TestBrokenFilesKeepWhatCameBefore(t *testing.T) {
	t.Logf("replay with -seed=%d", *seed)
	dice := rand.New(rand.NewPCG(*seed, 0))
	var b strings.Builder
	b.WriteString(head + set)
	const damage = "<>&/!-\"'=\x00\xffx]["
	ends := make([]int, 50)
	for i := range ends {
		fmt.Fprintf(&b, "<url><loc>http://h/%d</loc></url>", i)
		ends[i] = b.Len()
	}
	b.WriteString("</urlset>")
	for range 500 {
		at := len(head) + len(set) + dice.IntN(b.Len()-len(head)-len(set))
		junk := make([]byte, dice.IntN(8))
		for i := range junk {
			junk[i] = damage[dice.IntN(len(damage))]
		}
		file := b.String()[:at] + string(junk) + b.String()[min(b.Len(), at+dice.IntN(20)):]
		found, _, err := entries(t, file)
		for i, end := range ends {
			if end <= at && !strings.Contains(found, fmt.Sprintf("http://h/%d\n", i)) {
				t.Fatalf("entry %d is missing, damage %q at %d (%v)\n%s", i, junk, at, err, file)
			}
		}
	}
}

func BenchmarkRead(b *testing.B) {
	var file strings.Builder
	file.WriteString(head + set)
	for i := range MaxEntries {
		fmt.Fprintf(&file, "<url>\n  <loc>https://www.example.org/section/%d/the-title-of-an-article.html?page=1&amp;n=2</loc>\n  <lastmod>2026-11-20T10:00:00+00:00</lastmod>\n  <changefreq>daily</changefreq>\n  <priority>0.5</priority>\n</url>\n", i)
	}
	file.WriteString("</urlset>")
	b.Run("entries=50000", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(file.Len()))
		for b.Loop() {
			if sum, err := Read(strings.NewReader(file.String()), "", func(Entry) bool { return true }); err != nil || sum.Entries != MaxEntries {
				b.Fatal(sum, err)
			}
		}
		b.ReportMetric(float64(b.N)*MaxEntries/b.Elapsed().Seconds(), "entries/s")
	})
}

// TestReadModified: each lastmod is read with the entry before it, in each form of the W3C date and in those that sites use instead.
func TestReadModified(t *testing.T) {
	const day, minute, second = 24 * time.Hour, time.Minute, time.Second
	noon := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	at := func(t time.Time, length time.Duration) string { return t.Format(time.RFC3339) + " " + length.String() }
	for text, want := range map[string]string{
		"2026-11-28T12:00:00Z":          at(noon, second),
		" 2026-11-28T14:00:00+02:00\n":  at(noon, second),
		"2026-11-28T12:00:00.123Z":      at(noon, second),
		"2026-11-28T12:00Z":             at(noon, minute),
		"2026-11-28T12:00:00":           at(noon, second),
		"2026-11-28 12:00:00":           at(noon, second),
		"2026-11-28 12:00:00+00:00":     at(noon, second),
		"2026-11-28T12:00:00+0000":      at(noon, second),
		"2026-11-28 12:00":              at(noon, minute),
		"2026-11-28":                    at(noon.Add(-12*time.Hour), day),
		"2026-02":                       at(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), 28*day),
		"2026":                          at(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 365*day),
		"<![CDATA[2026-11-28]]>":        at(noon.Add(-12*time.Hour), day),
		"":                              "",
		"yesterday":                     "",
		"28.11.2026":                    "",
		"2026-13-28":                    "",
		"Sat, 28 Nov 2026 12:00:00 GMT": "",
	} {
		file := "<urlset xmlns:n='urn:n'><url><loc>http://a.test/1</loc><lastmod>" + text + "</lastmod><n:x><lastmod>2020</lastmod></n:x></url>" +
			"<url><loc>http://a.test/2</loc></url><url><lastmod>2020</lastmod><loc>http://a.test/3</loc></url></urlset>"
		var urls []string
		got := ""
		_, err := ReadModified(strings.NewReader(file), "", func(e Entry) bool {
			urls = append(urls, e.URL)
			return true
		}, func(m Modified) {
			got += m.URL + " " + at(m.First.Truncate(time.Second), m.Until.Sub(m.First))
		})
		if want != "" {
			want = "http://a.test/1 " + want
		}
		if err != nil || got != want || strings.Join(urls, " ") != "http://a.test/1 http://a.test/2 http://a.test/3" {
			t.Errorf("%q: %q, %v, want %q; the URLs are %q", text, got, err, want, urls)
		}
	}
	got := ""
	_, err := ReadModified(strings.NewReader("<sitemapindex><sitemap><loc>/s</loc><lastmod>2026</lastmod></sitemap></sitemapindex>"), "",
		func(Entry) bool { return true }, func(m Modified) { got += m.URL; got += m.First.Format(" 2006") })
	if err != nil || got != "/s 2026" {
		t.Errorf("an index: %q, %v", got, err)
	}
}
