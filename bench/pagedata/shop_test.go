package pagedata

import (
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"

	"github.com/bloomfrontier/crawler/crawl"
)

// product is a product of the shop. Its page has no data for fields that are empty.
type product struct {
	name, sku, date string // date has the format 2006-01-02
	cents           int    // 0 means that there is no price
	images          []string
}

func newProduct(dice *rand.Rand, n int) product {
	words := []string{"Lampe", "Schüssel", "Café", "Tür", "Stuhl", "Señal", "Desk & Co", "<Tag>", "\"Quoted\"", "O’Neill"}
	p := product{name: fmt.Sprintf("%s %s No. %d", words[dice.IntN(len(words))], words[dice.IntN(len(words))], n)}
	if dice.IntN(10) > 0 {
		p.cents = 1 + dice.IntN(3_000_000)
	}
	if dice.IntN(5) > 0 {
		p.sku = fmt.Sprintf("%04d-%c", dice.IntN(10_000), 'A'+rune(dice.IntN(26)))
	}
	if dice.IntN(5) > 0 {
		p.date = fmt.Sprintf("20%02d-%02d-%02d", dice.IntN(30), 1+dice.IntN(12), 1+dice.IntN(28))
	}
	for i := range dice.IntN(5) {
		p.images = append(p.images, fmt.Sprintf("img/%d-%d.jpg?w=%d", n, i, 100*i))
	}
	return p
}

// fields returns the fields that the record of the page must have, byte for byte. The
// argument base is put before relative URLs of images.
func (p *product) fields(base string) string {
	var members []string
	add := func(name, value string) { members = append(members, fmt.Sprintf("%q:%s", name, value)) }
	text := func(s string) string {
		b, _ := json.Marshal(s)
		return string(b)
	}
	add("name", text(p.name))
	if p.cents > 0 {
		add("price", fmt.Sprintf("%d.%02d", p.cents/100, p.cents%100))
	}
	if p.sku != "" {
		add("sku", text(p.sku))
	}
	if p.date != "" {
		add("date", text(p.date))
	}
	if len(p.images) > 0 {
		var urls []string
		for _, image := range p.images {
			urls = append(urls, text(base+image))
		}
		add("images", "["+strings.Join(urls, ",")+"]")
	}
	return "{" + strings.Join(members, ",") + "}"
}

// amount returns the price with the given separators of thousands and decimals.
func (p *product) amount(group, decimal string) string {
	whole := fmt.Sprint(p.cents / 100)
	if n := len(whole); n > 3 {
		whole = whole[:n-3] + group + whole[n-3:]
	}
	return fmt.Sprintf("%s%s%02d", whole, decimal, p.cents%100)
}

// day returns the date in a layout. In the layout, Y is the year, MM the month with two
// digits, B the name of the month, and D the day.
func (p *product) day(layout string) string {
	months := []string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"}
	var y, m, d int
	_, _ = fmt.Sscanf(p.date, "%d-%d-%d", &y, &m, &d)
	return strings.NewReplacer("Y", fmt.Sprint(y), "MM", fmt.Sprintf("%02d", m), "D", fmt.Sprint(d), "B", months[max(m-1, 0)]).Replace(layout)
}

// template is a layout that some of the shop's pages have.
type template struct {
	fields []string // the rules for name, price, sku, date and images
	write  func(w *writer, p *product)
}

type writer struct {
	strings.Builder
	ascii bool // write JSON in ASCII, because the charset of the page does not have all characters
}

// f formats and writes HTML. It escapes the arguments in texts, but not the format
// string.
func (w *writer) f(format string, texts ...string) {
	args := make([]any, len(texts))
	for i, text := range texts {
		args[i] = html.EscapeString(text)
	}
	fmt.Fprintf(w, format, args...)
}

// if_ calls w.f if cond is true.
func (w *writer) if_(cond bool, format string, texts ...string) {
	if cond {
		w.f(format, texts...)
	}
}

