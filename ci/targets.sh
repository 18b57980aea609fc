# shellcheck shell=bash disable=SC2034
# Which engines are tested how, and which programs the tests of the clients need, each with its Debian package.
# engines/programs.go lists the servers that make test starts.
CI_NEWEST="postgres18 mysql97 mariadb118"        # each change is tested on these and on SQLite
CI_OLDEST="postgres15 mariadb1011"               # and a fifth of the laws on the oldest versions
CI_CONTAINERS="postgres18 mysql97 mariadb118"    # make test-all tests these in containers as well
CI_CLUSTERS="galera groupreplication postgresha" # it kills the nodes of these
CI_RESTARTS="postgres18 mysql97 mariadb118"      # it restarts and kills servers of these under load
CI_PROGRAMS="python3=python3 pip3=python3-pip mypy=mypy node=nodejs npm=npm tsc=node-typescript"

# Groups that do not run behind the pooler: they cut and cancel requests by the hundred, and Debian's PgBouncer 1.18
# ends itself at times when a client cancels ("bad client state: 0").
CI_POOLER_SKIP='TestConformance/^pgbouncer$/./^(Faults|Contention|Worker|DeadLetter|Workflow|Schedules|Limits)$'

# SQLite is C translated to Go (modernc.org): instrumented it is 30 times slower, and none of dbq's code is in it.
CI_RACE=(-race '-gcflags=modernc.org/...=-race=false -d=checkptr=0')
