#!/bin/bash
# Clusters of three database servers without Docker: as root, on loopback, from the trees that trees.sh built.
#
#   cluster.sh start CLUSTER...       starts each, prints "export DBQ_TEST_<CLUSTER>_NODES='...'" lines for the tests
#   cluster.sh running                the clusters that were started
#   cluster.sh version CLUSTER        the program's own word
#   cluster.sh writer CLUSTER         the number of the node that takes writes; nothing when all do
#   cluster.sh kill CLUSTER NODE      SIGKILL, as a crash would; and what a failover manager would do then
#   cluster.sh restart CLUSTER NODE   brings a killed node back on its data; returns when it is a member again
#   cluster.sh stop [CLUSTER...]      stops them, all if none is named, and removes their data
#
# Clusters, nodes 1 to 3 each:
#   galera            MariaDB with Galera; each node takes writes
#   groupreplication  MySQL Group Replication with a single primary
#   multiprimary      the same, and each node takes writes
#   postgresha        PostgreSQL with synchronous_standby_names = 'ANY 1'; kill promotes the standby that has the most
#
# A node's name is its cluster's and its number, as in galera2. Commits are durable unless DBQ_ENGINES_FSYNC=off.
# DBQ_ENGINES_STATE is the folder of ports and data, with "-clusters" behind it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"

STATE=${DBQ_ENGINES_STATE:-$ENGINES/native}-clusters
CLUSTERS="galera groupreplication multiprimary postgresha"
A=127.0.0.1

