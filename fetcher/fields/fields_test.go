package fields_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/bloomfrontier/crawler/fetcher/fields"
)

const base = "https://shop.test/p/1?x=1"

func parse(t testing.TB, text string) *html.Node {
	t.Helper()
	root, err := html.ParseWithOptions(strings.NewReader(text), html.ParseOptionEnableScripting(false))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func extract(t testing.TB, page string, list ...string) []fields.Found {
	t.Helper()
	rules, err := fields.New(fields.Group{Fields: list})
	if err != nil {
		t.Fatal(err)
	}
	return rules.For(base).Extract(fields.Page{Root: parse(t, page), Base: base})
}

// product is a page with values for each kind of source, such as JSON-LD and microdata.
const product = `<!DOCTYPE html><html lang=de><head><title>Lamp</title>
<meta property="og:title" content="A lamp"><meta name=Description content=" For
 desks "><meta http-equiv=content-language content=de>
<script type="application/ld+json">{"@context":"https://schema.org","@graph":[
 {"@type":"Organization","name":"Shop"},
 {"@type":["Product","Thing"],"name":"Desk lamp","image":["/a.png","/b.png"],"brand":{"@type":"Brand","name":"Lumo"},
  "offers":[{"@type":"Offer","price":19.90,"priceCurrency":"EUR"},{"@type":"Offer","price":"21,50"}],"isNew":true}]}</script>
</head><body><h1> Desk   lamp<br>No. 5 </h1>
<div class=price data-cents=1990>€ 1.299,00</div><p class=old>1,499.50 USD</p><p class=sold>sold out</p>
<ul class=tags><li>a</li><li> </li><li>b</li></ul><a class=ref href="../q?b= 1#x">q</a><a class=ref href="http://[">bad</a><a class=ref>none</a>
<img class=lazy src="" data-src="/lamp.png">
<time datetime="2026-01-02T15:04:05+02:00">yesterday</time><i class=day>Mon, 3rd of Feb 2026</i><i class=day>Published Feb. 3rd, 2026</i>
<article>One<p>two</p><p><b>th</b>ree</p><script>no()</script></article>
<div itemscope itemtype="http://schema.org/Product"><span itemprop=name>Micro lamp</span><img itemprop="image" src=m.png>
 <div itemprop=offers itemscope itemtype="http://schema.org/Offer"><meta itemprop=price content=7.5><link itemprop=availability href="http://schema.org/InStock"></div>
 <div itemprop=brand itemscope><b itemprop=name>Micro brand</b></div></div>
</body></html>`

// TestValuesOfSources extracts values of one page, from each kind of source and in each
// form.
func TestValuesOfSources(t *testing.T) {
	for _, c := range []struct{ field, want string }{
		{"a=h1", `"Desk lamp No. 5"`},
		{"a=.price", `"€ 1.299,00"`},
		{"a=.price | number", `1299.00`},
		{"a=.price@data-cents|number", `1990`},
		{"a=.price@DATA-cents|number", `1990`},
		{"a=.old | number", `1499.50`},
		{"a=.sold | number", ``},
		{"a=.none", ``},
		{"a=.none || .sold || h1", `"sold out"`},
		{"a=.sold || .old | number", `1499.50`},
		{"a[]=.tags li", `["a","b"]`},
		{"a[]=.none", ``},
		{"a[]=a.ref@href", `["https://shop.test/q?b=%201#x"]`},
		{"a[]=a.ref@href | raw", `["../q?b= 1#x","http://["]`},
		{"a=.lazy@src || .lazy@data-src | url", `"https://shop.test/lamp.png"`},
		{"a=h1@html | raw", `" Desk   lamp\u003cbr/\u003eNo. 5 "`},
		{"a=article", `"One two three"`},
		{"a=html@lang", `"de"`},
		{"a=time@datetime | date", `"2026-01-02T13:04:05Z"`},
		{"a[]=.day | date", `["2026-02-03"]`},
		{"a=og:title", `"A lamp"`},
		{"a=meta:og:title", `"A lamp"`},
		{"a=meta:description", `"For desks"`},
		{"a=meta:content-language", `"de"`},
		{"a=og:none", ``},
		{"a=jsonld:Product.name", `"Desk lamp"`},
		{"a=jsonld:name", `"Shop"`},
		{"a=jsonld:Brand.name", `"Lumo"`},
		{"a=jsonld:Product.brand", `"Lumo"`},
		{"a=jsonld:Product.brand.name", `"Lumo"`},
		{"a=jsonld:Product.isNew", `"true"`},
		{"a[]=jsonld:Product.image | url", `["https://shop.test/a.png","https://shop.test/b.png"]`},
		{"a[]=jsonld:Product.offers.price | number", `[19.90,21.50]`},
		{"a=jsonld:Product.none", ``},
		{"a=microdata:Product.name", `"Micro lamp"`},
		{"a=microdata:name", `"Micro lamp"`},
		{"a=microdata:brand.name", `"Micro brand"`},
		{"a=microdata:Product.offers.price | number", `7.5`},
		{"a=microdata:Offer.price | number", `7.5`},
		{"a=microdata:Offer.availability", `"http://schema.org/InStock"`},
		{"a=microdata:Product.image | url", `"https://shop.test/p/m.png"`},
		{"a=microdata:price", ``},
		{"a=microdata:Offer.name", ``},
		{"a=li:nth-child(3), h1 | required", `"Desk lamp No. 5"`},
		{"a=[lang|=de]@lang", `"de"`},
		{"a=[class='ref']:not([href])", `"none"`},
	} {
		found := extract(t, product, c.field)
		want := ""
		if c.want != "" {
			want = `{"a":` + c.want + `}`
		}
		if got := string(fields.JSON(found)); got != want {
			t.Errorf("%s: got %s, want %s (Why is %q)", c.field, got, want, found[0].Why)
		}
		if (found[0].Why == "") != (c.want != "") {
			t.Errorf("%s: Why is %q and the wanted value %q; want Why exactly if there is no value",
				c.field, found[0].Why, c.want)
		}
	}
}

// TestWhyThereIsNoValue: the error of a field without a value names the source
// that failed and how it failed.
func TestWhyThereIsNoValue(t *testing.T) {
	for field, want := range map[string]string{
		"a=.none":                        ".none: no element matches",
		"a=h1@href":                      "h1@href: no element that matches has the attribute href",
		"a=.sold | number":               `.sold: "sold out" is no number`,
		"a=.none || og:x":                ".none: no element matches; og:x: no meta element has this name and content",
		"a=jsonld:Product.x":             "jsonld:Product.x: no such property in the JSON-LD of the page",
		"a=a.ref:nth-of-type(2)@href":    `a.ref:nth-of-type(2)@href: "http://[" is no URL`,
		"a=microdata:Product.aggregate":  "microdata:Product.aggregate: no such property in the microdata of the page",
		"a=.tags li:nth-child(2) | raw":  "",
		"a=.tags li:nth-child(2)":        `.tags li:nth-child(2): "" is no text`,
		"a=h1 | date":                    `h1: "Desk lamp No. 5" is no date`,
		"a=.none@text || .none@x || .no": ".none@text: no element matches; .none@x: no element matches; .no: no element matches",
	} {
		if got := extract(t, product, field)[0].Why; got != want {
			t.Errorf("%s: Why is %q, want %q", field, got, want)
		}
	}
	for _, around := range []string{"<!--\n%s\n-->", "//<![CDATA[\n%s\n//]]>", "/*<![CDATA[*/ %s; /*]]>*/"} {
		script := `<script type="application/ld+json">` + fmt.Sprintf(around, "{\"a\":\"b\nc\"}") + `</script>`
		if got := fields.JSON(extract(t, script, "a=jsonld:a")); string(got) != `{"a":"b c"}` {
			t.Errorf("%s: fields %s, want the value \"b c\"", script, got)
		}
	}
	damaged := `<script type="application/ld+json">{"a":</script>`
	if got := extract(t, damaged, "a=jsonld:a")[0].Why; !strings.Contains(got, "the JSON-LD of the page is damaged") {
		t.Errorf("damaged JSON-LD: Why is %q", got)
	}
}

// TestSyntaxErrors: the error about a wrong field names the place of the fault.
func TestSyntaxErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                             `field "", character 1: want NAME=SELECTOR, such as price=.price`,
		"price":                        `field "price", character 6: want NAME=SELECTOR, such as price=.price`,
		"=x":                           "character 1: want a name",
		"a b=x":                        "character 1: want a name",
		"a=":                           "character 3: want a CSS selector",
		"a= || b":                      "character 4: want a CSS selector",
		"a=.b |":                       "character 7: unknown option",
		"a=.b | numbr":                 `character 8: unknown option "numbr"`,
		"a=.b | number | date":         "character 17: a field has one of the forms",
		"a=.b | number || .c":          "character 15: || stands before",
		"a=.b@":                        "want text, html or the name of an attribute",
		"a=.pri!ce":                    "character 7: selector",
		"ä=.b":                         "character 1: want a name",
		"a=.ä !":                       "character 6: selector",
		"a=div > > p":                  "character 9: selector",
		"a=a:hovering":                 "character 12: selector",
		"a=p[x":                        "character 6: selector",
		"a=.a || .b:nth-child(x)":      "selector \".b:nth-child(x)\"",
		"a=jsonld:":                    "character 10: want a path",
		"a=jsonld:Product":             "character 10: want a property behind the type, such as Product.name",
		"a=jsonld:a..b":                "character 10: want a path",
		"a=og:":                        "character 6: want the name of a meta element",
		"a=.b | date=dym":              "unknown option",
		strings.Repeat("n", 65) + "=x": "want a name",
	} {
		err := fields.Check(text)
		var fault *fields.SyntaxError
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), want) {
			t.Errorf("Check(%q) = %v, want a SyntaxError with %s", text, err, want)
		}
	}
	for _, text := range []string{
		"a=b", " a = b ", "links[]=a.ref@href", "a=a[title='x|y@z']", `a=p:contains("a || b")|required`, "a=p:not([x=')'])@TEXT",
		"og=og:title", "a.b-c_D=head meta:first-child@content", "a=h1 | required | number=,", "a=h1 | date=dmy | required",
	} {
		if err := fields.Check(text); err != nil {
			t.Errorf("Check(%q) = %v", text, err)
		}
	}
}

