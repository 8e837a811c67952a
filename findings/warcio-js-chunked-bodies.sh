#!/usr/bin/env bash
# warcio 2.4.11 (npm): the body of a record with chunked transfer coding is read wrongly in two
# valid forms. Trailers (RFC 9112, 7.1.2) become a part of the body, and a coding spelt
# "Chunked" is not undone, although names of codings have no case (RFC 9112, 7).
#
# A crawler that keeps answers as they were sent writes such records.
#
# Seen:
#   chunked: "hi"
#   chunked with a trailer: "hiExpires: 0\r\n\r\n"
#   Chunked: "2\r\nhi\r\n0\r\n\r\n"
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
cd "$dir"
cat >main.mjs <<'JS'
import { WARCParser } from 'warcio'
async function show(name, coding, body) {
  const answer = `HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: ${coding}\r\n\r\n${body}`
  const record = [
    'WARC/1.1',
    'WARC-Type: response',
    'WARC-Record-ID: <urn:uuid:11111111-2222-4333-8444-555555555555>',
    'WARC-Date: 2026-01-02T03:04:05Z',
    'WARC-Target-URI: http://h.test/',
    'Content-Type: application/http; msgtype=response',
    `Content-Length: ${answer.length}`,
    '',
    answer + '\r\n\r\n'
  ].join('\r\n')
  for await (const r of new WARCParser([Buffer.from(record)])) {
    console.log(`${name}: ${JSON.stringify(await r.contentText())}`)
  }
}
await show('chunked', 'chunked', '2\r\nhi\r\n0\r\n\r\n')
await show('chunked with a trailer', 'chunked', '2\r\nhi\r\n0\r\nExpires: 0\r\n\r\n')
await show('Chunked', 'Chunked', '2\r\nhi\r\n0\r\n\r\n')
JS
npm install --silent --no-save warcio@2.4.11 >/dev/null 2>&1
seen=$(node main.mjs)
echo "$seen"
diff <(echo "$seen") - <<'OUT'
chunked: "hi"
chunked with a trailer: "hiExpires: 0\r\n\r\n"
Chunked: "2\r\nhi\r\n0\r\n\r\n"
OUT
