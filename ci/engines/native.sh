#!/bin/bash
# Database servers without Docker: on loopback, from this machine's own packages or (as root) from the trees.
#
#   native.sh list              the targets whose programs are here, with the program
#   native.sh start TARGET...   starts each, prints "export DBQ_TEST_<TARGET>_DSN='...'" lines for the tests
#   native.sh running           the targets that run
#   native.sh version TARGET    the program's own word
#   native.sh kill TARGET       SIGKILL, as a crash would
#   native.sh restart TARGET    stops it if it runs, and starts it on the same data and port
#   native.sh stop              stops all of them and removes their data
#
# Targets: postgres15 postgres17 postgres18 (any major version found) mysql97 mariadb1011 mariadb118, and pgbouncer: PgBouncer in
# transaction mode before postgres18, which it starts.
# DBQ_ENGINES_FSYNC=on makes commits durable (off: for speed), and gives servers 1 GB of memory and larger logs, as docs/performance.md wants. DBQ_ENGINES_STATE is the folder of ports
# and data; another folder is another, separate set of servers.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"

if is_root; then STATE=${DBQ_ENGINES_STATE:-$ENGINES/native}; else
  STATE=${DBQ_ENGINES_STATE:-${TMPDIR:-/tmp}/dbq-engines-$(id -u)}; fi

# locate TARGET: sets root (the tree to change into, or empty for this machine), bin (the folder of its
# programs), user (who runs it) and data (its data directory, as seen from root). Add an engine here.
locate() {
  local version tree path
  root='' bin='' user='' data=$STATE/data/$1
  case $1 in
  postgres[0-9]*)
    user=postgres version=${1#postgres} bin=/usr/lib/postgresql/$version/bin
    [ ! -x "$bin/initdb" ] || return 0
    path=$(command -v postgres || true)
    if [ -n "$path" ] && [ "$(major "$path")" = "$version" ] && [ -x "$(dirname "$path")/initdb" ]; then
      bin=$(dirname "$path")
      return 0
    fi
    ;;
  pgbouncer)
    user=postgres bin=/usr/sbin
    [ -x "$bin/pgbouncer" ] && locate postgres18 || return 1 # its user is the server's
    root='' bin=/usr/sbin user=postgres data=$STATE/data/pgbouncer
    return 0
    ;;
  mysql97 | mariadb1011 | mariadb118) user=mysql bin=/usr/sbin ;;
  *) die "unknown target $1" ;;
  esac
  is_root || return 1 # only root may change into a tree
  data=/srv/$(basename "$STATE")/$1
  for tree in "$ENGINES"/*/; do
    root=${tree%/}
    case $1 in
    postgres*) [ ! -x "$root$bin/initdb" ] || return 0 ;;
    mysql*) [ ! -x "$root$bin/mysqld" ] || [ -x "$root$bin/mariadbd" ] || return 0 ;;
    mariadb*) [ ! -x "$root$bin/mariadbd" ] || [ "$(mariadb_release)" != "${1#mariadb}" ] || return 0 ;;
    esac
  done
  return 1
}

major() { "$1" --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/'; } # "postgres (PostgreSQL) 15.18" is 15

mariadb_release() { chroot "$root" "$bin/mariadbd" --version | sed -E 's/.*Ver ([0-9]+)\.([0-9]+).*/\1\2/'; } # "Ver 10.11.19-MariaDB" is 1011

port() { cat "$STATE/$1.port"; }

# pid TARGET: its process, checked to be ours (a pid can be someone else's by now).
pid() {
  local p file
  locate "$1" || return 1
  for file in "$root$data/postmaster.pid" "$root$data/server.pid"; do
    p=$(head -n 1 "$file" 2>/dev/null) || continue
    if gone "${p:-none}"; then continue; fi
    [ ! -d "/proc/$p" ] || ours "$p" || continue
    echo "$p"
    return 0
  done
  return 1
}

# ours PID: it works in the data directory of locate, or was started with a file in it, as PgBouncer, which works in /.
ours() {
  [ "$(readlink "/proc/$1/cwd")" = "$(cd "$root$data" && pwd -P)" ] || tr '\0' '\n' <"/proc/$1/cmdline" | grep -qxF -- "$data/pgbouncer.ini"
}

