#!/usr/bin/env bash
# packages.sh: print the packages whose tests run with or without the race detector.
#   packages.sh race     those that start goroutines, in their code or their tests
#   packages.sh plain    all others
# The packages of bench and what tests use run without it, and so do those whose tests run
# the program in processes of its own, or measure. The Makefile names the latter, and archtest.
set -euo pipefail
cd "$(dirname "$0")/.."
go list -f '{{.ImportPath}} {{.Dir}}' ./... | grep -vE '/(bench/(proofs|fpr|memory|speed|dedup)|cmd/crawler|internal/archtest) ' | while read -r package dir; do
  kind=plain
  if [[ $package != */crawler/@(bench|internal/bench|internal/test)* ]] && grep -qE '(^|\s)go (func\(|[[:alnum:]_.]+\()|\.Go\(' "$dir"/*.go; then kind=race; fi
  [[ $kind != "$1" ]] || echo "$package"
done
