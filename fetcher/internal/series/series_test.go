package series

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestPattern(t *testing.T) {
	for url, want := range map[string]string{
		"http://h9.example/":                                       "",
		"http://h.example/a/b?c=d":                                 "",
		"http://h.example:8080":                                    "",
		"http://h.example/%C3%A91":                                 "http://h.example/%C3%A9#",
		"http://h.example/%31%2f":                                  "", // an escape is no number
		"http://h9.example/cal/2031/05/":                           "http://h9.example/cal/#/#/",
		"http://h.example/?d=2031-may-05&x=may":                    "http://h.example/?d=#-#-#&x=#",
		"http://h.example/p12b3/maybe":                             "http://h.example/p#b#/maybe",
		"http://h.example/Dezember-2031.html":                      "http://h.example/#-#.html",
		"http://h.example/x/550e8400-e29b-41d4-a716-446655440000":  "http://h.example/x/#",
		"http://h.example/x/abcdefab-abcd-abcd-abcd-abcdefabcdef":  "http://h.example/x/#",
		"http://h.example/x/550e8400-e29b-41d4-a716-446655440000a": "http://h.example/x/#-e#b-#d#-a#-#",
		"http://h.example/deadbeef/deadbee1/facade":                "http://h.example/deadbeef/#/facade",
	} {
		got, numbered := Pattern(url)
		if numbered != (want != "") || numbered && got != want {
			t.Errorf("Pattern(%q) = %q, %t, want %q", url, got, numbered, want)
		}
	}
}

// says reports whether a page with this body says something new after those before.
func says(bodies []string, body string) bool {
	var h Host
	var text Text
	for _, before := range bodies {
		text.Read([]byte(before))
		h.Text("http://h.example/#", &text)
	}
	text.Read([]byte(body))
	return h.Text("http://h.example/#", &text)
}

// TestRead: what counts as a new text.
func TestRead(t *testing.T) {
	long := strings.Repeat("some words of prose ", 20)
	for _, c := range []struct {
		before, body string
		isNew        bool
	}{
		{"<h1>May 2031</h1>", "<h1>June 2032</h1>", false},
		{"<h1>12. Mai 2031</h1>", "<H1 class=x>3. märz</H1>", false},
		{"<p>one</p><p>two</p>", "<p>two</p><p>one</p><p>one</p>", false},
		{"<p>one</p>", "<p>one</p><p>other</p>", true},
		{"<p>one fox</p>", "<p>one</p>", true},
		{"<p>ONE</p>", "<p>one</p>", false},
		{"<p>a</p>", "<p>a</p><!-- <p>comment</p> --><script>var b</script><style>c</style><i title=d>", false},
		{"<p>a</p>", "<p>a</p><script type=\"application/ld+json\">{\"name\":\"b\"}</script>", true},
		{"<p>a</p>", "<p>a</p><img alt='fox' src=1.jpg>", true},
		{"<p>a</p><img src=1.jpg>", "<p>a</p><img src=22.jpg>", false},
		{"<p>a</p><img src=1.jpg>", "<p>a</p><img src=fox.jpg>", true},
		{"<p>" + long + "</p><p>" + long + "x</p>", "<p>" + long + "x</p><p>" + long + "</p>", true},
		{"<p>" + long + "</p><p>" + long + "x</p>", "<p>" + long + "</p><p>" + long + "x</p>", false},
		{"<td>1.5<td>2.5<td>3.5<td>4.5", "<td>1.6<td>2.6<td>3.6<td>4.6", true},
		{"<td>1.5<td>2.5<td>3.5<td>4.5", "<td>1.6<td>2.6<td>3.6<td>1.5", false},
		{"<td>970<td>971<td>972<td>973", "<td>980<td>981<td>982<td>983", true},
		{"<td>1<td>2<td>3<td>4", "<td>5<td>6<td>7<td>8", false},
		{"<td>2031<td>2032<td>2033<td>2034", "<td>2041<td>2042<td>2043<td>2044", false},
		{"<td>2031-05-01<td>2031-05-02<td>2031-05-03<td>2031-05-04", "<td>2031-06-01<td>01.06.2031<td>10:32<td>1/6/2031", false},
		{"<li>Item 4711<li>Item 4712<li>Item 4713<li>Item 4714", "<li>Item 4811<li>Item 4812<li>Item 4813<li>Item 4814", false},
		{"<li>At 1.5 m<li>At 2.5 m<li>At 3.5 m<li>At 4.5 m", "<li>At 1.6 m<li>At 2.6 m<li>At 3.6 m<li>At 4.6 m", true},
		{"<p>a", "<p", false}, {"<p>a", "<!-- a", false}, {"<p>a", "<script>a", false}, {"<p>a", "", false},
	} {
		if got := says([]string{c.before}, c.body); got != c.isNew {
			t.Errorf("%.60q after %.60q says something new: %t, want %t", c.body, c.before, got, c.isNew)
		}
	}
}

