#!/bin/bash
# make test: every test, on SQLite and on every engine that is here: all laws under the default strategy, those of the groups that a
# strategy decides under each. make test-all (test.sh all): all laws under every strategy, the long tests, and the race detector.
# Installs and fetches nothing, needs only Go.
# An engine comes from DBQ_TEST_<TARGET>_DSN, else from server programs found here (started on loopback with
# data in a temporary folder, stopped at the end), else from a Docker image that is here (DBQ_TEST_CONTAINERS=pull fetches images).
# Arguments for go test: GOTESTFLAGS. DBQ_TEST_REQUIRE=postgres15,postgres18 makes a skip of these a failure. DBQ_TEST_START=no
# starts no servers.
set -euo pipefail
case ${1:-} in '' | all) ;; *) sed -n '2,9s/^# //p' "$0"; exit 2 ;; esac
cd "$(dirname "$0")/.."
. ci/targets.sh
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

start_servers() {
  local target other='' variable
  for target in $(ci/engines/native.sh list | awk '{print $1}'); do
    variable=DBQ_TEST_$(echo "$target" | tr '[:lower:]' '[:upper:]')_DSN
    case " $TEST_TARGETS " in
    *" $target "*) [ -n "${!variable:-}" ] || start_server "$target" ;;
    *) case $target in postgres*) other=$target ;; esac ;;
    esac
  done
  # A version that has no target of its own is as good as any for the target "postgres".
  if [ -n "$other" ] && [ -z "${DBQ_TEST_POSTGRES_DSN:-}" ]; then
    variable=DBQ_TEST_$(echo "$other" | tr '[:lower:]' '[:upper:]')_DSN
    start_server "$other"
    export DBQ_TEST_POSTGRES_DSN=${!variable:-}
  fi
}

start_server() {
  local line
  if line=$(ci/engines/native.sh start "$1" 2>"$work/error"); then
    eval "$line"
    echo "test: started $1"
  else
    cat "$work/error" >&2
    notes="$notes$1 did not start (see above)"$'\n'
  fi
}

[ "${DBQ_TEST_START:-yes}" = no ] || start_servers # .ci/run has started those it wants
use_local_images

how=(-short)
if [ "${1:-}" = all ]; then
  # The race detector needs cgo and a C compiler, which somebody with only Go may not have.
  # SQLite is C translated to Go (modernc.org): instrumented, it is 30 times slower, and it has no Go code of ours to race with.
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
# shellcheck disable=SC2086  # GOTESTFLAGS is a list of words
go test "${how[@]}" -timeout 30m ${GOTESTFLAGS:-} ./... </dev/null &
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
  echo "To run more: set DBQ_TEST_<TARGET>_DSN, or DBQ_TEST_CONTAINERS=pull with Docker, or on Debian as root: make engines (ci/README.md)."
exit "$code"
