#!/usr/bin/env bash
# warcio 2.4.11 (npm): a response record of a dns: URL (Content-Type text/dns), which archives
# by Heritrix hold for each host, is read with an empty body. The same bytes in a resource
# record are whole.
#
# The reader takes each record of the type response for HTTP, whatever its Content-Type and
# target are, and the lines of the DNS answer for the head of an HTTP answer.
#
# Seen:
#   response text/dns: ""
#   resource text/dns: "20260102030405\r\nh.test. 1800 IN A 192.0.2.1\r\n"
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
cd "$dir"
cat >main.mjs <<'JS'
import { WARCParser } from 'warcio'
const body = '20260102030405\r\nh.test. 1800 IN A 192.0.2.1\r\n'
for (const type of ['response', 'resource']) {
  const record = [
    'WARC/1.1',
    `WARC-Type: ${type}`,
    'WARC-Record-ID: <urn:uuid:11111111-2222-4333-8444-555555555555>',
    'WARC-Date: 2026-01-02T03:04:05Z',
    'WARC-Target-URI: dns:h.test',
    'Content-Type: text/dns',
    `Content-Length: ${body.length}`,
    '',
    body + '\r\n\r\n'
  ].join('\r\n')
  for await (const r of new WARCParser([Buffer.from(record)])) {
    console.log(`${type} text/dns: ${JSON.stringify(await r.contentText())}`)
  }
}
JS
npm install --silent --no-save warcio@2.4.11 >/dev/null 2>&1
seen=$(node main.mjs)
echo "$seen"
diff <(echo "$seen") - <<'OUT'
response text/dns: ""
resource text/dns: "20260102030405\r\nh.test. 1800 IN A 192.0.2.1\r\n"
OUT