const (
	monthly = "http://h.example/m/#"
	daily   = "http://h.example/d/#"
)

// visit notes a page with this text, which adds n links to each of the patterns.
func (h *Host) visit(pattern, body string, links ...string) (trap bool) {
	var text Text
	text.Read([]byte(body))
	return !h.Text(pattern, &text) && h.Links(pattern, links)
}

// TestTrap: 50 silent pages make a trap, if silent pages still add links to the series.
func TestTrap(t *testing.T) {
	const month, day = "http://h.example/m/1", "http://h.example/d/1"
	for name, c := range map[string]struct {
		links func(page int) []string // of the page; 0 is the first one
		body  func(page int) string
		trap  int // the page that makes the trap; 0 means none of 1,000 does
	}{
		"a next page":           {links: func(int) []string { return []string{month} }, trap: 50},
		"nothing is added":      {links: func(int) []string { return nil }},
		"every second adds one": {links: func(n int) []string { return []string{month}[n%2:] }, trap: 50},
		"every third adds one":  {links: func(n int) []string { return []string{month}[min(n%3, 1):] }, trap: 75},
		"a page outside":        {links: func(int) []string { return []string{month, "http://h.example/page"} }},
		"another host":          {links: func(int) []string { return []string{month, "http://other.example/m/1"} }},
		"another series":        {links: func(int) []string { return []string{month, day} }},
		"every 50th page outside": {links: func(n int) []string {
			if n%50 == 0 {
				return []string{month, "http://h.example/page"}
			}
			return []string{month}
		}},
		"every 50th page is new":   {links: func(int) []string { return []string{month} }, body: func(n int) string { return strings.Repeat("x", n/50+1) }},
		"the last new page is 100": {links: func(int) []string { return []string{month} }, body: func(n int) string { return strings.Repeat("x", min(n, 100)+1) }, trap: 150},
	} {
		var h Host
		for page := range 1000 {
			body := "same"
			if c.body != nil {
				body = c.body(page)
			}
			if h.visit(monthly, body, c.links(page)...) {
				if page != c.trap || c.trap == 0 {
					t.Errorf("%s: page %d makes a trap, want page %d", name, page, c.trap)
				}
				break
			} else if page == c.trap && page > 0 {
				t.Errorf("%s: page %d makes no trap", name, page)
			}
		}
		pattern, trap := h.Judge("http://h.example/m/77")
		if trap != (c.trap > 0) || trap && (pattern != monthly || !slices.Equal(h.Traps(), []string{monthly})) {
			t.Errorf("%s: Judge = %q, %t; traps %q", name, pattern, trap, h.Traps())
		}
		for _, other := range []string{day, "http://h.example/m", "https://h.example/m/77"} {
			if _, trap := h.Judge(other); trap {
				t.Errorf("%s: %s is a trap", name, other)
			}
		}
	}
}

