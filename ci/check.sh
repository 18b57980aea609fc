#!/bin/bash
# make check: everything but the tests. One line for each check, all of them run, exit 1 when one failed.
set -euo pipefail
cd "$(dirname "$0")/.."

output=$(mktemp)
trap 'rm -f "$output"' EXIT
failed=0

# check NAME CURE COMMAND...: the output is shown only when it fails. 99 means skipped, with the reason as output.
check() {
  local name=$1 cure=$2 code=0
  shift 2
  "$@" >"$output" 2>&1 </dev/null || code=$?
  case $code in
  0) printf 'ok       %s\n' "$name" ;;
  99) printf 'skipped  %s: %s\n' "$name" "$(tail -n 1 "$output")" ;;
  *)
    printf 'FAIL     %s: %s\n' "$name" "$cure"
    tail -n 40 "$output" | sed 's/^/         /'
    failed=$((failed + 1))
    ;;
  esac
}

# modules COMMAND...: in the module here, and in the folders that are modules of their own.
modules() {
  local mod code=0
  for mod in ./go.mod bench/go.mod console/browser/go.mod; do
    [ ! -e "$mod" ] || (cd "$(dirname "$mod")" && "$@") || code=1
  done
  return "$code"
}

formatted() {
  local files
  files=$(gofmt -l .)
  echo "$files"
  [ -z "$files" ]
}

# generated: go generate must change nothing, compared by content since the checkout may be dirty.
generated() {
  local before
  before=$(contents)
  go generate ./...
  diff <(echo "$before") <(contents)
}
contents() { git ls-files -z --cached --others --exclude-standard | xargs -0 sha256sum 2>/dev/null; }

scripts() {
  command -v shellcheck >/dev/null || { echo "shellcheck is not installed"; return 99; }
  shellcheck -x -P SCRIPTDIR ci/*.sh ci/engines/*.sh ci/engines/entrypoints/*.sh .ci/run
}

check "gofmt" "gofmt -w the files below" formatted
check "go mod tidy" "go mod tidy, here, in bench or in console/browser" modules go mod tidy -diff
check "go vet" "see below" modules go vet ./...
check "staticcheck (staticcheck.conf)" "see below" modules go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
check "rules: imports, sizes, go.sum" "see below; the rules are in ci/rules" go test -count=1 ./ci/rules
check "generated files" "go generate ./... and commit what it wrote" generated
check "scripts" "see below" scripts

[ "$failed" = 0 ] || { echo "$failed failed"; exit 1; }