func (w *writer) images(p *product, format string) {
	for _, image := range p.images {
		w.f(format, image)
	}
}

var templates = []template{
	{ // classes, German numbers and dates
		[]string{"name=h1.title", "price=.price | number | required", "sku=.sku", "date=.since | date", "images[]=.gallery img@src"},
		func(w *writer, p *product) {
			w.f("<div class=head><h1 class='big title'>\n  %s\n</h1></div><img src=logo.png>", p.name)
			w.f("<p class='price'>%s</p>", map[bool]string{true: p.amount(".", ",") + " €", false: "ausverkauft"}[p.cents > 0])
			w.if_(p.sku != "", "<span class=sku> %s </span>", p.sku)
			w.if_(p.date != "", "<i class=since>seit %s</i>", p.day("D.MM.Y"))
			w.f("<div class=gallery>")
			w.images(p, "<a href='#'><img src='%s'></a>")
			w.f("</div>")
		},
	},
	{ // a table without end tags, American numbers
		[]string{"name=caption", "price=th:contains('Price') + td | number | required", "sku=th:contains('Article') + td", "date=th:contains('Since') + td | date", "images[]=td img@src"},
		func(w *writer, p *product) {
			w.f("<TABLE><CAPTION>%s</CAPTION>", p.name)
			w.if_(p.cents > 0, "<TR><TH>Price:<TD>$%s", p.amount(",", "."))
			w.if_(p.sku != "", "<tr><th>Article<td>%s", p.sku)
			w.if_(p.date != "", "<tr><th>Since<td>%s", p.day("B D, Y"))
			w.f("<tr><td>")
			w.images(p, "<IMG SRC=\"%s\">")
			w.f("</table>")
		},
	},
	{ // JSON-LD in a graph
		[]string{"name=jsonld:Product.name", "price=jsonld:Product.offers.price | number | required", "sku=jsonld:Product.sku", "date=jsonld:Product.releaseDate | date", "images[]=jsonld:Product.image | url"},
		func(w *writer, p *product) {
			offer := map[string]any{"@type": "Offer", "priceCurrency": "EUR"}
			if p.cents > 0 {
				offer["price"] = fmt.Sprintf("%d.%02d", p.cents/100, p.cents%100)
			}
			w.script(map[string]any{"@context": "https://schema.org", "@graph": []any{
				map[string]any{"@type": "Organization", "name": "Shop", "image": "no.png"}, p.linked(offer),
			}})
			w.f("<h1>not this</h1>")
		},
	},
	{ // a damaged script, then JSON-LD inside comment marks, with a line break in a string
		[]string{"name=jsonld:Product.name", "price=jsonld:Product.offers.price | number | required", "sku=jsonld:Product.sku", "date=jsonld:Product.releaseDate | date", "images[]=jsonld:Product.image | url"},
		func(w *writer, p *product) {
			w.WriteString(`<script type="application/ld+json">{"@type":"Product","name":</script>`)
			var offers []any
			if p.cents > 0 {
				offers = append(offers, map[string]any{"price": json.Number(fmt.Sprintf("%d.%02d", p.cents/100, p.cents%100))})
			}
			w.WriteString("<script type='application/LD+json; charset=utf-8'>\n//<![CDATA[\n" + strings.Replace(w.json(p.linked(offers)), `{`, "{\"description\":\"two\nlines\",", 1) + "\n//]]></script>")
		},
	},
	{ // Open Graph and meta elements
		[]string{"name=og:title", "price=meta:product:price:amount | number | required", "sku=meta:sku", "date=meta:article:published_time | date", "images[]=og:image | url"},
		func(w *writer, p *product) {
			w.f("<meta property=og:title content=\"%s\">", p.name)
			w.if_(p.cents > 0, "<meta property='product:price:amount' content='%s'>", p.amount("", "."))
			w.if_(p.sku != "", "<META NAME=SKU CONTENT='%s'>", p.sku)
			w.if_(p.date != "", "<meta property=article:published_time content='%s'>", p.date)
			w.images(p, "<meta property=og:image content='%s'>")
		},
	},
	{ // microdata, with another product beside it
		[]string{"name=microdata:Product.name", "price=microdata:Product.offers.price | number | required", "sku=microdata:Product.sku", "date=microdata:Product.releaseDate | date", "images[]=microdata:Product.image | url"},
		func(w *writer, p *product) {
			w.f("<div itemscope itemtype='http://schema.org/WebPage'><b itemprop=name>Shop</b><img itemprop=image src=no.png></div>")
			w.f("<div itemscope itemtype='https://schema.org/Product'><h1 itemprop='name headline'>%s</h1>", p.name)
			w.if_(p.sku != "", "<span itemprop=sku>%s</span>", p.sku)
			w.if_(p.date != "", "<time itemprop=releaseDate datetime=%s>soon</time>", p.date)
			w.f("<div itemprop=offers itemscope itemtype=https://schema.org/Offer><b itemprop=name>Offer</b>")
			w.if_(p.cents > 0, "<data itemprop=price value=%s>cheap</data>", p.amount("", "."))
			w.f("</div>")
			w.images(p, "<img itemprop=image src='%s'>")
			w.f("</div>")
		},
	},
	{ // attributes
		[]string{"name=[data-name]@data-name", "price=[data-price]@data-price | number=. | required", "sku=div[data-sku]@DATA-SKU", "date=time@datetime | date", "images[]=img.lazy@data-src | url"},
		func(w *writer, p *product) {
			w.f("<div data-name=\"%s\"", p.name)
			w.if_(p.cents > 0, " data-price=%s", p.amount("", "."))
			w.if_(p.sku != "", " data-sku='%s'", p.sku)
			w.f(">")
			w.if_(p.date != "", "<time datetime='%sT00:00:00'>x</time>", p.date)
			w.images(p, "<img class='lazy wide' src=spinner.gif data-src='%s'>")
			w.f("</div>")
		},
	},
	{ // a list of definitions, French numbers
		[]string{"name=h2 a", "price=dt:contains('Prix') + dd | number=, | required", "sku=dt:contains('Réf') + dd", "date=dt:contains('Date') + dd | date=dmy", "images[]=a.image@href"},
		func(w *writer, p *product) {
			w.f("<h2><a href='#'>%s</a></h2><dl>", p.name)
			w.if_(p.cents > 0, "<dt>Prix<dd>%s €", p.amount("\u00a0", ","))
			w.if_(p.sku != "", "<dt>Réf.<dd>%s", p.sku)
			w.if_(p.date != "", "<dt>Date<dd>%s", p.day("D/MM/Y"))
			w.f("</dl>")
			w.images(p, "<a class=image href='%s'>Image</a>")
		},
	},
	{ // font elements and nested tables, as in old pages
		[]string{"name=font[size='+2'] b", "price=td.p b | number | required", "sku=td:nth-child(2) tt", "date=center i | date", "images[]=table table img@src"},
		func(w *writer, p *product) {
			w.f("<center><font size=+2><b>%s</b></font>", p.name)
			w.if_(p.date != "", "<i>(%s)</i>", p.day("D B Y"))
			w.f("<table><tr><td class=p>Only <b>%s</b>", map[bool]string{true: "USD " + p.amount("'", "."), false: "on request"}[p.cents > 0])
			w.f("<td>")
			w.if_(p.sku != "", "<tt>%s</tt>", p.sku)
			w.f("<tr><td><table><tr>")
			w.images(p, "<td><img src='%s' border=0>")
			w.f("</table></table>")
		},
	},
	{ // fields with several sources; the first sources have no value
		[]string{"name=jsonld:Product.name || article h1", "price=meta:price || article .amount | number | required", "sku=.none || article footer@data-sku || .sku", "date=article .none | date", "images[]=article source@srcset || article img@src"},
		func(w *writer, p *product) {
			w.f("<article><h1>%s</h1>", p.name)
			w.if_(p.cents > 0, "<p class=amount><small>kr</small> %s", p.amount("\u202f", ","))
			w.if_(p.sku != "", "<footer data-sku='%s'>x</footer>", p.sku)
			w.images(p, "<img src='%s'>")
			w.f("</article>")
			p.date = "" // the page has no date
		},
	},
}