// TestSilentSeries: links to a series that is silent itself are nothing new, and monthly and their daily both end.
func TestSilentSeries(t *testing.T) {
	var h Host
	for month := 0; ; month++ {
		if month == 100 {
			t.Fatal("100 monthly and their daily make no trap")
		}
		links := slices.Repeat([]string{"http://h.example/d/1"}, 30)
		h.visit(monthly, "a month", append(links, "http://h.example/m/2")...)
		for range 30 {
			if _, trap := h.Judge("http://h.example/d/1"); !trap && h.visit(daily, "a day") && month > 3 {
				t.Errorf("the daily are a trap in month %d", month)
			}
		}
		if traps := h.Traps(); len(traps) == 2 {
			if month > 60 {
				t.Errorf("traps after %d monthly", month)
			}
			break
		}
	}
}

// TestMuchTextNeedsPatience: the more a series has said, the more silent pages make a trap. Pages with one new text
// each never do.
func TestMuchTextNeedsPatience(t *testing.T) {
	for _, texts := range []int{10, 120, 1000, 10_000} {
		var h Host
		page := 0
		for ; page < texts; page++ {
			if h.visit(monthly, fmt.Sprintf("<p>%s</p>", spelled(page)), "http://h.example/m/1") {
				t.Fatalf("trap after %d pages with new texts", page)
			}
		}
		silent := 0
		for ; !h.visit(monthly, "<p>"+spelled(texts-1)+"</p>", "http://h.example/m/1"); silent++ {
			if silent > 100*texts {
				t.Fatalf("no trap after %d silent pages", silent)
			}
		}
		if silent < 45 || silent > max(64, 2*texts) {
			t.Errorf("after %d texts, %d silent pages make a trap", texts, silent)
		}
	}
	var h Host
	for page := range 200_000 {
		if h.visit(monthly, "<p>"+spelled(page)+"</p>", "http://h.example/m/1") {
			t.Fatalf("trap after %d pages with new texts", page)
		}
	}
}

// TestSkips: of a series whose pages all say something new, ever fewer pages are read, and a trap that begins later is
// found nevertheless.
func TestSkips(t *testing.T) {
	var h Host
	reads := 0
	visit := func(page int, body string) (trap bool) {
		if h.Skips(monthly, fmt.Sprintf("http://h.example/m/%d", page)) {
			return false
		}
		reads++
		stored, _ := h.AppendBinary(nil)
		if err := h.UnmarshalBinary(stored); err != nil {
			t.Fatal(err)
		}
		return h.visit(monthly, body, "http://h.example/m/1")
	}
	for page := range 8 {
		visit(page, "<p>"+spelled(page)+"</p>")
	}
	if reads != 8 {
		t.Errorf("%d of the first 8 pages are read, want all", reads)
	}
	const pages = 4000
	for page := 8; page < pages; page++ {
		visit(page, "<p>"+spelled(page)+"</p>")
	}
	if reads < pages/16 || reads > pages/6 {
		t.Errorf("%d of %d pages are read, want 1/16 and some more", reads, pages)
	}
	page := pages
	for !visit(page, "same") {
		if page++; page > pages+1000 {
			t.Fatal("1000 silent pages make no trap")
		}
	}
	t.Logf("%d of %d pages are read, and %d silent pages make a trap", reads, pages, page-pages+1)
}

// spelled writes a number without digits.
func spelled(n int) string {
	text := []byte("x")
	for ; n > 0; n /= 20 {
		text = append(text, 'a'+byte(n%20))
	}
	return string(text)
}

