package pagedata

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"golang.org/x/net/html"

	"github.com/bloomfrontier/crawler/fetcher/fields"
)

// BenchmarkFields extracts five fields from a product page of 30 KB, once with a plain
// loop that uses goquery, and once with package fields. Both use the same selectors.
// The benchmark also measures parsing alone. The processor time is that of the whole
// process.
func BenchmarkFields(b *testing.B) {
	p := newProduct(rand.New(rand.NewPCG(1, 1)), 1)
	p.images, p.cents, p.sku = []string{"img/1.jpg", "img/2.jpg"}, 129900, "0815-X"
	w := new(writer)
	w.f("<!DOCTYPE html><title>x</title><body><ul>")
	for i := range 250 {
		w.f("<li class=item><a href='/p/%s'>Some other product <b>of the shop</b></a>", fmt.Sprint(i))
	}
	w.f("</ul>")
	templates[0].write(w, &p)
	w.WriteString(strings.Repeat("<p>A paragraph about the shop, its owners and what they think.</p>", 150))
	text := w.String()
	const base = "https://shop.test/p/1"
	rules, err := fields.New(fields.Group{Fields: templates[0].fields})
	if err != nil {
		b.Fatal(err)
	}
	parse := func() *html.Node {
		root, err := html.Parse(strings.NewReader(text))
		if err != nil {
			b.Fatal(err)
		}
		return root
	}
	loop := func(root *html.Node) (values []string) {
		document := goquery.NewDocumentFromNode(root)
		for _, selector := range []string{"h1.title", ".price", ".sku", ".since"} {
			values = append(values, strings.TrimSpace(document.Find(selector).First().Text()))
		}
		document.Find(".gallery img").Each(func(_ int, s *goquery.Selection) {
			values = append(values, s.AttrOr("src", ""))
		})
		return values
	}
	ours := func(root *html.Node) []byte {
		return fields.JSON(rules.For(base).Extract(fields.Page{Root: root, Base: base}))
	}
	root := parse()
	if got := loop(root); len(got) != 6 || got[4] != "img/1.jpg" {
		b.Fatalf("the plain loop finds %q, want 6 values", got)
	}
	if got := ours(root); !strings.Contains(string(got), `"price":1299.00`) {
		b.Fatalf("package fields finds %s, want the price 1299.00", got)
	}
	run := func(name string, work func()) {
		b.Run(name, func(b *testing.B) {
			began := processorTime()
			for b.Loop() {
				work()
			}
			b.ReportMetric(float64((processorTime()-began).Microseconds())/float64(b.N), "cpu-µs/page")
		})
	}
	run("step=parse", func() { parse() })
	run("step=select/by=goquery", func() { loop(root) })
	run("step=select/by=fields", func() { ours(root) })
	run("step=both/by=goquery", func() { loop(parse()) })
	run("step=both/by=fields", func() { ours(parse()) })
}

// processorTime returns the processor time that this process has taken.
func processorTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // does not fail with these arguments
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
