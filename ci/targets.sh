# shellcheck shell=bash disable=SC2034
# Which engines are tested where.
TEST_TARGETS="postgres15 postgres17 postgres18 mysql97 mariadb1011 mariadb118" # make test starts these where their programs are found
CI_TARGETS="postgres15 postgres18 mysql97 mariadb1011 mariadb118"              # .ci/run starts these and fails without them
CI_CONTAINERS="postgres18 mysql97 mariadb118"                                  # .ci/run runs conformance on these once more, in containers
CI_CLUSTERS="galera groupreplication postgresha"                               # .ci/run kills the nodes of these
CI_RESTARTS="postgres18 mysql97 mariadb118"                                    # .ci/run restarts and kills servers of these under load
