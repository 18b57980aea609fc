#!/bin/bash
# make test-all: everything, within 90 minutes, on a Debian machine as root: it installs what it needs, and stops what
# it started. It fails, and never skips, when an engine of ci/targets.sh cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/targets.sh
. ci/steps.sh

fuzzing=''
# shellcheck disable=SC2317  # called by the trap
end() {
  [ -z "$fuzzing" ] || kill -TERM -- "-$fuzzing" 2>/dev/null || true # its group, which may have ended
  ci/engines/dockerd.sh stop || true # only if make engines started it
  cleanup
}
trap end EXIT

# shellcheck disable=SC2086  # a list of words
need "programs" 600 ci/programs.sh chromium=chromium $CI_PROGRAMS
need "engines" 1500 make engines
# shellcheck disable=SC2086  # lists of words
start $CI_NEWEST $CI_OLDEST pgbouncer
export DBQ_TEST_START=no

step "check" 1200 make check
step "vulnerabilities" 180 make vulnerabilities
# shellcheck disable=SC2016  # the inner shell's
step "other systems" 600 bash -euc 'for os in windows darwin freebsd; do
    GOOS=$os go vet ./cmd/dbq ./conformance/cases ./dialect/sqlite
  done'

# Inputs for the fuzz tests in the time that the other steps leave idle. Where the kernel has autogroups, the niceness
# of a session's processes counts among themselves only, and that of its autogroup beside the servers and the tests.
# shellcheck disable=SC2016  # the inner shell's
setsid timeout 5400 nice -n 19 bash -c '[ ! -w /proc/self/autogroup ] || echo 19 >/proc/self/autogroup
  FUZZ_INPUTS=200000 make fuzz && touch "$0/fuzzed"' "$logs" >"$logs/fuzzing" 2>&1 &
fuzzing=$!

# tests NAME TARGETS ARGUMENT...: go test with these arguments on these servers, of which none may be missing.
tests() {
  local target name=$1 targets=$2 words=()
  for target in $targets; do
    words+=("$(printf '%s\n' "${dsns[@]}" | grep -i "^DBQ_TEST_${target}_DSN=")")
  done
  words+=("DBQ_TEST_REQUIRE=$(commas "$targets")" DBQ_TEST_CONTAINERS=no)
  shift 2
  step "$name" 2700 env "${words[@]}" ci/test.sh -count=1 "$@"
}

# Every test of all packages, and the laws of one engine and strategy, with the race detector. Each law under each
# strategy on each server.
suites='^Test(Conformance|StrictSettings)$'
laws=(-timeout 40m -skip "$CI_POOLER_SKIP" ./conformance/engines -run)
tests "tests" "$CI_NEWEST" "${CI_RACE[@]}" -skip "$suites" ./...
# With the race detector, the laws compute more than they wait: more at once take longer in all, and each takes so long
# that some reach their limit of time.
tests "laws, race" postgres18 "${CI_RACE[@]}" -parallel 5 "${laws[@]}" '^TestConformance$/^postgres18$/^skip-locked$'
tests "laws" "$CI_NEWEST" "${laws[@]}" "$suites/^(sqlite|${CI_NEWEST// /|})$"
tests "laws, oldest" "$CI_OLDEST pgbouncer" "${laws[@]}" "$suites/^(${CI_OLDEST// /|}|pgbouncer)$"

# Most laws again, with unusual values of every variable that a session inherits. It changes the servers' settings.
DBQ_TEST_ODD=yes tests "odd settings" "$CI_NEWEST" -timeout 20m ./conformance/engines -run '^TestOddSettings$'

# Some of the laws through testcontainers-go, as on a machine with Docker and no server: this tests the containers.
step "containers" 900 env DBQ_TEST_CONTAINERS=only DBQ_TEST_REQUIRE="$(commas "$CI_CONTAINERS")" \
  ci/test.sh -count=1 ./conformance/engines \
  -run "TestConformance/^(${CI_CONTAINERS// /|})\$/skip-locked/(Schema|Enqueue|Checkout|Worker)"

# Three nodes each, killed while work goes on; and servers that are restarted and killed under load.
for cluster in $CI_CLUSTERS; do
  step "cluster $cluster" 420 ci/clusters.sh "$cluster"
done
step "restarts" 480 make restarts

step "browser" 700 env "${dsns[@]}" DBQ_TEST_REQUIRE=postgres18 make browser
step "bench" 480 env "${dsns[@]}" make bench-smoke
step "bench guard" 300 env "${dsns[@]}" make bench-guard BENCHFLAGS=-every
step "demo" 300 ci/demo.sh # the README's first command
# shellcheck disable=SC2016  # the inner shell's
step "fuzz" 2400 bash -c 'tail -n +1 -f --pid="$0" "$1/fuzzing"; test -e "$1/fuzzed"' "$fuzzing" "$logs"
finish
