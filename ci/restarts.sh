#!/bin/bash
# TestRestart of conformance/engines, and the clients of `dbq serve`, on each target in turn: workers and a producer go
# on while their server is restarted, killed, and started again. The servers are started and stopped here. As root on
# Debian, after make servers. Fails when one cannot be started.
#
#   restarts.sh [TARGET...]   those of engines/native.sh; by default CI_RESTARTS of targets.sh
#
# RESTART_RUNS is how often each target is tested, by default once.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/targets.sh

# shellcheck disable=SC2086  # a list of words
[ $# -gt 0 ] || set -- $CI_RESTARTS
DBQ_ENGINES_STATE=$(mktemp -d) # never that of servers which other tests use
export DBQ_ENGINES_STATE
trap 'ci/engines/native.sh stop' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

for target in "$@"; do
  begin=$SECONDS
  line=$(ci/engines/native.sh start "$target")
  line=${line#*=\'}
  native=ci/engines/native.sh
  DBQ_TEST_RESTART_DSN=${line%\'} \
    DBQ_TEST_RESTART="$native restart $target; $native kill $target && $native start $target" \
    go test -count="${RESTART_RUNS:-1}" -timeout 10m -v -run '^(TestRestart|TestClientsLoseNothingWhen.*Killed)$' \
    -p 1 ./conformance/engines ./cmd/dbq |
    { grep -vE '^(=== |PASS)' || true; }
  ci/engines/native.sh stop
  echo "$target: $((SECONDS - begin)) s"
done
