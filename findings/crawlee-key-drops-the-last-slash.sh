#!/usr/bin/env bash
# @apify/utilities 2.35.11 (npm), which crawlee 3 uses: its normalizeUrl makes the uniqueKey by
# which a request queue knows a URL again. /dir and /dir/ have one key, so one of the two is
# never requested. URLs that differ in the order of their parameters have one key, too, and
# parameters that begin with utm_ do not count.
#
# For a server, /dir and /dir/ are two resources (RFC 3986, 6.2.4), and relative links of the
# two resolve differently. Often one of them redirects to the other: then the target of the
# redirect is the URL that counts as known.
#
# Seen:
#   http://h.test/dir => http://h.test/dir
#   http://h.test/dir/ => http://h.test/dir
#   http://h.test/?b=2&a=1 => http://h.test?a=1&b=2
#   http://h.test/?utm_id=7&q=1 => http://h.test?q=1
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
cd "$dir"
cat >main.cjs <<'JS'
const { normalizeUrl } = require('@apify/utilities')
for (const url of ['dir', 'dir/', '?b=2&a=1', '?utm_id=7&q=1'].map((s) => 'http://h.test/' + s)) {
  console.log(`${url} => ${normalizeUrl(url)}`)
}
JS
npm install --silent --no-save @apify/utilities@2.35.11 >/dev/null 2>&1
seen=$(node main.cjs)
echo "$seen"
diff <(echo "$seen") - <<'OUT'
http://h.test/dir => http://h.test/dir
http://h.test/dir/ => http://h.test/dir
http://h.test/?b=2&a=1 => http://h.test?a=1&b=2
http://h.test/?utm_id=7&q=1 => http://h.test?q=1
OUT