# locate CLUSTER: sets root (its tree), user and bin. Add a cluster here.
locate() {
  local program tree
  user=mysql bin=/usr/sbin
  case $1 in
  galera) program=/usr/lib/galera/libgalera_smm.so ;;
  groupreplication | multiprimary) program=/usr/lib/mysql/plugin/group_replication.so ;;
  postgresha) user=postgres bin=/usr/lib/postgresql/18/bin program=$bin/pg_rewind ;;
  *) die "unknown cluster $1: use one of $CLUSTERS" ;;
  esac
  is_root || die "clusters are started as root: they run in trees"
  for tree in "$ENGINES"/*/; do
    root=${tree%/}
    [ ! -e "$root$program" ] || return 0
  done
  die "no programs for $1; make engines (as root) installs them"
}

data() { echo "/srv/$(basename "$STATE")/$1"; } # of a node, as seen from its tree

# port NODE [WHAT]: chosen once. WHAT is client, group (between the nodes), or ist and sst (what a Galera node catches up by).
port() {
  local file=$STATE/$1.${2:-client}
  [ -e "$file" ] || free_port >"$file"
  cat "$file"
}

ports() { local i out=''; for i in 1 2 3; do out="$out,$A:$(port "$1$i" "$2")"; done; echo "${out#,}"; }

# sql NODE STATEMENTS: their output, without names.
sql() {
  case $1 in
  postgresha*) as "$user" "$bin/psql" -h "$A" -p "$(port "$1")" -U postgres -Atqc "$2" ;;
  galera*) as "$user" mariadb --no-defaults --skip-ssl -uroot -h"$A" -P"$(port "$1")" -Ne "$2" ;;
  *) as "$user" mysql --no-defaults -uroot -h"$A" -P"$(port "$1")" -Ne "$2" ;;
  esac
}

answers() { sql "$1" 'select 1'; }
says() { [ "$(sql "$1" "$2")" = "$3" ]; } # NODE QUERY ANSWER

# await NODE SECONDS COMMAND...: or the end of its log.
await() {
  local node=$1 seconds=$2
  shift 2
  wait_for "$seconds" "$@" || { tail -n 25 "$root$(data "$node")/server.log" >&2 || true; die "$node: not within $seconds s: $*"; }
}

# pid NODE: its process, checked to be ours by its working directory (a pid can be someone else's by now).
pid() {
  local p file folder
  folder=$root$(data "$1")
  for file in "$folder/postmaster.pid" "$folder/server.pid"; do
    p=$(head -n 1 "$file" 2>/dev/null) || continue
    if ! gone "${p:-none}" && [ "$(readlink "/proc/$p/cwd")" = "$folder" ]; then
      echo "$p"
      return 0
    fi
  done
  return 1
}

# crash NODE: SIGKILL, and until its children are gone too: they keep the next start from its data.
crash() {
  local p
  p=$(pid "$1") || die "$1 does not run"
  kill -KILL "$p"
  wait_for 10 gone "$p" || die "$1 does not end"
  wait_for 10 unused cwd "$root$(data "$1")" || die "$1 still has processes"
}

other() { local i; for i in 1 2 3; do [ "$1$i" = "$2" ] || echo "$1$i"; done; } # CLUSTER NODE: the other nodes

nodes_of() { # the DSNs of a cluster, one for each node, that name the others for when it is gone
  local i order
  for order in 123 231 312; do
    local hosts=''
    for i in ${order:0:1} ${order:1:1} ${order:2:1}; do hosts="$hosts,$A:$(port "$1$i")"; done
    case $1 in
    postgresha) echo "postgres://postgres@${hosts#,}/postgres?sslmode=disable" ;;
    galera) echo "mariadb://root@${hosts#,}/mysql" ;;
    *) echo "mysql://root@${hosts#,}/mysql" ;;
    esac
  done
}

start() {
  local c
  mkdir -p "$STATE"
  for c in "$@"; do
    locate "$c"
    if [ ! -e "$STATE/$c" ]; then
      install -d "$root/srv" "$root$(data "")"
      "start_$c" "$c"
      touch "$STATE/$c"
    fi
    echo "export DBQ_TEST_$(echo "$c" | tr '[:lower:]' '[:upper:]')_NODES='$(nodes_of "$c" | paste -sd' ')'"
  done
  echo "export DBQ_TEST_CLUSTER_CONTROL='$here/cluster.sh'"
}

# serve NODE PROGRAM OPTION...: what MariaDB's and MySQL's nodes have in common. A server that starts removes the temporary tables of all that
# share its tmpdir.
serve() {
  local node=$1 program=$2 folder flush=1
  shift 2
  folder=$(data "$node")
  [ "${DBQ_ENGINES_FSYNC:-on}" = on ] || flush=2
  rm -f "$root$folder/server.pid"
  # Galera's scripts look at processes: a /proc in the tree that only the node sees, and that ends with it.
  # shellcheck disable=SC2016  # $0 and $@ are the inner shell's
  unshare --mount sh -c 'mount -t proc proc "$0/proc" && exec "$@"' "$root" \
    chroot "$root" setpriv --reuid="$user" --regid="$(chroot "$root" id -g "$user")" --init-groups -- \
    setsid "$bin/$program" --no-defaults --datadir="$folder" --port="$(port "$node")" --bind-address="$A" \
    --tmpdir="$folder" --socket="$folder/server.sock" --pid-file="$folder/server.pid" --skip-name-resolve --max-connections=200 \
    --innodb-buffer-pool-size=128M --innodb-flush-log-at-trx-commit="$flush" "$@" </dev/null >>"$root$folder/server.log" 2>&1 &
}

# seed NODE [STATEMENTS]: a data directory, and a file of statements that make its users. Without name resolution 127.0.0.1 is not localhost.
seed() {
  cp -a "$root/var/lib/mysql-seed" "$root$(data "$1")"
  printf "%s\nCREATE USER root@'$A';\nGRANT ALL ON *.* TO root@'$A' WITH GRANT OPTION;\n" "${2:-}" >"$root$(data "$1")/init.sql"
}

# --- Galera

# galera_options NODE: sets options. The short timeouts are for a loopback that loses nothing.
galera_options() {
  local group provider
  group=$(port "$1" group)
  provider="gmcast.listen_addr=tcp://$A:$group;ist.recv_addr=$A:$(port "$1" ist);gcache.size=128M;gcache.recover=yes"
  provider="$provider;evs.suspect_timeout=PT1S;evs.inactive_timeout=PT3S;evs.keepalive_period=PT0.3S"
  provider="$provider;evs.inactive_check_period=PT0.3S;evs.install_timeout=PT3S"
  options=(
    --innodb-log-file-size=64M --innodb-autoinc-lock-mode=2 --binlog-format=ROW --wsrep-on=ON
    --wsrep-provider=/usr/lib/galera/libgalera_smm.so --wsrep-provider-options="$provider"
    --wsrep-cluster-name=dbq --wsrep-cluster-address="gcomm://$(ports galera group)" --wsrep-node-name="$1"
    --wsrep-node-address="$A:$group" --wsrep-node-incoming-address="$A:$(port "$1")"
    --wsrep-sst-method=rsync --wsrep-sst-receive-address="$A:$(port "$1" sst)" --wsrep-slave-threads=2
  )
}

galera_node() { # NODE OPTION...
  local options
  galera_options "$1"
  serve "$1" mariadbd "${options[@]}" "${@:2}"
}

# The first node begins the cluster's history and is copied, so that the others have a position in it and need no copy of a whole node.
start_galera() {
  local i folder p
  folder=$root$(data galera1)
  seed galera1
  galera_node galera1 --init-file="$(data galera1)/init.sql" --wsrep-new-cluster
  await galera1 60 synced galera1
  p=$(pid galera1)
  kill -TERM "$p"
  wait_for 30 gone "$p" || die "galera1 does not stop"
  for i in 2 3; do
    cp -a "$folder" "$root$(data "galera$i")"
    rm -f "$root$(data "galera$i")/"{gvwstate.dat,galera.cache,server.log}
  done
  galera_node galera1 --wsrep-new-cluster
  await galera1 60 synced galera1
  for i in 2 3; do galera_node "galera$i"; done
  for i in 2 3; do await "galera$i" 60 synced "galera$i"; done
}

status() { sql "$1" "select variable_value from information_schema.global_status where variable_name='$2'"; }
synced() { [ "$(status "$1" wsrep_local_state_comment)" = Synced ]; }

writer_galera() { :; }

# A killed node does not know its own position: InnoDB does, and from there it catches up (galera_recovery does the same).
restart_galera() {
  local folder log position options
  folder=$(data "$1")
  galera_options "$1"
  log=$(as "$user" "$bin/mariadbd" --no-defaults --datadir="$folder" --tmpdir="$folder" --skip-networking --socket="$folder/server.sock" \
    --pid-file="$folder/recover.pid" "${options[@]}" --wsrep-recover 2>&1) || die "$1 does not recover: $log"
  position=$(sed -n 's/.*Recovered position: *//p' <<<"$log" | tail -n 1)
  [ -n "$position" ] || die "$1 does not say its position: $log"
  galera_node "$1" --wsrep-start-position="$position"
  await "$1" 60 synced "$1"
}

