#!/bin/bash
# A small stand-in for the official image's entrypoint: the same environment variables, the same two
# "ready to accept connections" log lines, the same /docker-entrypoint-initdb.d.
set -euo pipefail

[ "${1:0:1}" != - ] || set -- postgres "$@"
[ "$1" = postgres ] || exec "$@"

if [ "$(id -u)" = 0 ]; then
  mkdir -p "$PGDATA" /run/postgresql
  chown -R postgres:postgres "$PGDATA" /run/postgresql
  chmod 700 "$PGDATA"
  exec setpriv --reuid=postgres --regid=postgres --init-groups -- "$0" "$@"
fi

if [ ! -s "$PGDATA/PG_VERSION" ]; then
  user=${POSTGRES_USER:-postgres}
  database=${POSTGRES_DB:-$user}
  method=${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}
  if [ -z "${POSTGRES_PASSWORD:-}" ] && [ "$method" != trust ]; then
    echo "POSTGRES_PASSWORD is not set" >&2
    exit 1
  fi
  # shellcheck disable=SC2086  # POSTGRES_INITDB_ARGS is a list of words
  initdb -D "$PGDATA" --no-sync --username="$user" --pwfile=<(echo "${POSTGRES_PASSWORD:-none}") \
    --auth-local=trust --auth-host=scram-sha-256 --encoding=UTF8 ${POSTGRES_INITDB_ARGS:-}
  echo "host all all all $method" >>"$PGDATA/pg_hba.conf"

  pg_ctl -D "$PGDATA" -o "-c listen_addresses= -c fsync=off" -w start
  run() { psql -v ON_ERROR_STOP=1 --no-psqlrc -q -U "$user" "$@"; }
  [ "$database" = postgres ] || run -d postgres -c "CREATE DATABASE \"$database\""
  for file in /docker-entrypoint-initdb.d/*; do
    case $file in
    *.sh) bash "$file" ;;
    *.sql) run -d "$database" -f "$file" ;;
    *.sql.gz) gunzip -c "$file" | run -d "$database" ;;
    esac
  done
  pg_ctl -D "$PGDATA" -m fast -w stop
  echo "PostgreSQL init process complete; ready for start up."
fi
exec "$@"
