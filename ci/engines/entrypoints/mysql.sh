#!/bin/bash
# A small stand-in for the official entrypoints of mysql and mariadb: the same environment variables and
# /docker-entrypoint-initdb.d/*.sql. The data directory is a copy of one made when the tree was built, and the
# users are made by --init-file, so the server starts once, not twice.
set -euo pipefail

case $1 in
-*) set -- "$(command -v mariadbd >/dev/null && echo mariadbd || echo mysqld)" "$@" ;;
mysqld | mariadbd) ;;
*) exec "$@" ;;
esac

# setting NAME: MARIADB_NAME or MYSQL_NAME.
setting() {
  local mariadb=MARIADB_$1 mysql=MYSQL_$1
  echo "${!mariadb:-${!mysql:-}}"
}
quoted() { printf '%s' "$1" | sed "s/\\\\/\\\\\\\\/g; s/'/''/g"; }

data=/var/lib/mysql
install -d -o mysql -g mysql /run/mysqld
if [ ! -d $data/mysql ]; then
  root=$(quoted "$(setting ROOT_PASSWORD)")
  host=$(setting ROOT_HOST)
  host=${host:-%}
  database=$(setting DATABASE)
  user=$(quoted "$(setting USER)")
  if [ -z "$root$(setting ALLOW_EMPTY_PASSWORD)$(setting ALLOW_EMPTY_ROOT_PASSWORD)" ]; then
    echo "MYSQL_ROOT_PASSWORD is not set" >&2
    exit 1
  fi

  cp -a --reflink=auto /var/lib/mysql-seed/. $data/
  chown mysql:mysql $data
  init=$(mktemp)
  {
    echo "ALTER USER 'root'@'localhost' IDENTIFIED BY '$root';"
    echo "CREATE USER IF NOT EXISTS 'root'@'$host' IDENTIFIED BY '$root';"
    echo "GRANT ALL ON *.* TO 'root'@'$host' WITH GRANT OPTION;"
    [ -z "$database" ] || echo "CREATE DATABASE IF NOT EXISTS \`$database\`;"
    if [ -n "$user" ]; then
      echo "CREATE USER IF NOT EXISTS '$user'@'%' IDENTIFIED BY '$(quoted "$(setting PASSWORD)")';"
      [ -z "$database" ] || echo "GRANT ALL ON \`$database\`.* TO '$user'@'%';"
    fi
    [ -z "$database" ] || echo "USE \`$database\`;"
    for file in /docker-entrypoint-initdb.d/*.sql; do
      [ ! -e "$file" ] || { cat "$file" && echo; }
    done
  } >"$init"
  chown mysql "$init"
  set -- "$@" --init-file="$init"
fi
exec "$@"