targets() { # those that were started from STATE
  local f
  for f in "$STATE"/*.port; do [ ! -e "$f" ] || basename "$f" .port; done
}

list() {
  local t path
  {
    for path in /usr/lib/postgresql/*/bin/postgres "$ENGINES"/*/usr/lib/postgresql/*/bin/postgres; do
      [ ! -x "$path" ] || basename "$(dirname "$(dirname "$path")")"
    done
    path=$(command -v postgres || true)
    [ -z "$path" ] || major "$path"
  } | sort -nu | while read -r t; do echo "postgres$t"; done | cat - <(printf 'mysql97\nmariadb1011\nmariadb118\npgbouncer\n') |
    while read -r t; do ! locate "$t" || printf '%-12s %s\n' "$t" "$root$bin"; done
}

version() {
  locate "$1" || die "no programs for $1"
  case $1 in
  postgres*) as "$user" "$bin/postgres" --version ;;
  pgbouncer) "$bin/pgbouncer" --version | head -n 1 ;;
  mariadb*) as "$user" "$bin/mariadbd" --version ;;
  *) as "$user" "$bin/mysqld" --version ;;
  esac
}

start() {
  local t
  mkdir -p "$STATE"
  chmod 711 "$STATE" # the server's user must reach its data
  [ -O "$STATE" ] || die "$STATE belongs to someone else"
  for t in "$@"; do start_one "$t"; done
}

start_one() {
  locate "$1" || die "no programs for $1; native.sh list shows what is here, make engines (as root) installs it"
  # A machine whose PostgreSQL was not installed by a package may have no postgres user.
  [ -n "$root" ] || ! is_root || id "$user" >/dev/null 2>&1 || user=nobody
  [ -e "$STATE/$1.port" ] || free_port >"$STATE/$1.port"
  if ! pid "$1" >/dev/null; then
    mkdir -p "$root$(dirname "$data")"
    case $1 in
    postgres*) start_postgres "$1" ;;
    pgbouncer) start_pgbouncer ;;
    *) start_mysql "$1" ;;
    esac
  fi
  echo "export DBQ_TEST_$(echo "$1" | tr '[:lower:]' '[:upper:]')_DSN='$(dsn "$1")'"
}

dsn() {
  case $1 in
  postgres* | pgbouncer) echo "postgres://postgres@127.0.0.1:$(port "$1")/postgres?sslmode=disable" ;;
  mysql*) echo "mysql://root@127.0.0.1:$(port "$1")/mysql" ;;
  mariadb*) echo "mariadb://root@127.0.0.1:$(port "$1")/mysql" ;;
  esac
}

make_data() { # an empty data directory that belongs to the server's user
  mkdir -m 700 "$root$data"
  ! is_root || chroot "${root:-/}" chown "$user" "$data"
}

start_postgres() {
  local log=$data/server.log options
  if [ ! -s "$root$data/PG_VERSION" ]; then
    make_data
    as "$user" "$bin/initdb" -D "$data" --no-sync -A trust -U postgres --no-locale -E UTF8 >/dev/null
  fi
  # No socket: only loopback TCP. mmap: a tree has no /dev/shm.
  options="-p $(port "$1") -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections=200"
  options="$options -c dynamic_shared_memory_type=mmap -c fsync=${DBQ_ENGINES_FSYNC:-off}"
  [ "${DBQ_ENGINES_FSYNC:-off}" = off ] || options="$options -c shared_buffers=1GB -c max_wal_size=4GB"
  if ! as "$user" "$bin/pg_ctl" -D "$data" -w -t 60 -l "$log" -o "$options" start >/dev/null 2>&1; then
    tail -n 20 "$root$log" >&2 || true
    die "$1 did not start"
  fi
}

