#!/usr/bin/env bash
# fuzz.sh: run each fuzz target of the main module for a while.
#   fuzz.sh [TIME [FOLDER]]      the defaults are 5s and the whole module
# The number of targets that run at once is the number of cores. Each target uses one
# core. The output of a target is printed only if it fails. go test stores a failing input
# in the folder testdata/fuzz of the package, and the next plain go test runs it.
set -euo pipefail
export FUZZTIME=${1:-5s}

# run fuzzes one target and prints one line, and the output of the target if it fails.
# On a busy machine go test can overrun its fuzztime and report that as a failure. If
# there is no failing input, run starts the target again, up to three runs in all.
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

{ grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' "${2:-.}" || true; } |
  sed 's/:func /:/; /^\.\//!s/^/.\//' | sort |
  xargs -r -P "$(nproc)" -I{} bash -c 'run {}'
