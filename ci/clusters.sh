#!/bin/bash
# The cases of Contention, spread over the nodes, and of Failover on clusters, as root on Debian after make engines: starts
# each in turn, tests it, stops it. Fails when one cannot be had.
#
#   clusters.sh [CLUSTER...]   those of engines/cluster.sh; by default CI_CLUSTERS of targets.sh
#
# CLUSTER_RUNS is how often the cases that kill nodes are run, by default once.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/targets.sh

# shellcheck disable=SC2086  # a list of words
[ $# -gt 0 ] || set -- $CI_CLUSTERS
[ -n "${DBQ_ENGINES_STATE:-}" ] || { DBQ_ENGINES_STATE=$(mktemp -d); trap 'rmdir "$DBQ_ENGINES_STATE"' EXIT; }
export DBQ_ENGINES_STATE

for cluster in "$@"; do
  begin=$SECONDS code=0
  if variables=$(ci/engines/cluster.sh start "$cluster"); then
    ci/engines/cluster.sh version "$cluster"
    echo "started in $((SECONDS - begin)) s"
    ( # the variables of one cluster only
      eval "$variables"
      export DBQ_TEST_REQUIRE=$cluster
      # First what the dialects say of nodes, while all of them are there.
      go test -count=1 -timeout 2m ./dialect/mysql ./dialect/postgres -run 'Node|TakesWrites' &&
        go test -count=1 -timeout 10m -parallel 6 ./conformance/clusters -run "TestClusters/$cluster/.*/Contention" &&
        go test -count="${CLUSTER_RUNS:-1}" -timeout 60m -v ./conformance/clusters -run "TestClusters/$cluster/.*/Failover" |
        { grep -vE '^(=== |PASS)' || true; }
    ) || code=$?
  else
    code=1
  fi
  ci/engines/cluster.sh stop "$cluster"
  echo "$cluster: $((SECONDS - begin)) s"
  [ "$code" = 0 ] || { echo "$cluster: FAILED"; exit "$code"; }
done
