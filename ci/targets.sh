# shellcheck shell=bash disable=SC2034
# Which engines .ci/run tests how. What make test starts stands in engines/programs.go.
CI_TARGETS="postgres15 postgres18 mysql97 mariadb1011 mariadb118" # it starts these
CI_TEST="postgres15 mariadb1011"                                  # it runs make test on these, the oldest versions
CI_TEST_ALL="postgres18 mysql97"                                  # it runs the long tests on these: one of each dialect
CI_RACE="postgres18"                                              # it runs the laws on these with the race detector
CI_LAWS="mysql97 mariadb118"                                      # and on these without
CI_CONTAINERS="postgres18 mysql97 mariadb118"                     # it tests these in containers as well
CI_CLUSTERS="galera groupreplication postgresha"                  # it kills the nodes of these
CI_RESTARTS="postgres18 mysql97 mariadb118"                       # it restarts and kills servers of these under load
