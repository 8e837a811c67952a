package sitemap

import "testing"

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
	if err != nil || found != "http://h/b\n" || sum.NotUTF8 != 1 {
		t.Errorf("entries %q, %+v, %v", found, sum, err)
	}
}
