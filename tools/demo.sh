#!/usr/bin/env bash
# demo.sh: crawl 100 pages of a small web made for tests, with the command line that the
# test web prints. It needs bin/crawler, and keeps the records in demo.crawl.
set -euo pipefail
cd "$(dirname "$0")/.."

echo '$ crawler testweb --seed 1 --hosts 5 --pages 100 --listen 127.0.0.1:0'
exec {web}< <(exec bin/crawler testweb --seed 1 --hosts 5 --pages 100 --listen 127.0.0.1:0)
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT

line=
while [[ $line != *"crawler crawl "* ]]; do
  IFS= read -r -t 30 -u "$web" line || { echo "demo: the test web printed no crawl line" >&2; exit 1; }
done
crawl="crawl ${line#*crawler crawl }"
crawl=${crawl/testweb.crawl/demo.crawl}

rm -rf demo.crawl
echo "\$ crawler $crawl"
eval "bin/crawler $crawl" # the line quotes its patterns for a shell

echo
echo '$ head -1 demo.crawl/pages.jsonl'
head -1 demo.crawl/pages.jsonl
echo
echo "A real site: bin/crawler crawl --max-pages 20 https://go.dev/"
