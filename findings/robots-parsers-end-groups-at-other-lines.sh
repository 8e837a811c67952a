#!/usr/bin/env bash
# robots-parser 3.0.1 (npm): a Sitemap or Crawl-delay line between two User-agent lines ends the
# group, so that the first agent loses all its rules. github.com/temoto/robotstxt v1.1.2 does
# so for Crawl-delay only.
#
# RFC 9309, 2.2.1: a group is one or more user-agent lines, followed by one or more rules;
# 2.2.4: other records must not interfere, and a Sitemaps record must not end a group. So /a
# is forbidden to both agents.
#
# Seen:
#   robots-parser Crawl-delay: allowed, Sitemap: allowed
#   temoto        Crawl-delay: allowed, Sitemap: forbidden
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

	"github.com/temoto/robotstxt"
)

func word(line string) string {
	data, err := robotstxt.FromString("User-agent: crawler\n" + line + "\nUser-agent: other\nDisallow: /a\n")
	if err != nil {
		panic(err)
	}
	if data.TestAgent("/a", "crawler") {
		return "allowed"
	}
	return "forbidden"
}

func main() {
	fmt.Printf("temoto        Crawl-delay: %s, Sitemap: %s\n", word("Crawl-delay: 1"), word("Sitemap: http://h.test/s"))
}
GO
cat >main.cjs <<'JS'
const robots = require('robots-parser')
const word = (line) => {
  const text = `User-agent: crawler\n${line}\nUser-agent: other\nDisallow: /a\n`
  return robots('http://h.test/robots.txt', text).isAllowed('http://h.test/a', 'crawler') ? 'allowed' : 'forbidden'
}
console.log(`robots-parser Crawl-delay: ${word('Crawl-delay: 1')}, Sitemap: ${word('Sitemap: http://h.test/s')}`)
JS
go get github.com/temoto/robotstxt@v1.1.2 2>/dev/null
go mod tidy 2>/dev/null
npm install --silent --no-save robots-parser@3.0.1 >/dev/null 2>&1
seen=$(node main.cjs && go run .)
echo "$seen"
diff <(echo "$seen") - <<'OUT'
robots-parser Crawl-delay: allowed, Sitemap: allowed
temoto        Crawl-delay: allowed, Sitemap: forbidden
OUT