// TestRulesOfURLs checks which fields apply to a URL.
func TestRulesOfURLs(t *testing.T) {
	rules, err := fields.New(
		fields.Group{URL: `/p/\d+$`, Fields: []string{"price=.p | required"}},
		fields.Group{Fields: []string{"title=h1"}},
		fields.Group{URL: `/p/`, Fields: []string{"list[]=li"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string][]string{
		"http://a.test/p/1": {"title", "price"}, "http://a.test/p/x": {"title", "list"}, "http://a.test/": {"title"},
	} {
		var got []string
		for _, f := range rules.For(url).Extract(fields.Page{Root: parse(t, "")}) {
			got = append(got, f.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has the fields %v, want %v", url, got, want)
		}
	}
	if got := rules.For("http://a.test/p/1").Required(); !slices.Equal(got, []string{"price"}) {
		t.Errorf("Required() = %v, want [price]", got)
	}
	only, err := fields.New(fields.Group{URL: "/p/", Fields: []string{"a=b"}})
	if err != nil || only.For("http://a.test/") != nil {
		t.Errorf("a page that no pattern matches has fields (%v)", err)
	}
	if none, err := fields.New(); none != nil || err != nil || none.For("http://a.test/") != nil {
		t.Errorf("New() = %v, %v, want nil, nil", none, err)
	}
	for _, groups := range [][]fields.Group{
		{{Fields: []string{"a=b", "a=c"}}}, {{Fields: []string{"a=b"}}, {URL: "x", Fields: []string{"a[]=c"}}}, {{URL: "(", Fields: []string{"a=b"}}},
	} {
		if _, err := fields.New(groups...); err == nil {
			t.Errorf("New(%v) returned no error", groups)
		}
	}
	_, err = fields.New(fields.Group{Fields: []string{"a=!", "b=?"}})
	if err == nil || strings.Count(err.Error(), "field ") != 2 {
		t.Errorf("New with two faulty fields: %v, want an error that names both", err)
	}
}

// TestBoundsOfValues: values are bounded, and Found.Why says that no room was left for the
// value of the last field.
func TestBoundsOfValues(t *testing.T) {
	many := strings.Repeat("<a href=x>some text</a>", 100_000)
	found := extract(t, "<p>"+many+"</p>"+`<i title="`+strings.Repeat("<\x01", 200_000)+`">`,
		"all[]=a", "links[]=a@href", "one=p", "first=a", "esc=i@title | raw", "long=i@title | url", "html=p@html", "f=p", "g=p", "h=p", "last=a")
	total := len(fields.JSON(found))
	for _, f := range found {
		size := 0
		for _, v := range f.Values {
			size += len(v) + 1
		}
		if size > fields.MaxFieldBytes+8 {
			t.Errorf("field %s has %d bytes, want at most %d", f.Name, size, fields.MaxFieldBytes+8)
		}
		if f.Cut != (f.Name != "first") {
			t.Errorf("field %s: Cut is %v, want %v", f.Name, f.Cut, f.Name != "first")
		}
	}
	if total > fields.MaxPageBytes+1000 || total < fields.MaxPageBytes-1000 {
		t.Errorf("all fields together have %d bytes, want about %d", total, fields.MaxPageBytes)
	}
	if last := found[len(found)-1]; last.Why != "no room was left for it" || len(last.Values) > 0 {
		t.Errorf("the last field: %+v, want no value, because no room was left", last)
	}
	if got := fields.Cut(found); len(got) != len(found)-1 {
		t.Errorf("Cut(found) = %v, want all fields but one", got)
	}
	if !json.Valid(fields.JSON(found)) {
		t.Error("JSON(found) is no valid JSON")
	}
}

// TestHostilePages: after fields were extracted from an expensive page, at most 16 MiB
// more are in use than before.
func TestHostilePages(t *testing.T) {
	script := func(text string) string { return `<script type="application/ld+json">` + text + `</script>` }
	const size = 256 << 10
	repeat := func(text string) string { return strings.Repeat(text, size/len(text)) }
	for name, page := range map[string]string{
		"nested JSON":    script(repeat("[")),
		"wide JSON":      script("[" + strings.Repeat(`{},`, 80_000) + "{}]"),
		"one more":       script("[" + strings.Repeat(`[[[]]],`, 30_000) + "{}]"),
		"many scripts":   repeat(script(`{"a":{"b":[1,2,3]}}`)),
		"types":          script(strings.Repeat(`{"@type":"A","b":`, 9_000) + `"x"` + strings.Repeat("}", 9_000)),
		"nested items":   strings.Repeat("<div itemscope itemprop=b itemtype=http://x/A>", 500) + repeat("<i itemprop=b>x</i>"),
		"property names": "<div itemscope><b itemprop='" + repeat("b ") + "'>x</b></div>",
		"metas":          repeat("<meta name=b content=x>"),
		"white space":    repeat("<p>" + strings.Repeat(" ", 100)),
		"nested text":    strings.Repeat("<div>", 500) + strings.Repeat("x ", size/2),
	} {
		root := parse(t, page)
		rules, err := fields.New(fields.Group{Fields: []string{
			"a[]=jsonld:A.b", "b[]=jsonld:b.b.b", "c[]=microdata:A.b.b", "d[]=microdata:b", "e[]=meta:b", "f[]=div | number", "g[]=p | date", "h=div@html | raw",
		}})
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		found := rules.For(base).Extract(fields.Page{Root: root, Base: base})
		runtime.ReadMemStats(&after)
		taken := after.Mallocs - before.Mallocs
		t.Logf("%s: %d allocations of %d MB in all", name, taken, (after.TotalAlloc-before.TotalAlloc)>>20)
		var held runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&held)
		if grown := int64(held.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
			t.Errorf("%s: %d MB are still in use afterwards, want at most 16", name, grown>>20)
		}
		if object := fields.JSON(found); object != nil && !json.Valid(object) {
			t.Errorf("%s: JSON(found) is no valid JSON", name)
		}
	}
}

// TestGiveUp: the extraction stops when GiveUp returns true, and Found.Why says so.
func TestGiveUp(t *testing.T) {
	rules, _ := fields.New(fields.Group{Fields: []string{"a=i", "b=p | required"}})
	asked := 0
	found := rules.For(base).Extract(fields.Page{
		Root: parse(t, strings.Repeat("<b>x</b>", 1000)+"<i>y</i><p>z"), Base: base,
		GiveUp: func() bool { asked++; return asked > 5 },
	})
	if asked != 6 || found[0].Why != "no time was left for it" || found[1].Why != "no time was left for it" {
		t.Errorf("GiveUp was called %d times, want 6; found %+v", asked, found)
	}
	if got := fields.Missing(found); !slices.Equal(got, []string{"b"}) {
		t.Errorf("Missing(found) = %v, want [b]", got)
	}
}

func ExampleSet_Extract() {
	rules, err := fields.New(fields.Group{Fields: []string{"price=.price | number | required", "links[]=a@href"}})
	if err != nil {
		panic(err)
	}
	root, _ := html.Parse(strings.NewReader(`<p class=price>$ 1,299.50</p><a href=/a>a</a><a href=/b>b</a>`))
	url := "https://shop.test/"
	fmt.Println(string(fields.JSON(rules.For(url).Extract(fields.Page{Root: root, Base: url}))))
	// Output: {"price":1299.50,"links":["https://shop.test/a","https://shop.test/b"]}
}
