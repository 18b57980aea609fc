#!/bin/bash
# make test: every test, on SQLite and on every engine that is here. All laws run under the default strategy, and those
# of the groups that depend on the strategy under each. Needs only Go, and fetches nothing.
# make test-all (test.sh all): all laws under every strategy, the long tests, and the race detector.
# An engine comes from DBQ_TEST_<TARGET>_DSN, else from server programs found here (started on loopback with data in a
# temporary directory, and stopped at the end), else from a Docker image found here
# (DBQ_TEST_CONTAINERS=pull fetches it). GOTESTFLAGS has more arguments for go test.
# DBQ_TEST_REQUIRE=postgres15,postgres18 makes a skip of these a failure.
# DBQ_TEST_START=no starts no servers.
set -euo pipefail
case ${1:-} in '' | all) ;; *) sed -n '2,9s/^# //p' "$0"; exit 2 ;; esac
cd "$(dirname "$0")/.."
. ci/engines/lib.sh

work=$(mktemp -d "${TMPDIR:-/tmp}/dbq-test.XXXXXX")
export DBQ_ENGINES_STATE=$work/servers-${work##*.}
export DBQ_TEST_SUMMARY=$work/summary
: >"$DBQ_TEST_SUMMARY"
chmod 711 "$work" # a server run by root's order as another user must reach its data
notes='' tests='' containers=$(test_containers)

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

if [ "${DBQ_TEST_START:-yes}" != no ]; then # .ci/run has started those it wants
  started=$(ci/engines/native.sh start -found) || notes="not every engine started (see above)"$'\n'
  eval "$started"
fi
use_local_images

how=(-short)
if [ "${1:-}" = all ]; then
  # The race detector needs cgo and a C compiler, which somebody with only Go may not have.
  # SQLite is C translated to Go (modernc.org): instrumented it is 30 times slower, and none of dbq's code is in it.
  how=(-race '-gcflags=modernc.org/...=-race=false -d=checkptr=0')
  if [ "$(go env CGO_ENABLED)" != 1 ] || ! command -v "$(go env CC | awk '{print $1}')" >/dev/null; then
    [ -z "${CI:-}" ] || { echo "test: the race detector needs a C compiler" >&2; exit 1; }
    how=()
    notes="${notes}without the race detector: it needs a C compiler"$'\n'
  fi
fi

# A process group of its own (set -m), so that a stop reaches the test programs and not only go.
code=0
set -m
# go test begins the packages in this order, as many at once as there are cores: the longest comes first.
# shellcheck disable=SC2086  # GOTESTFLAGS is a list of words
go test "${how[@]}" -timeout 48m ${GOTESTFLAGS:-} ./conformance/engines ./... </dev/null &
tests=$!
set +m
wait "$tests" || code=$?
tests=''

echo
echo "engines:"
awk -F '\t' 'NF && !seen[$0]++ { printf "  %-8s %-14s %s\n", $2, $1, $3 }' "$DBQ_TEST_SUMMARY" | sort
[ -s "$DBQ_TEST_SUMMARY" ] || echo "  none reported: conformance/engines did not run"
[ -z "$notes" ] || printf 'note: %s' "$notes"
! grep -q "	skipped	" "$DBQ_TEST_SUMMARY" ||
  echo "To run more: set DBQ_TEST_<TARGET>_DSN, or DBQ_TEST_CONTAINERS=pull with Docker, or on Debian as root run" \
    "make engines (ci/README.md)."
exit "$code"
