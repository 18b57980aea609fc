# shellcheck shell=bash disable=SC2034
# Shared by the scripts in this directory and ci/test.sh: where the trees are, and containers of the tests.

ENGINES=${DBQ_ENGINES:-/var/cache/dbq-engines}

# suite:packages of each Debian tree: the oldest versions in one, and two for the newest, since mysql and mariadb
# conflict as packages.
TREES=(
  "bookworm:postgresql-15,mariadb-server-core,mariadb-client-core,libeatmydata1,procps"
  "trixie:postgresql-17,pgbouncer,mariadb-server,mariadb-backup,galera-4,rsync,socat,lsof,iproute2,libeatmydata1,procps"
  "sid:postgresql-18,mysql-server-core,mysql-client-core,libeatmydata1,procps"
)

say() { echo "engines: $*" >&2; }
die() { say "$*"; exit 1; }
is_root() { [ "$(id -u)" = 0 ]; }

# wait_for SECONDS COMMAND...: until COMMAND succeeds; fails once the time is over.
wait_for() {
  local tries=$(($1 * 5))
  shift
  until "$@" >/dev/null 2>&1; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || return 1
    sleep 0.2
  done
}

# used LINK DIRECTORY: a process has DIRECTORY as its LINK (cwd or root). readlink fails for the ones that just ended.
used() { { readlink /proc/[0-9]*/"$1" || true; } 2>/dev/null | grep -xF -- "$(realpath -m "$2")" >/dev/null; }

# use_local_images: lets testcontainers-go find the images that images.sh built, if they are here.
use_local_images() {
  [ -z "${TESTCONTAINERS_HUB_IMAGE_NAME_PREFIX:-}" ] || return 0
  timeout 10 docker image inspect dbq.local/postgres:18 >/dev/null 2>&1 || return 0
  export TESTCONTAINERS_HUB_IMAGE_NAME_PREFIX=dbq.local
  export TESTCONTAINERS_RYUK_DISABLED=true # the reaper's image is not here; remove_containers does its work
  # Inside a container it would dial the default gateway, for minutes.
  [ ! -e /.dockerenv ] || export TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1
}

test_containers() { timeout 10 docker ps -aq --filter label=org.testcontainers=true 2>/dev/null || true; }

# remove_containers BEFORE: the tests' containers that are not in BEFORE, an earlier test_containers.
remove_containers() {
  local id
  for id in $(test_containers); do
    case " $(echo "$1" | tr '\n' ' ') " in *" $id "*) ;; *) timeout 30 docker rm -fv "$id" >/dev/null || true ;; esac
  done
}
