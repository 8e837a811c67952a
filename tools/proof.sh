#!/usr/bin/env bash
# proof.sh: run the proofs of all packages at full size and write docs/proofs.md.
# bench/proofs/ledger lists the proofs. If the regular expression ONLY is set, only proofs
# with a matching title run. The script needs bin/crawler.
set -euo pipefail
cd "$(dirname "$0")/.."
export CRAWLER_TEST_SERVERS=require CRAWLER_BIN=$PWD/bin/crawler

tools/deps.sh proof || echo "proof: without npm, warcio does not read the WARC files: that test is skipped" >&2

# The proofs measure milliseconds, so they run at a higher priority than other programs if
# that is permitted.
renice -n -15 -p $$ >/dev/null 2>&1 || true

go run ./bench/proofs/ledger -only "${ONLY:-}" docs/proofs.md
echo "written: docs/proofs.md"
