package sitemap

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
)

// TestFeeds has the forms of RSS 0.91, 1.0 and 2.0, Atom 0.3 and 1.0 (RFC 4287), which sitemaps.org
// allows as sitemaps, and of alternate languages in sitemaps.
func TestFeeds(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"rss 2.0", head + `<rss version="2.0" xmlns:atom="x"><channel><title>f</title><link>http://h/</link><atom:link rel="self" href="http://h/rss"/>
<item><title>a</title><link>http://h/a?x&amp;y</link><guid>http://h/g</guid><enclosure url="http://h/e.mp3"/></item><item><link><![CDATA[ http://h/b ]]></link></item>
<image><link>http://h/no</link></image></channel></rss>`, "http://h/a?x&y\nhttp://h/b\n"},
		{"guid", `<rss><channel><item><guid>http://h/a</guid></item><item><guid isPermaLink="false">http://h/no</guid></item><item><guid>17</guid></item></channel></rss>`,
			"http://h/a\n"},
		{"rss 0.91", `<rss version="0.91"><channel><item><link>/a</link></item></channel></rss>`, "/a\n"},
		{"rss 1.0", `<rdf:RDF xmlns="http://purl.org/rss/1.0/"><channel rdf:about="x"><link>/no</link></channel><item rdf:about="/x"><link>/a</link></item></rdf:RDF>`, "/a\n"},
		{"atom", head + `<feed xmlns="http://www.w3.org/2005/Atom"><link rel="self" href="/atom"/><link href="/home"/><entry><link href="/a"/><link rel="edit" href="/no"/>
<link rel="ALTERNATE" href="/b?x&amp;y"></link><source><link href="/no"/></source><content type="xhtml"><a href="/no">x</a></content></entry></feed>`, "/a\n/b?x&y\n"},
		{"atom 0.3", `<feed version="0.3" xmlns="http://purl.org/atom/ns#"><entry><link rel="alternate" type="text/html" href="/a"/></entry></feed>`, "/a\n"},
		{"hreflang", set + `<url><loc>/a</loc><xhtml:link rel="alternate" hreflang="de" href="/de"/></url></urlset>`, "/a\n/de\n"},
	} {
		found, _, err := entries(t, c.file)
		if err != nil || found != c.want {
			t.Errorf("%s: entries %q, %v, want %q", c.name, found, err, c.want)
		}
	}
}

// TestEntriesThatAreNotUTF8AreCounted: such a URL is not visited, but counted.
func TestEntriesThatAreNotUTF8AreCounted(t *testing.T) {
	found, sum, err := entries(t, set+"<url><loc>http://h/\xe4</loc></url><url><loc>http://h/b</loc></url></urlset>")
	if err != nil || found != "http://h/b\n" || sum.Undecoded != 1 {
		t.Errorf("entries %q, %+v, %v", found, sum, err)
	}
}

