#!/usr/bin/env bash
# github.com/gocolly/colly/v2 v2.3.0: a page is requested once for each fragment with which
# other pages link to it, although revisits are off (AllowURLRevisit is false).
#
# The key of a visited page is made of the URL with its fragment, which is never sent. A
# table of contents with 50 entries makes 50 equal requests.
#
# Seen: asked: / /page /page
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
	asked := []string{"asked:"}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		asked = append(asked, r.RequestURI)
		if r.URL.Path == "/" {
			fmt.Fprint(w, `<a href="/page#one">one</a> <a href="/page#two">two</a> <a href="/page#two">two again</a>`)
		}
	}))
	defer s.Close()
	c := colly.NewCollector()
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
[[ $seen == 'asked: / /page /page' ]]
