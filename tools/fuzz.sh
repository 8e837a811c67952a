#!/usr/bin/env bash
# fuzz.sh: run each fuzz target of the main module for a while.
#   fuzz.sh [TIME [FOLDER]]      5s and the whole module unless said otherwise
# As many targets run at once as there are cores, each on one. The output of a
# target is printed only when it fails; go test keeps the input that failed in
# its testdata/fuzz, and the next plain go test runs it.
set -euo pipefail
export FUZZTIME=${1:-5s}

# run prints nothing, or what the target said.
run() {
  local file=${1%%:*} name=${1##*:} log
  log=$(mktemp)
  if go test -run='^$' -fuzz="^$name\$" -fuzztime="$FUZZTIME" -parallel=1 "$(dirname "$file")" >"$log" 2>&1; then
    echo "ok   $(dirname "$file") $name"
    rm "$log"
  else
    echo "FAIL $(dirname "$file") $name"
    cat "$log"
    rm "$log"
    return 1
  fi
}
export -f run

{ grep -rEo --include='*_test.go' --exclude-dir=peers '^func Fuzz[A-Za-z0-9_]+' "${2:-.}" || true; } |
  sed 's/:func /:/; /^\.\//!s/^/.\//' | sort |
  xargs -r -P "$(nproc)" -I{} bash -c 'run {}'
