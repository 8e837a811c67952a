#!/usr/bin/env bash
# fuzz.sh: run each fuzz target of the main module for a while.
#   fuzz.sh [TIME [FOLDER]]      5s and the whole module unless said otherwise
# As many targets run at once as there are cores, each on one. The output of a
# target is printed only when it fails; go test keeps the input that failed in
# its testdata/fuzz, and the next plain go test runs it.
set -euo pipefail
export FUZZTIME=${1:-5s}

# run prints one line, and what the target said when it fails. On a busy machine
# go test can miss the end of its own fuzztime, which it calls a failure: without
# an input that fails, that is none, and the target runs again.
run() {
  local file=${1%%:*} name=${1##*:} log
  log=$(mktemp)
  for _ in 1 2 3; do
    if go test -run='^$' -fuzz="^$name\$" -fuzztime="$FUZZTIME" -parallel=1 "$(dirname "$file")" >"$log" 2>&1; then
      echo "ok   $(dirname "$file") $name"
      rm "$log"
      return 0
    fi
    grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input' "$log" || break
  done
  echo "FAIL $(dirname "$file") $name"
  cat "$log"
  rm "$log"
  return 1
}
export -f run

{ grep -rEo --include='*_test.go' --exclude-dir=peers '^func Fuzz[A-Za-z0-9_]+' "${2:-.}" || true; } |
  sed 's/:func /:/; /^\.\//!s/^/.\//' | sort |
  xargs -r -P "$(nproc)" -I{} bash -c 'run {}'