# --- MySQL Group Replication

group_node() { # NODE OPTION...
  local node=$1 cluster=${1%?} single=ON id=${1#"${1%?}"}
  shift
  [ "$cluster" = groupreplication ] || single=OFF
  serve "$node" mysqld --mysqlx=OFF --secure-file-priv=NULL --innodb-redo-log-capacity=64M --server-id="$id" --gtid-mode=ON \
    --enforce-gtid-consistency=ON --log-bin=bin --report-host="$A" --report-port="$(port "$node")" --plugin-load-add=group_replication.so \
    --loose-group-replication-group-name=aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa --loose-group-replication-ip-allowlist="$A/32" \
    --loose-group-replication-local-address="$A:$(port "$node" group)" --loose-group-replication-group-seeds="$(ports "$cluster" group)" \
    --loose-group-replication-recovery-get-public-key=ON --loose-group-replication-member-expel-timeout=0 \
    --loose-group-replication-single-primary-mode="$single" \
    --loose-group-replication-enforce-update-everywhere-checks="$([ "$single" = ON ] && echo OFF || echo ON)" "$@"
}

start_groupreplication() {
  local i users="SET SESSION sql_log_bin=0;
CREATE USER repl@'$A' IDENTIFIED BY 'r';
GRANT REPLICATION SLAVE, BACKUP_ADMIN, CONNECTION_ADMIN, GROUP_REPLICATION_STREAM ON *.* TO repl@'$A';"
  for i in 1 2 3; do
    seed "$1$i" "$users"
    group_node "$1$i" --init-file="$(data "$1$i")/init.sql" --loose-group-replication-start-on-boot=OFF
  done
  for i in 1 2 3; do
    await "$1$i" 60 answers "$1$i"
    sql "$1$i" "change replication source to source_user='repl', source_password='r' for channel 'group_replication_recovery'"
    [ "$i" != 1 ] || sql "${1}1" "set global group_replication_bootstrap_group=on; start group_replication; set global group_replication_bootstrap_group=off"
    [ "$i" = 1 ] || sql "$1$i" "start group_replication"
  done
  for i in 1 2 3; do await "$1$i" 60 online "$1$i"; done
}
start_multiprimary() { start_groupreplication "$1"; }

online() { says "$1" "select member_state from performance_schema.replication_group_members where member_id=@@server_uuid" ONLINE; }

writer_groupreplication() {
  local i
  for i in 1 2 3; do
    if says "$1$i" "select member_role from performance_schema.replication_group_members where member_id=@@server_uuid and member_state='ONLINE'" PRIMARY 2>/dev/null; then
      echo "$i"
      return 0
    fi
  done
  return 1
}
writer_multiprimary() { :; }

# It takes no writes before it is a member: start-on-boot makes it read-only until then.
restart_groupreplication() {
  group_node "$1" --loose-group-replication-start-on-boot=ON
  await "$1" 90 online "$1"
}
restart_multiprimary() { restart_groupreplication "$1"; }

# --- PostgreSQL with synchronous standbys

# shared_settings CLUSTER: the same on each node, in its file: pg_rewind copies that, and recovers a node by it. Each may become the
# primary, and the others are its standbys then.
shared_settings() {
  cat <<CONF
listen_addresses = '$A'
unix_socket_directories = ''
max_connections = 200
dynamic_shared_memory_type = mmap # a tree has no /dev/shm
fsync = ${DBQ_ENGINES_FSYNC:-on}
wal_log_hints = on
wal_keep_size = 128MB
checkpoint_timeout = 30s # pg_rewind reads the log from the last common checkpoint on
wal_retrieve_retry_interval = 100ms
synchronous_commit = remote_apply
synchronous_standby_names = 'ANY 1 (${1}1, ${1}2, ${1}3)'
CONF
}

postgres_node() { # NODE: as a standby it goes by its cluster_name
  local folder
  folder=$(data "$1")
  as "$user" "$bin/pg_ctl" -D "$folder" -w -t 60 -l "$folder/server.log" -o "-p $(port "$1") -c cluster_name=$1" start >/dev/null 2>&1 ||
    { tail -n 25 "$root$folder/server.log" >&2 || true; die "$1 did not start"; }
}

follow() { echo "primary_conninfo = 'host=$A port=$(port "$1") user=postgres'" >>"$root$(data "$2")/postgresql.auto.conf"; } # PRIMARY STANDBY

start_postgresha() {
  local i
  for i in 1 2 3; do install -d -o "$(chroot "$root" id -u postgres)" -m 700 "$root$(data "$1$i")"; done
  as "$user" "$bin/initdb" -D "$(data "${1}1")" --no-sync -A trust -U postgres --no-locale -E UTF8 >/dev/null
  shared_settings "$1" >>"$root$(data "${1}1")/postgresql.conf"
  postgres_node "${1}1"
  for i in 2 3; do
    as "$user" "$bin/pg_basebackup" -h "$A" -p "$(port "${1}1")" -U postgres -D "$(data "$1$i")" -R -X stream -c fast --no-sync
    follow "${1}1" "$1$i"
    postgres_node "$1$i"
  done
  await "${1}1" 30 standbys "${1}1" 2
}

standbys() { says "$1" "select count(*) from pg_stat_replication where sync_state = 'quorum'" "$2"; }

writer_postgresha() {
  local i
  for i in 1 2 3; do
    if says "$1$i" "select pg_is_in_recovery()" f 2>/dev/null; then
      echo "$i"
      return 0
    fi
  done
  return 1
}

# failover_postgresha CLUSTER KILLED: if nobody takes writes any more, the standby that has the most becomes the primary and the
# other one follows it. What was acknowledged is on one of them, so both must be asked.
failover_postgresha() {
  local new='' best=-1 node at
  ! writer_postgresha "$1" >/dev/null 2>&1 || return 0
  for node in $(other "$1" "$2"); do
    at=$(sql "$node" "select (pg_last_wal_receive_lsn() - '0/0')::bigint")
    [ "$at" -le "$best" ] || { best=$at new=$node; }
  done
  sql "$new" "select pg_promote(true, 30)" >/dev/null
  for node in $(other "$1" "$2"); do
    [ "$node" != "$new" ] || continue
    follow "$new" "$node"
    sql "$node" "select pg_reload_conf()" >/dev/null
  done
  await "$new" 30 standbys "$new" 1
}

# What the killed primary had written and no standby got was never acknowledged; pg_rewind takes it away.
restart_postgresha() {
  local primary
  primary=${1%?}$(writer_postgresha "${1%?}") || die "${1%?} has no primary to follow"
  rm -f "$root$(data "$1")/postmaster.pid"
  if [ ! -e "$root$(data "$1")/standby.signal" ]; then # it was a primary
    as "$user" "$bin/pg_rewind" -D "$(data "$1")" --source-server="host=$A port=$(port "$primary") user=postgres dbname=postgres" --no-sync >>"$root$(data "$1")/server.log" 2>&1 ||
      { tail -n 25 "$root$(data "$1")/server.log" >&2; die "$1 could not be rewound"; }
    as "$user" touch "$(data "$1")/standby.signal"
  fi
  follow "$primary" "$1"
  postgres_node "$1"
  await "$primary" 60 says "$primary" "select count(*) from pg_stat_replication where application_name = '$1' and state = 'streaming'" 1
}

# --- commands

node_of() { case $2 in 1 | 2 | 3) echo "$1$2" ;; *) die "no node $2 of $1: use 1, 2 or 3" ;; esac; }

