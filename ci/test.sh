#!/bin/bash
# make test: every test, on SQLite and on every engine that is here, in the short form of go test -short. Needs only Go,
# and fetches nothing. Ends with how many tests passed, failed and were skipped, and why.
#   test.sh ARGUMENT...   the same for go test with other arguments than -short ./...
# An engine comes from DBQ_TEST_<TARGET>_DSN, else from server programs found here (started on loopback with data in a
# temporary directory, and stopped at the end), else from a Docker image found here
# (DBQ_TEST_CONTAINERS=pull fetches it). GOTESTFLAGS has more arguments for go test.
# DBQ_TEST_REQUIRE=postgres15,postgres18 makes a skip of these a failure.
# DBQ_TEST_START=no starts no servers. DBQ_TEST_EVENTS=FILE keeps what go test -json prints.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/engines/lib.sh

work=$(mktemp -d "${TMPDIR:-/tmp}/dbq-test.XXXXXX")
export DBQ_ENGINES_STATE=$work/servers
chmod 711 "$work" # a server run by root's order as another user must reach its data
note='' tests='' containers=$(test_containers)

# shellcheck disable=SC2317  # called by the trap
cleanup() {
  trap '' INT TERM
  [ -z "$tests" ] || kill -TERM -- "-$tests" 2>/dev/null || true
  ci/engines/native.sh stop || true
  remove_containers "$containers"
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [ "${DBQ_TEST_START:-yes}" != no ]; then
  started=$(ci/engines/native.sh start -found) || note="not every engine started (see above)"
  eval "$started"
fi
use_local_images
go build -o "$work/summarize" ./ci/summary

# The longest package comes first: go test begins them in this order, as many at once as there are cores. examples/acme
# repeats the laws on SQLite.
# shellcheck disable=SC2046  # a list of packages
[ $# -gt 0 ] || set -- -short ./conformance/engines $(go list ./... | grep -v '/examples/acme$')
# A process group of its own (set -m), so that a stop reaches the test programs and not only go.
code=0
set -m
# shellcheck disable=SC2086  # GOTESTFLAGS is a list of words
(go test -json -timeout 48m ${GOTESTFLAGS:-} "$@" 2>&1 </dev/null |
  tee "${DBQ_TEST_EVENTS:-/dev/null}" | "$work/summarize" ${note:+"$note"}) &
tests=$!
set +m
wait "$tests" || code=$?
tests=''
exit "$code"