func (p *product) linked(offers any) map[string]any {
	m := map[string]any{"@type": []string{"Thing", "Product"}, "name": p.name, "image": p.images, "offers": offers, "brand": map[string]any{"@type": "Brand", "name": "no"}}
	if p.sku != "" {
		m["sku"] = p.sku
	}
	if p.date != "" {
		m["releaseDate"] = p.date
	}
	return m
}

func (w *writer) script(value any) {
	w.WriteString(`<script type="application/ld+json">` + w.json(value) + `</script>`)
}

func (w *writer) json(value any) string {
	var text strings.Builder
	b, _ := json.Marshal(value)
	for _, r := range string(b) {
		if w.ascii && r > 127 {
			fmt.Fprintf(&text, `\u%04x`, r)
		} else {
			text.WriteRune(r)
		}
	}
	return text.String()
}

// page is one page of the shop as it is served.
type page struct {
	path, contentType string
	body              []byte
	want              string // the fields that its record must have
	incomplete        bool   // the required price is missing
}

// charsets are the ways in which pages declare their charset: in the header, in a meta
// element, or by a byte order mark. The byte order mark overrides a wrong header.
var charsets = []struct {
	header, meta string
	code         encoding.Encoding
}{
	{header: "text/html; charset=utf-8"},
	{header: "text/html", meta: "utf-8"},
	{header: "text/html; charset=windows-1252", code: charmap.Windows1252},
	{header: "text/html", meta: "windows-1252", code: charmap.Windows1252},
	{header: "text/html; charset=iso-8859-1", meta: "utf-8", code: charmap.Windows1252}, // the header is right
	{header: "text/html; charset=iso-8859-1", code: unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)},
	{header: "text/html; charset=utf-8", code: unicode.UTF16(unicode.BigEndian, unicode.UseBOM)},
	{header: "text/html; charset=Shift_JIS", code: japanese.ShiftJIS},
}

