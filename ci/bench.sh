#!/bin/bash
# make bench: all benchmarks, on durable servers that it starts and stops. BENCHFLAGS has more flags. As root on Debian,
# after make servers.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/targets.sh
DBQ_ENGINES_STATE=$(mktemp -d)
export DBQ_ENGINES_STATE DBQ_ENGINES_FSYNC=on
trap 'ci/engines/native.sh stop' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# shellcheck disable=SC2086  # lists of words
variables=$(ci/engines/native.sh start $CI_NEWEST)
eval "$variables"
cd bench
# shellcheck disable=SC2086
go run . -part all -rounds 3 ${BENCHFLAGS:-}
