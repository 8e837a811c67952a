#!/usr/bin/env bash
# proof.sh: run at full size every test that has one (-proof) and write the
# results, with what is needed to run them again, to docs/proofs.md.
set -euo pipefail
cd "$(dirname "$0")/.."
export CRAWLER_TEST_SERVERS=require CRAWLER_BIN=$PWD/bin/crawler

# A package has a full size when its tests declare the flag.
mapfile -t packages < <(grep -rlE --include='*_test.go' 'Bool\("proof"' . | xargs -r dirname | sort -u)
if ((${#packages[@]} == 0)); then
  echo "proof: no test declares -proof" >&2
  exit 1
fi

log=$(mktemp)
trap 'rm "$log"' EXIT
failed=0
for package in "${packages[@]}"; do
  echo "==> $package"
  # pipefail: the pipe fails when go test does.
  if ! go test -v -count=1 -timeout 0 "$package" -args -proof 2>&1 |
    tee -a "$log" | { grep -E '^(ok|FAIL|---)' || true; }; then
    failed=1
  fi
done

{
  echo "# Proofs at full size"
  echo
  echo "Made by \`make proof\`; every line with a seed can be run again with \`-seed\`."
  echo
  echo "* commit: $(git describe --tags --always --dirty)"
  echo "* Go: $(go version | cut -d' ' -f3-)"
  echo "* machine: $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(free -h | awk '/^Mem/ {print $2}') memory, $(uname -s)"
  echo "* date: $(date -u +%F)"
  echo
  echo '```'
  # Top-level results, what they logged (figures, seeds), and the packages.
  grep -E '^(--- |ok|FAIL)|^    [a-z_0-9]+_test\.go:[0-9]+: |^    [a-z_0-9]+\.go:[0-9]+: ' "$log" || true
  echo '```'
} >docs/proofs.md
echo "written: docs/proofs.md"
exit "$failed"
