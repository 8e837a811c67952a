#!/usr/bin/env bash
# A robots.txt with "Disallow: /%7Ejoe" does not forbid /~joe, and "Disallow: /~joe" does not
# forbid /%7Ejoe, for three widely used parsers: github.com/jimsmart/grobotstxt v1.0.3 (the
# port of Google's parser to Go), github.com/temoto/robotstxt v1.1.2, and robots-parser 3.0.1
# (npm).
#
# RFC 9309, 2.2.2: before the comparison, percent-encoded octets of unreserved characters are
# decoded in both. The tilde is unreserved (RFC 3986, 2.3), and the RFC has such a row in its
# table (/foo/bar/%62%61%7A).
#
# Seen:
#   grobotstxt    /%7Ejoe on /~joe: allowed, /~joe on /%7Ejoe: allowed
#   temoto        /%7Ejoe on /~joe: allowed, /~joe on /%7Ejoe: allowed
#   robots-parser /%7Ejoe on /~joe: allowed, /~joe on /%7Ejoe: allowed
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

	"github.com/jimsmart/grobotstxt"
	"github.com/temoto/robotstxt"
)

func word(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "forbidden"
}

func show(name string, allowed func(rules, path string) bool) {
	escaped := allowed("User-agent: *\nDisallow: /%7Ejoe\n", "/~joe")
	plain := allowed("User-agent: *\nDisallow: /~joe\n", "/%7Ejoe")
	fmt.Printf("%-13s /%%7Ejoe on /~joe: %s, /~joe on /%%7Ejoe: %s\n", name, word(escaped), word(plain))
}

func main() {
	show("grobotstxt", func(rules, path string) bool {
		return grobotstxt.AgentAllowed(rules, "crawler", "http://h.test"+path)
	})
	show("temoto", func(rules, path string) bool {
		data, err := robotstxt.FromString(rules)
		if err != nil {
			panic(err)
		}
		return data.TestAgent(path, "crawler")
	})
}
GO
cat >main.cjs <<'JS'
const robots = require('robots-parser')
const word = (rules, path) =>
  robots('http://h.test/robots.txt', rules).isAllowed('http://h.test' + path, 'crawler') ? 'allowed' : 'forbidden'
const escaped = word('User-agent: *\nDisallow: /%7Ejoe\n', '/~joe')
const plain = word('User-agent: *\nDisallow: /~joe\n', '/%7Ejoe')
console.log(`robots-parser /%7Ejoe on /~joe: ${escaped}, /~joe on /%7Ejoe: ${plain}`)
JS
go get github.com/jimsmart/grobotstxt@v1.0.3 github.com/temoto/robotstxt@v1.1.2 2>/dev/null
go mod tidy 2>/dev/null
npm install --silent --no-save robots-parser@3.0.1 >/dev/null 2>&1
seen=$(go run . && node main.cjs)
echo "$seen"
[[ $(grep -c 'on /~joe: allowed, /~joe on /%7Ejoe: allowed$' <<<"$seen") == 3 ]]
