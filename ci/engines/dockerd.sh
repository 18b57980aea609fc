#!/bin/bash
# Starts dockerd by hand where no service manager does: dockerd.sh start | stop. Root, unless it runs already.
# stop ends only the daemon that start began.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"

ours=/run/dbq-dockerd.pid
log=/var/log/dbq-dockerd.log

answers() { timeout 10 docker info; }
is_dockerd() { [ "$(cat "/proc/$1/comm" 2>/dev/null)" = dockerd ]; }
ended() { ! is_dockerd "$1"; }

start() {
  local pidfile pid
  ! answers >/dev/null 2>&1 || return 0
  is_root || die "docker info fails, and only root can start dockerd"
  command -v dockerd >/dev/null || die "dockerd is not installed: make engines"
  # A machine that was cut off leaves these behind, and dockerd refuses when something else has that pid now.
  for pidfile in /run/docker.pid /run/docker/containerd/containerd.pid; do
    pid=$(cat "$pidfile" 2>/dev/null || true)
    case $(cat "/proc/${pid:-none}/comm" 2>/dev/null) in dockerd | containerd) ;; *) rm -f "$pidfile" ;; esac
  done
  setsid dockerd </dev/null >"$log" 2>&1 &
  echo $! >"$ours"
  if ! wait_for 60 answers; then
    grep -v level=info "$log" | tail -n 20 >&2
    die "dockerd did not start (log: $log)"
  fi
  say "dockerd started: ci/engines/dockerd.sh stop ends it"
}

stop() {
  local pid
  pid=$(cat "$ours" 2>/dev/null) || return 0
  if is_dockerd "$pid"; then
    kill -TERM "$pid"
    wait_for 60 ended "$pid" || die "dockerd ($pid) does not stop"
  fi
  rm -f "$ours"
}

case ${1:-} in
start) start ;;
stop) stop ;;
*) sed -n '2,3s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
