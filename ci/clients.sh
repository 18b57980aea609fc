#!/bin/bash
# Builds the packages of the clients in Python and Node, and fetches nothing.
#
#   clients.sh OUT [python|node]   puts a wheel and an npm archive, or one of them, into the directory OUT
#
# PYTHON is the Python to use, by default python3. It needs pip, setuptools and wheel.
set -euo pipefail
out=$(realpath "$1")
cd "$(dirname "$0")/../clients"
work=$(mktemp -d) # both tools leave files in the directory that they build
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [ "${2:-python}" = python ]; then
  mkdir "$work/python"
  cp -r ../LICENSE python/README.md python/pyproject.toml python/dbq_client "$work/python"
  "${PYTHON:-python3}" -m pip --disable-pip-version-check wheel -q --no-cache-dir --no-index --no-deps \
    --no-build-isolation -w "$out" "$work/python"
fi
if [ "${2:-node}" = node ]; then
  mkdir "$work/node"
  cp ../LICENSE node/* "$work/node"
  npm_config_cache=$work/cache npm_config_update_notifier=false npm pack --silent --pack-destination "$out" "$work/node"
fi