// TestState: the state of any number of series fits, keeps the latest traps, and is the same after it was stored.
func TestState(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h Host
	for range 3000 {
		pattern := fmt.Sprintf("http://h.example/%s/#", spelled(rng.IntN(200)))
		body := ""
		for range rng.IntN(100) {
			body += "<p>" + spelled(rng.IntN(300))
		}
		if rng.IntN(3) == 0 {
			for range 52 {
				h.visit(pattern, "same", strings.Replace(pattern, "#", "1", 1))
			}
		}
		h.visit(pattern, body, strings.Replace(pattern, "#", "1", 1))
		stored, err := h.AppendBinary(nil)
		if err != nil || len(stored) > MaxBytes || len(stored) == 0 {
			t.Fatalf("%d bytes, %v, want 1 to %d", len(stored), err, MaxBytes)
		}
		var again Host
		if err := again.UnmarshalBinary(stored); err != nil {
			t.Fatal(err)
		}
		twice, _ := again.AppendBinary(nil)
		if !bytes.Equal(stored, twice) || !slices.Equal(h.Traps(), again.Traps()) || again.traps != len(again.Traps()) {
			t.Fatalf("stored %x, and again %x", stored, twice)
		}
		for cut := range stored {
			if cut > 0 && rng.IntN(50) == 0 {
				_ = new(Host).UnmarshalBinary(stored[:cut])
			}
		}
	}
	if len(h.Traps()) < 5 {
		t.Errorf("the traps %q are left, want at least 5", h.Traps())
	}
	h.visit(daily, "a new series is remembered beside many traps")
	if h.find(keyOf(daily)) == nil {
		t.Error("a new series is forgotten at once")
	}
	if h.UnmarshalBinary(nil) != nil || len(h.all) > 0 {
		t.Error("an empty state is not read")
	}
}

// TestTrapsAreKept: a host with many series that say much forgets these first.
func TestTrapsAreKept(t *testing.T) {
	var h Host
	for range 60 {
		h.visit(monthly, "same", "http://h.example/m/1")
	}
	for n := range 100 {
		body := ""
		for i := range 60 {
			body += "<p>" + spelled(i)
		}
		h.visit(fmt.Sprintf("http://h.example/%s/#", spelled(n)), body)
	}
	if _, trap := h.Judge("http://h.example/m/77"); !trap {
		t.Error("the trap is forgotten")
	}
}

func FuzzState(f *testing.F) {
	var h Host
	for page := range 60 {
		h.visit(monthly, "same", "http://h.example/m/1")
		h.visit(daily, spelled(page))
	}
	stored, _ := h.AppendBinary(nil)
	f.Add(stored)
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Host
		if h.UnmarshalBinary(b) != nil {
			return
		}
		h.visit(monthly, "some text", "http://h.example/m/1")
		h.visit(daily, "some text", "http://h.example/m/1")
		if stored, _ := h.AppendBinary(nil); len(stored) > MaxBytes || new(Host).UnmarshalBinary(stored) != nil {
			t.Errorf("%x is read, and stored as %x", b, stored)
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add("<p>a</p><script type=json>{}</script><img alt=x>1.5<!--", "http://h.example/1")
	f.Fuzz(func(t *testing.T, body, url string) {
		var text Text
		text.Read([]byte(body))
		if says([]string{body}, body) {
			t.Errorf("%q says something new when it is read again", body)
		}
		pattern, numbered := Pattern(url)
		if again, _ := Pattern(pattern); again != pattern && numbered {
			t.Errorf("Pattern(%q) = %q, and then %q", url, pattern, again)
		}
	})
}

func BenchmarkPage(b *testing.B) {
	var body strings.Builder
	for n := range 120 {
		fmt.Fprintf(&body, "<p class=\"text\"><a href=\"/page/%d\">%s</a> and %d more words are here, so that it looks like %s.</p>\n", n, spelled(n), n, spelled(n*77))
	}
	page, url := []byte(body.String()), "http://www.example.org/archive/2026/05/17/an-article-about-something.html"
	var h Host
	var text Text
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		pattern, _ := Pattern(url)
		text.Read(page)
		if !h.Text(pattern, &text) {
			h.Links(pattern, nil)
		}
	}
}