version() {
  case $1 in
  galera) as "$user" "$bin/mariadbd" --version ;;
  postgresha) as "$user" "$bin/postgres" --version ;;
  *) as "$user" "$bin/mysqld" --version ;;
  esac
}

stop() {
  local c i
  for c in "$@"; do
    locate "$c"
    for i in 1 2 3; do # it is thrown away: there is nothing to be stopped well
      processes "$root$(data "$c$i")" | xargs -r kill -KILL
    done
    for i in 1 2 3; do
      wait_for 10 unused cwd "$root$(data "$c$i")" || say "$c$i still has processes"
      rm -rf "$root$(data "$c$i")" "$STATE/$c$i".*
    done
    rm -f "$STATE/$c"
    rmdir "$root$(data "")" 2>/dev/null || true
  done
  rmdir "$STATE" 2>/dev/null || true
}

# processes FOLDER: those that work in it, also a node's that never came up, and its scripts.
processes() {
  local p
  for p in /proc/[0-9]*; do
    [ "$(readlink "$p/cwd" 2>/dev/null)" != "$1" ] || basename "$p"
  done
}

running() { local c; for c in $CLUSTERS; do [ ! -e "$STATE/${c}1.client" ] || echo "$c"; done; }

command=${1:-}
[ $# = 0 ] || shift
case $command in
start) start "$@" ;;
running) running ;;
version) locate "$1" && version "$1" ;;
writer)
  locate "$1"
  "writer_$1" "$1" || die "no node of $1 takes writes now"
  ;;
kill)
  locate "$1"
  crash "$(node_of "$1" "$2")"
  [ "$1" != postgresha ] || failover_postgresha "$1" "$1$2"
  ;;
restart) locate "$1" && "restart_$1" "$(node_of "$1" "$2")" ;;
stop)
  # shellcheck disable=SC2046  # names without blanks
  [ $# -gt 0 ] || set -- $(running)
  stop "$@"
  ;;
*) sed -n '3,20s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
