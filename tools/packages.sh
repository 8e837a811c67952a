#!/usr/bin/env bash
# packages.sh: print packages whose tests run together.
#   packages.sh race     those that start goroutines, in their code or their tests
#   packages.sh plain    all others of the product
#   packages.sh tools    those that measure, and those that tests use
#   packages.sh bench    those of the module bench, as paths in it
# The last two print nothing if no file of theirs differs from the commit before on the main
# line; a fresh clone of one commit does not know it, so there they print all. What runs the
# program in processes of its own, or is slow, is in no list: the Makefile names it.
set -euo pipefail
cd "$(dirname "$0")/.."

# changed reports whether a file in the folders differs from the commit before: the last one
# that is also on the main line, or the first parent of a commit that is on it.
changed() {
  local base
  base=$(git merge-base HEAD origin/main 2>/dev/null) || return 0
  [[ $base != "$(git rev-parse HEAD)" ]] || base=HEAD~1
  ! git diff --quiet "$base" -- "$@" 2>/dev/null
}

list() { go list -f '{{.ImportPath}} {{.Dir}}' "$@"; }

tools=(internal/bench internal/testkit internal/testweb)
case $1 in
  bench)
    ! changed bench || go -C bench list ./... | sed 's,.*/crawler/bench,.,' | grep -vE '^\./(dedup|library|pagedata|proofs|warccheck)$'
    ;;
  tools)
    ! changed "${tools[@]}" || printf './%s/...\n' "${tools[@]}"
    ;;
  *)
    list ./... | grep -vE '/crawler/(internal/(bench|testkit|testweb)(/[a-z/]+)?|internal/archtest|cmd/crawler) ' |
      while read -r package dir; do
        kind=plain
        ! grep -qE '(^|\s)go (func\(|[[:alnum:]_.]+\()|\.Go\(' "$dir"/*.go || kind=race
        [[ $kind != "$1" ]] || echo "$package"
      done
    ;;
esac
