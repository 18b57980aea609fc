#!/bin/bash
# make engines: everything the tests can use on a Debian machine without a container registry. Run again, it
# only checks the stamps.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

"$here/install.sh"
"$here/trees.sh"
"$here/dockerd.sh" start
"$here/images.sh"
"$here/native.sh" list
docker image ls --format '{{.Repository}}:{{.Tag}}' 'dbq.local/*' | sort