// TestFeedsAsSourcesOfLinks has the forms that WordPress, Blogger, WCF (prefix a10), FeedBurner and
// podcasts write. Each URL has its xml:base before it, a plus sign is a part of the feed, and an at
// sign an enclosure.
func TestFeedsAsSourcesOfLinks(t *testing.T) {
	const (
		rss  = `<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom" xmlns:a10="http://www.w3.org/2005/Atom"><channel>`
		feed = `<feed xmlns="http://www.w3.org/2005/Atom"`
	)
	for _, c := range []struct{ name, file, want string }{
		{"CDATA", rss + "<item><link>\n<![CDATA[ http://h/a?x&y ]]>\n</link></item>", "http://h/a?x&y"},
		{"empty link, guid", rss + `<item><link/><guid isPermaLink="true">http://h/a</guid></item><item><link></link><guid>http://h/b</guid></item>`, "http://h/a http://h/b"},
		{"guid that is no link", rss + `<item><guid isPermaLink="false">http://h/no</guid><title>x</title></item>`, ""},
		{"guid before link", rss + `<item><guid>http://h/no</guid><link>http://h/a</link></item>`, "http://h/a"},
		{"items without end tags", rss + `<item><guid>http://h/a</guid><item><link>http://h/b</link><item><link>http://h/c</link></channel></rss>`, "http://h/a http://h/b http://h/c"},
		{"atom in rss", rss + `<atom:link rel="self" href="/no"/><item><guid>http://h/no</guid><atom:link href="/a"/></item>`, "/a"},
		{"a10", rss + `<a10:link rel="self" href="/no"/><item><link>/a</link><a10:link rel="edit" href="/no"/><a10:author><a10:uri>/no</a10:uri></a10:author></item>`, "/a"},
		{"a10 with base", rss + `<item xml:base="/b/"><link>a</link></item><item><link>c</link></item>`, "/b/ a c"},
		{"FeedBurner", rss + `<item><link>http://f/~r/1</link><feedburner:origLink>http://h/no</feedburner:origLink><comments>/no</comments><wfw:commentRss>/no</wfw:commentRss></item>`, "http://f/~r/1"},
		{"podcast", rss + `<item><link>/a</link><enclosure url="/a.mp3?x=1&amp;y" length="1" type="audio/mpeg"/><itunes:image href="/no"/></item>`, "/a @/a.mp3?x=1&y"},
		{"media", rss + `<item><link>/a</link><media:content url="/no"><media:thumbnail url="/no"/></media:content><source url="/no">x</source></item>`, "/a"},
		{"HTML in the description", rss + `<item><description>&lt;a href="/no"&gt; <![CDATA[<a href="/no">]]></description><content:encoded><![CDATA[<link>/no</link>]]></content:encoded><link>/a</link></item>`, "/a"},
		{"pages of rss", rss + `<atom:link rel="next" href="/f?p=2"/><item><link>/a</link></item>`, "+/f?p=2 /a"},
		{"image of the channel", rss + `<link>/no</link><image><link>/no</link></image><textInput><link>/no</link></textInput>`, ""},
		{"atom", feed + `><link rel="self" href="/no"/><link rel="hub" href="/no"/><entry><link rel="alternate" type="text/html" href="/a"/><link rel="enclosure" href="/e.mp3"/><link rel="self" href="/no"/>
<link rel="replies" href="/no"/><link rel="via" href="/no"/><link rel="related" href="/no"/></entry></feed>`, "/a @/e.mp3"},
		{"registered name of a relation", feed + `><entry><link rel="http://www.iana.org/assignments/relation/alternate" href="/a"/></entry></feed>`, "/a"},
		{"archive", feed + `><link rel="prev-archive" href="/2025"/><link rel="current" href="/f"/></feed>`, "+/2025 +/f"},
		{"atom with prefix", `<atom:feed xmlns:atom="http://www.w3.org/2005/Atom"><atom:entry><atom:link href="/a"/></atom:entry></atom:feed>`, "/a"},
		{"atom 0.3", `<feed version="0.3" xmlns="http://purl.org/atom/ns#"><entry><link rel="alternate" type="text/html" href="/a"/><link rel="service.edit" href="/no"/></entry></feed>`, "/a"},
		{"rss 1.0", `<rdf:RDF xmlns="http://purl.org/rss/1.0/"><channel><items><rdf:Seq><rdf:li rdf:resource="/no"/></rdf:Seq></items></channel><item rdf:about="/no"><link>/a</link></item></rdf:RDF>`, "/a"},
		{"bases", feed + ` xml:base="http://i/x/"><entry xml:base="y/"><link xml:base="?q" href="a"/><link href="b"/></entry><entry><link href="c"/></entry></feed>`,
			"http://i/x/ y/ ?q a http://i/x/ y/ b http://i/x/ c"},
		{"content of entries", feed + `><entry><link href="/a"/><content type="xhtml" xml:base="/no/"><div><a href="no"/><link href="/no"/></div></content><link href="/b"/></entry></feed>`, "/a /b"},
		{"source", feed + `><entry><source xml:base="/no/"><link href="no"/></source><link href="/a"/></entry></feed>`, "/a"},
	} {
		var found []string
		_, err := ReadFeed(strings.NewReader(c.file), "", func(e Entry) bool {
			found = append(found, e.Bases...)
			found = append(found, map[Kind]string{Page: "", Part: "+", Enclosure: "@"}[e.Kind]+e.URL)
			return true
		})
		if got := strings.Join(found, " "); got != c.want || err != nil && !errors.Is(err, ErrCut) {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}

func TestFormOf(t *testing.T) {
	const rdf = `<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" `
	for _, c := range []struct {
		begin string
		want  Form
	}{
		{set, Listing}, {"<sitemapindex>", Listing}, {"\ufeff\n" + head + "<!-- x --><?x y?><rss>", Feed}, {"<a:feed>", Feed},
		{rdf + `xmlns="http://purl.org/rss/1.0/">`, Feed}, {rdf + `xmlns="http://my.netscape.com/rdf/simple/0.9/">`, Feed},
		{rdf + `xmlns:foaf="http://xmlns.com/foaf/0.1/">`, None}, {"<html>", None}, {"", None}, {"rss", None}, {"<channel>", None},
	} {
		wide, err := encoded("utf-16le", c.begin)
		if err != nil {
			t.Fatal(err)
		}
		for name, begin := range map[string]string{"plain": c.begin, "gzip": zipped(c.begin), "UTF-16": "\xff\xfe" + wide, "UTF-16 without mark": wide} {
			if got := FormOf([]byte(begin)); got != c.want && (name != "UTF-16 without mark" || strings.HasPrefix(c.begin, "<")) {
				t.Errorf("%s %q: form %d, want %d", name, c.begin, got, c.want)
			}
		}
	}
}

func encoded(charset, text string) (string, error) {
	enc, err := htmlindex.Get(charset)
	if err != nil {
		return "", err
	}
	return encoding.ReplaceUnsupported(enc.NewEncoder()).String(text)
}

// TestCharsetsOfFiles: the charset is that of the byte order mark, the Content-Type or the XML
// declaration, in this order (RFC 7303), whatever the form of the file and however it is read.
func TestCharsetsOfFiles(t *testing.T) {
	declared := func(label string) string { return `<?xml version="1.0" encoding="` + label + `"?>` }
	for _, c := range []struct{ charset, mark, begin, contentType, char string }{
		{"utf-8", "", "", "", "日"},
		{"utf-8", "\xef\xbb\xbf", declared("shift_jis"), "text/xml; charset=gbk", "日"},
		{"utf-16le", "\xff\xfe", "", "", "日"},
		{"utf-16be", "\xfe\xff", declared("UTF-16"), "text/xml; charset=utf-8", "日"},
		{"utf-16le", "", declared("UTF-16"), "", "日"},
		{"utf-16be", "", "", "", "日"},
		{"utf-8", "", declared("utf-16"), "", "日"}, // .NET writes this
		{"utf-8", "", "", "text/xml; charset=utf-16", "日"},
		{"windows-1252", "", declared("windows-1252"), "", "€"},
		{"windows-1252", "", declared("ISO-8859-1"), "", "é"},
		{"windows-1252", "", "", "application/xml; charset=iso-8859-1", "é"},
		{"iso-8859-2", "", declared("iso-8859-2"), "text/xml", "ł"},
		{"windows-1251", "", declared("utf-8"), `text/xml; charset="windows-1251"`, "я"},
		{"shift_jis", "", "<?xml version='1.0' encoding='Shift_JIS' standalone='yes'?>", "", "表"}, // its second byte is a backslash
		{"gbk", "", declared("GBK"), "", "語"},
		{"gb18030", "", declared("gb18030"), "", "😀"},
		{"euc-kr", "", declared("euc-kr"), "", "한"},
		{"iso-2022-jp", "", declared("iso-2022-jp"), "", "日"},
		{"big5", "", declared("big5"), "text/xml; charset=martian", "語"},
	} {
		for _, file := range []string{
			set + "<url><loc>http://h/" + c.char + "?" + c.char + "</loc></url></urlset>",
			"<rss><channel><item><link><![CDATA[http://h/" + c.char + "?" + c.char + "]]></link></item></channel></rss>",
			`<feed><entry><link href="http://h/` + c.char + "?" + c.char + `"/></entry></feed>`,
		} {
			text, err := encoded(c.charset, c.begin+file)
			if err != nil {
				t.Fatal(err)
			}
			for _, packed := range []string{c.mark + text, zipped(c.mark + text)} {
				found := ""
				sum, err := Read(strings.NewReader(packed), c.contentType, func(e Entry) bool { found += e.URL; return true })
				if want := "http://h/" + c.char + "?" + c.char; found != want || err != nil || sum.Undecoded != 0 {
					t.Errorf("%+v: %q, %+v, %v, want %q", c, found, sum, err, want)
				}
			}
		}
	}
	for name, file := range map[string]string{
		"UTF-8":     head + set + "<url><loc>http://h/\xe4</loc></url></urlset>",
		"Shift_JIS": declared("shift_jis") + set + "<url><loc>http://h/\xfd</loc></url></urlset>",
		"text":      "http://h/\xe4\n",
	} {
		sum, err := Read(strings.NewReader(file), "", func(Entry) bool { return true })
		if sum.Entries != 0 || sum.Undecoded != 1 || err != nil && name != "text" {
			t.Errorf("%s: %+v, %v, want one URL that cannot be decoded", name, sum, err)
		}
	}
	for _, mark := range []string{"", "\xff\xfe"} { // a text is in UTF-8, whatever its header says
		text := "http://h/ä\n"
		if mark != "" {
			text, _ = encoded("utf-16le", text)
		}
		found := ""
		if _, err := Read(strings.NewReader(mark+text), "text/plain; charset=iso-8859-1", func(e Entry) bool { found += e.URL; return true }); found != "http://h/ä" || err != nil {
			t.Errorf("text with the mark %q: %q, %v", mark, found, err)
		}
	}
}

// TestCharsetsInBoundedMemory: a file is decoded as it is read.
func TestCharsetsInBoundedMemory(t *testing.T) {
	line, err := encoded("utf-16le", "<url><loc>http://h/ä</loc></url>")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	_, err = read(&endless{text: line}, "", reading{limit: 1 << 30}, func(Entry) bool { n++; return n < 1000 })
	if err != nil || n != 1000 {
		t.Errorf("%d entries, %v, want 1000 from a file without end", n, err)
	}
}
