#!/bin/bash
# Tests the Oracle dialect on a server, in the order in which it is likely to fail. Stops at the first step that fails,
# and keeps each step's output for a report.
#
#   DBQ_TEST_ORACLE_DSN='oracle://app:password@host:1521/service' ci/oracle-first-contact.sh [DIRECTORY]
#
# The user needs CREATE SESSION, CREATE TABLE, CREATE VIEW and a quota, in a database without other users. DIRECTORY
# gets the outputs, by default /tmp/dbq-oracle-first-contact. To start a server:
#   docker run -d -p 1521:1521 -e ORACLE_PASSWORD=secret -e APP_USER=dbq -e APP_USER_PASSWORD=secret \
#     gvenzl/oracle-free:23-slim
# and for the strategy advisory, as SYSTEM: GRANT EXECUTE ON SYS.DBMS_LOCK TO dbq
set -uo pipefail
[ -n "${DBQ_TEST_ORACLE_DSN:-}" ] || { sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2; }
out=$(realpath -m "${1:-${TMPDIR:-/tmp}/dbq-oracle-first-contact}") || exit 1
mkdir -p "$out" || exit 1
cd "$(dirname "$0")/.." || exit 1
number=0

# step WHAT COMMAND...: one line for each, the output in a file.
step() {
  local what=$1 file
  shift
  number=$((number + 1))
  file=$(printf '%s/%02d.txt' "$out" "$number")
  if timeout 900 "$@" >"$file" 2>&1 </dev/null; then
    echo "ok    $number $what"
    return 0
  fi
  echo "FAIL  $number $what: see $file"
  tail -n 30 "$file" | sed 's/^/      /'
  exit 1
}

dbq=$out/dbq
export DBQ_DSN=$DBQ_TEST_ORACLE_DSN # not on a command line, where everybody reads it
laws() { # laws STRATEGY PATTERN
  local pattern="TestConformance/oracle/$1/$2"
  DBQ_TEST_REQUIRE=oracle DBQ_TEST_CONTAINERS=no \
    go test -count=1 -v -timeout 14m -run "^${pattern//\//\$/^}\$" ./conformance/engines
}
export -f laws

step "the program builds" go build -o "$dbq" ./cmd/dbq
step "without a server: texts, binds, DSNs, error numbers" go test -count=1 ./dialect/oracle
# shellcheck disable=SC2016  # the inner shell's
step "it logs on, and the server is one that dbq supports (Probe)" \
  bash -c '"$1" migrate --print >/dev/null && "$1" migrate' dbq "$dbq"
step "migrating again finds everything there" "$dbq" migrate
step "the checks of the schema" bash -c 'laws ".*" "Schema/.*"'
step "an enqueue: the block with an INSERT for each task" bash -c 'laws ".*" "Enqueue/.*"'
step "values come back as they were sent: empty and null, bytes, texts, times, LOBs" bash -c 'laws ".*" "RoundTrip/.*"'
step "one state after the other: the table of states" bash -c 'laws ".*" "Transitions/.*"'
for strategy in skip-locked cas update advisory; do
  # shellcheck disable=SC2016  # the inner shell's
  step "checkout by $strategy (advisory is skipped without a grant on DBMS_LOCK)" \
    bash -c 'laws "$1" "(Checkout|Lease)/.*"' laws "$strategy"
done
step "transactions of the caller" bash -c 'laws ".*" "(EnqueueTx|CompleteTx)/.*"'
step "several workers at once" bash -c 'laws ".*" "Contention/.*"'
step "lost connections, answers that do not come, contexts that end: go-ora's part" bash -c 'laws ".*" "Faults/.*"'
step "the rest of the suite, as a report" \
  "$dbq" conform --report "text=$out/report.txt" --report "json=$out/report.json"
echo "all passed; to add the counts to docs/engines.md: go run ./internal/gen $out/report.json"