start_pgbouncer() {
  pid postgres18 >/dev/null || start postgres18 >/dev/null
  locate pgbouncer
  mkdir -p "$data"
  # Fewer servers than the suite has clients at once, so that they do share sessions.
  cat >"$data/pgbouncer.ini" <<INI
[databases]
* = host=127.0.0.1 port=$(port postgres18) user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $(port pgbouncer)
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 30
max_client_conn = 1000
pidfile = $data/server.pid
logfile = $data/server.log
INI
  ! is_root || chown -R "$user" "$data"
  as "$user" "$bin/pgbouncer" -d -q "$data/pgbouncer.ini" || { cat "$data/server.log" >&2; die "pgbouncer did not start"; }
  wait_for 10 pid pgbouncer || die "pgbouncer did not start"
}

start_mysql() {
  local log=$root$data/server.log flush=2 memory=128M redo=64M options
  [ "${DBQ_ENGINES_FSYNC:-off}" = off ] || { flush=1 memory=1G redo=1G; }
  if [ ! -d "$root$data/mysql" ]; then
    cp -a "$root/var/lib/mysql-seed" "$root$data"
    # Without name resolution 127.0.0.1 is not localhost.
    cat >"$root$data/init.sql" <<'SQL'
CREATE USER IF NOT EXISTS root@'127.0.0.1';
GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
SQL
  fi
  options=(
    --no-defaults --datadir="$data" --port="$(port "$1")" --bind-address=127.0.0.1 --socket="$data/server.sock"
    --pid-file="$data/server.pid" --tmpdir="$data" --init-file="$data/init.sql" --skip-name-resolve --max-connections=200
    --innodb-buffer-pool-size="$memory" --innodb-flush-log-at-trx-commit="$flush"
  )
  # A table without a primary key is refused, as some managed services do by default.
  case $1 in
  mysql*)
    options=(mysqld "${options[@]}" --mysqlx=OFF --innodb-redo-log-capacity="$redo" --sync-binlog=$((flush % 2))
      --sql-require-primary-key=ON)
    ;;
  mariadb*) options=(mariadbd "${options[@]}" --innodb-log-file-size="$redo" --innodb-force-primary-key=ON) ;;
  esac
  rm -f "$root$data/server.pid"
  as "$user" setsid "$bin/${options[0]}" "${options[@]:1}" </dev/null >>"$log" 2>&1 &
  # The pid file comes before the socket is served, so ask the server itself.
  if ! wait_for 60 answers "$1"; then
    tail -n 20 "$log" >&2
    die "$1 did not start"
  fi
}

answers() {
  case $1 in
  mysql*) as "$user" mysql -uroot -h127.0.0.1 -P"$(port "$1")" -e 'select 1' ;;
  mariadb*) as "$user" mariadb --skip-ssl -uroot -h127.0.0.1 -P"$(port "$1")" -e 'select 1' ;;
  esac
}

# halt TARGET: a clean stop, by SIGKILL when it takes over 20 s. INT is PostgreSQL's fast shutdown.
halt() {
  local p signal=TERM
  p=$(pid "$1") || return 0
  case $1 in postgres*) signal=INT ;; esac
  kill -"$signal" "$p"
  wait_for 20 gone "$p" || { say "$1 does not stop: killing it"; kill -KILL "$p"; wait_for 5 gone "$p"; }
}

# crash TARGET: SIGKILL, and until its children are gone too: they keep the next start from its data.
crash() {
  local p folder
  p=$(pid "$1") || die "$1 does not run"
  folder=$(readlink "/proc/$p/cwd")
  kill -KILL "$p"
  wait_for 10 gone "$p" || die "$1 does not end"
  [ "$folder" = / ] || wait_for 10 unused cwd "$folder" || die "$1 still has processes"
}

stop() {
  local t
  for t in $(targets); do
    halt "$t"
    if locate "$t"; then rm -rf "$root${data:?}"; fi
    rm -f "$STATE/$t.port"
  done
  # Only what is empty now: STATE can be a folder that somebody else made.
  rmdir "$STATE/data" "$STATE" "$ENGINES"/*/srv/"$(basename "$STATE")" 2>/dev/null || true
}

command=${1:-}
[ $# = 0 ] || shift
case $command in
list) list ;;
start) start "$@" ;;
running) for t in $(targets); do ! pid "$t" >/dev/null || echo "$t"; done ;;
version) version "$1" ;;
kill) crash "$1" ;;
restart) halt "$1" && start "$1" ;;
stop) stop ;;
*) sed -n '3,16s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
