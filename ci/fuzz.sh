#!/bin/bash
# make fuzz: every fuzz test of the module for some seconds each (FUZZ_SECONDS, 8 by default). A test that fails leaves
# its input in testdata/fuzz of its package; commit it with the fix.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${FUZZ_SECONDS:-8}
found=$(grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed 's/:[0-9]*:func /:/' | sort)
[ -n "$found" ] || { echo "no fuzz test is found"; exit 1; }

failed=0
while IFS=: read -r file name; do
  printf '%s, %s s: ' "$name" "$seconds"
  if output=$(go test -run '^$' -fuzz "^$name\$" -fuzztime "${seconds}s" "$(dirname "$file")" 2>&1 </dev/null); then
    inputs=$(sed -n 's/^fuzz: .* execs: \([0-9]*\) .*/\1/p' <<<"$output" | tail -n 1)
    echo "${inputs:-no} inputs"
  else
    printf 'FAILED\n%s\n' "$output"
    failed=$((failed + 1))
  fi
done <<<"$found"
[ "$failed" = 0 ] || { echo "$failed failed"; exit 1; }
