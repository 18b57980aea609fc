#!/bin/bash
# make engines: everything the tests can use on a Debian machine without a container registry. Run again, it
# only checks the stamps.
# make servers (all.sh servers): what native.sh starts, and no Docker.
set -euo pipefail
case ${1:-} in '' | servers) ;; *) sed -n '2,4s/^# //p' "$0"; exit 2 ;; esac
here=$(cd "$(dirname "$0")" && pwd)

"$here/install.sh" "$@"
"$here/trees.sh"
"$here/native.sh" list
[ "${1:-}" != servers ] || exit 0
"$here/dockerd.sh" start
"$here/images.sh"
docker image ls --format '{{.Repository}}:{{.Tag}}' 'dbq.local/*' | sort
