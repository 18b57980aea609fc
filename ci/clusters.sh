#!/bin/bash
# Tests each cluster in turn: the laws of Contention, spread over its nodes, and those of Failover, which kill nodes. As
# root on Debian, after make servers. Fails when a cluster cannot be started.
#
#   clusters.sh [CLUSTER...]   those of engines/native.sh; by default CI_CLUSTERS of targets.sh
#
# CLUSTER_RUNS is how often the laws that kill nodes are tested, by default once.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/targets.sh

# shellcheck disable=SC2086  # a list of words
[ $# -gt 0 ] || set -- $CI_CLUSTERS
DBQ_ENGINES_STATE=${DBQ_ENGINES_STATE:-$(mktemp -d)}
export DBQ_ENGINES_STATE
cluster=''
trap '[ -z "$cluster" ] || ci/engines/native.sh stop "$cluster"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

for cluster in "$@"; do
  begin=$SECONDS code=0
  if variables=$(ci/engines/native.sh start "$cluster"); then
    ( # the variables of one cluster only
      eval "$variables"
      export DBQ_TEST_REQUIRE=$cluster
      # First what the dialects find out about nodes, while all of them run.
      go test -count=1 -timeout 2m ./dialect/mysql ./dialect/postgres -run 'Node|TakesWrites' &&
        go test -count=1 -timeout 10m -parallel 6 ./conformance/clusters -run "TestClusters/$cluster/.*/Contention" &&
        go test -count="${CLUSTER_RUNS:-1}" -timeout 60m -v ./conformance/clusters \
          -run "TestClusters/$cluster/.*/Failover" | { grep -vE '^(=== |PASS)' || true; }
    ) || code=$?
  else
    code=1
  fi
  ci/engines/native.sh stop "$cluster"
  echo "$cluster: $((SECONDS - begin)) s"
  [ "$code" = 0 ] || { echo "$cluster: FAILED"; exit "$code"; }
done
