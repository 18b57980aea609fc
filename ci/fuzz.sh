#!/bin/bash
# make fuzz: every fuzz test of the module with some inputs each (FUZZ_INPUTS, 10000 by default). A test that fails
# leaves its input in testdata/fuzz of its package; commit it with the fix. The budget is a number, because a time ends
# some runs with "context deadline exceeded" and no failing input (golang/go#75804).
set -euo pipefail
cd "$(dirname "$0")/.."

inputs=${FUZZ_INPUTS:-10000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
found=$(grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed 's/:[0-9]*:func /:/' | sort)
[ -n "$found" ] || { echo "no fuzz test is found"; exit 1; }

# run_fuzz PACKAGE NAME: the limit is for the inputs alone, since with an empty cache the build takes minutes.
run_fuzz() {
  go test -c -o "$work/test" -fuzz "^$2\$" "$1" &&
    cd "$1" &&
    timeout --foreground $((120 + inputs / 100)) "$work/test" -test.run '^$' -test.fuzz "^$2\$" \
      -test.fuzztime "${inputs}x" -test.fuzzcachedir "$work/corpus"
}

failed=0
while IFS=: read -r file name; do
  package=$(dirname "$file")
  printf '%s in %s: ' "$name" "$package"
  if output=$(run_fuzz "$package" "$name" 2>&1 </dev/null); then
    ran=$(sed -n 's/^fuzz: .* execs: \([0-9]*\) .*/\1/p' <<<"$output" | tail -n 1)
    echo "${ran:-no} inputs"
  else
    printf 'FAILED\n%s\n' "$output"
    failed=$((failed + 1))
  fi
done <<<"$found"
[ "$failed" = 0 ] || { echo "$failed failed"; exit 1; }
