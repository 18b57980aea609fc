#!/bin/bash
# ci/programs.sh PROGRAM=PACKAGE...: installs the Debian packages of programs that are missing (as root).
set -euo pipefail
missing=()
for pair in "$@"; do
  command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
done
[ ${#missing[@]} -gt 0 ] || exit 0
for try in 1 2 3; do
  if apt-get update -q && apt-get install -y -q --no-install-recommends "${missing[@]}"; then exit 0; fi
  [ "$try" = 3 ] || sleep 5
done
echo "these packages cannot be installed: ${missing[*]}"
exit 1
