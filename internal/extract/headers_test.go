package extract

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

// TestHeaders has the forms of RFC 8288 (3, appendix B) and of the HTML standard ("shared
// declarative refresh steps").
func TestHeaders(t *testing.T) {
	c, err := canon.New(canon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	url, err := c.Parse("http://h.example/dir/page")
	if err != nil {
		t.Fatal(err)
	}
	link := func(values ...string) http.Header { return http.Header{"Link": values} }
	for _, x := range []struct {
		header          http.Header
		want, canonical string // want: KIND PATH of each link
	}{
		{http.Header{"Refresh": {"0; url=/t0"}}, "refresh /t0", ""},
		{http.Header{"Refresh": {"5;URL='t1'"}}, "refresh /dir/t1", ""},
		{http.Header{"Refresh": {"0, /t2"}}, "refresh /t2", ""},
		{http.Header{"Refresh": {"3"}}, "", ""},
		{http.Header{"Refresh": {"x; url=/no"}}, "", ""},
		{link(`</next>; rel="next"`), "link /next", ""},
		{link(`<next>;rel=NEXT`), "link /dir/next", ""},
		{link(`</a>; rel=prev, </b>; rel="next"`, `</c>; rel=alternate; hreflang=de`), "link /a,link /b,link /c", ""},
		{link(`</a,b;c>; title="x, y; rel=no \" <z>"; rel=next, </d>; rel=next`), "link /a,b;c,link /d", ""},
		{link(`</c>; rel="canonical"`), "", "http://h.example/c"},
		{link(`</c>; rel="canonical next"`), "link /c", "http://h.example/c"},
		{link(`</feed>; rel=alternate; type="application/rss+xml"`), "", ""},
		{link(`</a>; rel=next; rel=stylesheet`), "link /a", ""},
		{link(`</a>; rel=next; anchor="/other"`), "", ""},
		{link(`</a>; rel=canonical; anchor="#part"`), "", ""},
		{link(`</a>; rel=next; anchor=""`), "link /a", ""},
		{link(`</a>; rel=next; anchor="page"`), "link /a", ""},
		{link(`</s.css>; rel=stylesheet, </p>; rel=preload; as=image`), "", ""},
		{link(`/no; rel=next, </a>; rel = "next"`), "link /a", ""},
		{link(`</a>`, ``, `,,`, `<`, `</b`, `</c>;`, `</d>;rel`, `</e>;rel="next`), "link /e", ""},
	} {
		page := Headers(x.header, url, Options{Canon: c})
		var got []string
		for _, l := range page.Links {
			got = append(got, l.Kind.String()+" "+l.URL.Path())
		}
		if diff := cmp.Diff(x.want, strings.Join(got, ",")); diff != "" {
			t.Errorf("%v (-want +got):\n%s", x.header, diff)
		}
		if page.Canonical.String() != x.canonical {
			t.Errorf("%v: canonical %q, want %q", x.header, page.Canonical, x.canonical)
		}
	}
	many := Headers(link(strings.Repeat("</a>;rel=next,", 10*MaxHeaderLinks)), url, Options{Canon: c})
	if len(many.Links) != 1 {
		t.Errorf("%d links, want 1", len(many.Links))
	}
}

func TestHeaderLanguage(t *testing.T) {
	for value, want := range map[string]string{"de": "de", " en-GB ": "en-GB", "de, en": "", "": "", "de en": "", "x_y": ""} {
		if got := HeaderLanguage(http.Header{"Content-Language": {value}}); got != want {
			t.Errorf("HeaderLanguage(%q) = %q, want %q", value, got, want)
		}
	}
	if got := HeaderLanguage(http.Header{"Content-Language": {"de", "en"}}); got != "" {
		t.Errorf("two lines have the language %q", got)
	}
}
