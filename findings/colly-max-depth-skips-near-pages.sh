#!/usr/bin/env bash
# github.com/gocolly/colly/v2 v2.3.0, MaxDepth(3): a page that is two links away from the
# first page is not fetched, if a longer way to the page before it is met first.
#
# The first page links to /long and /short, /long links to /short, /short links to /leaf.
# So /leaf has depth 3 by the way / -> /short -> /leaf, and MaxDepth(3) permits it. The
# synchronous collector follows each link before it reads the next one of the page, thus it
# meets /short by way of /long, at depth 3, and marks it as visited. When the shorter way
# comes, /short is "already visited", and its link to /leaf stays too deep.
#
# Seen: asked: / /long /short
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -r "$dir"' EXIT
cd "$dir"
cat >go.mod <<'GO'
module finding

go 1.26
GO
cat >main.go <<'GO'
package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/gocolly/colly/v2"
)

func main() {
	links := map[string]string{"/": "/long /short", "/long": "/short", "/short": "/leaf"}
	asked := []string{"asked:"}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		asked = append(asked, r.URL.Path)
		for _, link := range strings.Fields(links[r.URL.Path]) {
			fmt.Fprintf(w, "<a href=%q>link</a>", link)
		}
	}))
	defer s.Close()
	c := colly.NewCollector(colly.MaxDepth(3))
	c.OnHTML("a[href]", func(e *colly.HTMLElement) { _ = e.Request.Visit(e.Attr("href")) })
	if err := c.Visit(s.URL + "/"); err != nil {
		panic(err)
	}
	fmt.Println(strings.Join(asked, " "))
}
GO
go get github.com/gocolly/colly/v2@v2.3.0 2>/dev/null
go mod tidy 2>/dev/null
seen=$(go run .)
echo "$seen"
[[ $seen == 'asked: / /long /short' ]]
