#!/bin/bash
# Called by mmdebstrap with a finished tree: users, settings, and for MySQL and MariaDB a data
# directory to copy, so that a server is up in a second.
set -euo pipefail
tree=$1

rm -rf "$tree"/var/lib/mysql "$tree"/usr/lib/*/libLLVM* "$tree"/usr/bin/mariadb-embedded
chroot "$tree" sh -eu <<'INSIDE'
getent passwd mysql >/dev/null || useradd -r -U -s /usr/sbin/nologin -d /nonexistent mysql
install -d -o mysql -g mysql /var/lib/mysql /var/lib/mysql-files /var/lib/mysql-seed /run/mysqld
install -d /docker-entrypoint-initdb.d /etc/mysql/conf.d
INSIDE

# What the official images set: reachable from outside the container.
for sample in "$tree"/usr/share/postgresql/*/postgresql.conf.sample; do
  printf "listen_addresses = '*'\nunix_socket_directories = '/var/run/postgresql'\n" >>"$sample"
done

if [ -x "$tree/usr/sbin/mariadbd" ]; then
  server=mariadbd
  rm -f "$tree/etc/mysql/my.cnf" "$tree/etc/mysql/mariadb.cnf"
  chroot "$tree" mariadb-install-db --no-defaults --user=mysql --datadir=/var/lib/mysql-seed \
    --auth-root-authentication-method=normal --skip-test-db --innodb-log-file-size=16M
else
  server=mysqld
  chroot "$tree" mysqld --no-defaults --initialize-insecure --user=mysql --datadir=/var/lib/mysql-seed \
    --innodb-redo-log-capacity=16M --log-error-verbosity=1
  rm -f "$tree/var/lib/mysql-seed/auto.cnf" # each server makes its own id
fi
cat >"$tree/etc/my.cnf" <<CONF
[$server]
skip-name-resolve
bind-address=*
user=mysql
datadir=/var/lib/mysql
socket=/run/mysqld/mysqld.sock
pid-file=/run/mysqld/mysqld.pid
[client]
socket=/run/mysqld/mysqld.sock
!includedir /etc/mysql/conf.d/
CONF
