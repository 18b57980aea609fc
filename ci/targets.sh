# shellcheck shell=bash disable=SC2034
# Which engines are tested where. mysql97 and mariadb118 join all three once Faults/CutInsideAnswer holds on them each time; until
# then they run when asked for, by DBQ_TEST_REQUIRE or their DSN.
TEST_TARGETS="postgres15 postgres17 postgres18" # make test starts these where their programs are found
CI_TARGETS="postgres15 postgres18"              # .ci/run starts these and fails without them
CI_CONTAINERS="postgres18"                      # .ci/run runs conformance on these once more, in containers