func newPage(dice *rand.Rand, n int) page {
	p := newProduct(dice, n)
	t := n % len(templates)
	charset := charsets[dice.IntN(len(charsets))]
	w := &writer{ascii: charset.code == japanese.ShiftJIS}
	w.f("<!DOCTYPE html>")
	w.if_(charset.meta != "", "<meta charset=%s>", charset.meta)
	w.f("<title>%s</title>", p.name)
	for range dice.IntN(4) { // some faulty HTML
		w.WriteString([]string{"</div>", "<b><i>x</b></i>", "<p><font color=red>", "<!-- a -- b -->", "<a href=x", "<br/><br/>", "</p>", "<unknown x=1 x=2>", "&nosuch;&#xfffff;", "<div class='a\" b'>"}[dice.IntN(10)] + ">")
	}
	templates[t].write(w, &p)
	text := w.String()
	if charset.code != nil {
		encoder := encoding.HTMLEscapeUnsupported(charset.code.NewEncoder())
		text, _ = encoder.String(text)
	}
	path := fmt.Sprintf("/t%d/%d/page.html", t, n)
	return page{path: path, contentType: charset.header, body: []byte(text), want: p.fields(""), incomplete: p.cents == 0}
}

// groups returns the fields of all templates. Each template has its own URLs.
func groups() (all []crawl.FieldGroup) {
	for i, t := range templates {
		all = append(all, crawl.FieldGroup{URL: fmt.Sprintf("/t%d/", i), Fields: t.fields})
	}
	return all
}
