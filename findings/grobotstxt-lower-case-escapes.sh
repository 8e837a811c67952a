#!/usr/bin/env bash
# github.com/jimsmart/grobotstxt v1.0.3: a rule that has an escape with a hex digit in lower
# case (Disallow: /%c3%a4) forbids nothing, neither the URL in the same spelling nor the one in
# upper case. Rules in upper case act as they should.
#
# To make digits upper case, the parser clears a bit of each of both digits, of decimal digits
# too: its Parse hands the rule on with control characters in the place of digits ("3"
# becomes "\x13"). A user of Parse can mend it, because no other input makes such characters
# after a percent sign.
#
# Seen:
#   /%c3%a4 on /%c3%a4: allowed
#   /%c3%a4 on /%C3%A4: allowed
#   /%C3%A4 on /%C3%A4: forbidden
#   Parse has "/%C\x13%A\x14"
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
)

// rules prints the value of each Disallow line.
type rules struct{}

func (rules) HandleRobotsStart()                 {}
func (rules) HandleRobotsEnd()                   {}
func (rules) HandleUserAgent(int, string)        {}
func (rules) HandleAllow(int, string)            {}
func (rules) HandleSitemap(int, string)          {}
func (rules) HandleUnknownAction(int, string, string) {}
func (rules) HandleDisallow(_ int, value string) { fmt.Printf("Parse has %q\n", value) }

func main() {
	for _, c := range [][2]string{{"/%c3%a4", "/%c3%a4"}, {"/%c3%a4", "/%C3%A4"}, {"/%C3%A4", "/%C3%A4"}} {
		word := "forbidden"
		if grobotstxt.AgentAllowed("User-agent: *\nDisallow: "+c[0]+"\n", "crawler", "http://h.test"+c[1]) {
			word = "allowed"
		}
		fmt.Printf("%s on %s: %s\n", c[0], c[1], word)
	}
	grobotstxt.Parse("User-agent: *\nDisallow: /%c3%a4\n", rules{})
}
GO
go get github.com/jimsmart/grobotstxt@v1.0.3 2>/dev/null
go mod tidy 2>/dev/null
seen=$(go run .)
echo "$seen"
diff <(echo "$seen") - <<'OUT'
/%c3%a4 on /%c3%a4: allowed
/%c3%a4 on /%C3%A4: allowed
/%C3%A4 on /%C3%A4: forbidden
Parse has "/%C\x13%A\x14"
OUT
