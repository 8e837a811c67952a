#!/usr/bin/env bash
# proof.sh: run the proofs of docs/proofs.md at full size, and write their results there.
# Each section of the page is a proof: its claim, and the commands that check it. The script
# prints what the tests log. If the regular expression ONLY is set, only proofs with a
# matching title run. The script needs bin/crawler and jq.
set -euo pipefail
cd "$(dirname "$0")/.."
export CRAWLER_TEST_SERVERS=require CRAWLER_BIN=$PWD/bin/crawler
page=docs/proofs.md

tools/deps.sh proof || echo "proof: without npm, warcio does not read the WARC files: that test is skipped" >&2

# The proofs measure milliseconds, so they run at a higher priority than other programs if
# that is permitted.
renice -n -15 -p $$ >/dev/null 2>&1 || true

commit=$(git describe --tags --always --dirty)
processor=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1)
machine="$(getconf _NPROCESSORS_ONLN) × ${processor:-$(uname -m)}"
log=$(mktemp)
trap 'rm "$log"' EXIT

# go runs the go command, and adds what its tests do to the log, as lines of JSON.
go() {
  local at args=("$@")
  for at in "${!args[@]}"; do [[ ${args[at]} == test ]] && break; done
  args=("${args[@]:0:at+1}" -json "${args[@]:at+1}")
  command go "${args[@]}" >>"$log" || jq -nc --arg command "go ${args[*]}" '{Action: "fail", Test: $command, command: true}' >>"$log"
}

# commands prints the commands of the proof with the title $1.
commands() {
  TITLE="## $1" awk '$0 == ENVIRON["TITLE"] { on = 1; next } /^## / { on = 0 } /^```/ { code = $0 == "```sh"; next } on && code' "$page"
}

# verdict prints the result of the tests in the log. A command that fails although none of its
# tests fails counts as one that failed.
verdict() {
  jq -rs --argjson seconds "$1" '
    [.[] | select(.Test and (.Action == "pass" or .Action == "fail"))]
    | [.[] | select(.command or (.Test | contains("/") | not))] as $top
    | [$top[] | select(.Action == "fail")] | (map(select(.command | not)) | if . == [] then empty else . end) // .
    | (map(.Test) | unique) as $failed
    | if $failed != [] then "**FAIL**: " + ($failed | join(", "))
      elif $top == [] then "**FAIL**: no test ran"
      else "pass, \($top | length) test\(if ($top | length) == 1 then "" else "s" end) in \($seconds) s" end' "$log"
}

failed=0
while read -r title <&3; do
  [[ $title =~ ${ONLY:-.} ]] || continue
  echo "==> $title"
  : >"$log"
  began=$SECONDS
  eval "$(commands "$title")"
  result=$(verdict $((SECONDS - began)))
  jq -r 'select(.Action == "output") | .Output | rtrimstr("\n") | select(test("^ *([a-z_]+\\.go:[0-9]+:|=== ATTR|panic:|--- FAIL)"))' "$log"
  echo "$result"
  [[ $result == pass* ]] || failed=1
  TITLE=$title ROW="$commit | $machine | $result |" awk -F ' [|] ' \
    'index($0, "| " ENVIRON["TITLE"] " | ") == 1 { print $1 " | " $2 " | " ENVIRON["ROW"]; next } { print }' "$page" >"$page.new"
  mv "$page.new" "$page"
done 3< <(sed -n 's/^## //p' "$page")
exit "$failed"
