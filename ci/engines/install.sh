#!/bin/bash
# Debian packages that the other scripts need, with "servers" as argument no Docker. Root on Debian; does nothing when
# all is there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"

packages=()
[ "${1:-}" = servers ] || command -v dockerd >/dev/null || packages+=(docker.io)
command -v mmdebstrap >/dev/null || packages+=(mmdebstrap)
command -v shellcheck >/dev/null || packages+=(shellcheck) # for make check
[ ${#packages[@]} -gt 0 ] || exit 0

is_root || die "missing: ${packages[*]}; run this as root, or install them yourself"
command -v apt-get >/dev/null ||
  die "missing: ${packages[*]}, and this is no Debian: use Docker instead (see ci/README.md)"
say "installing ${packages[*]}"

export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
if ! { timeout 300 apt-get update -q && timeout 600 apt-get install -qy --no-install-recommends "${packages[@]}"; } \
    >"$log" 2>&1 </dev/null; then
  tail -20 "$log" >&2
  die "cannot install ${packages[*]} (log: $log)"
fi
rm -f "$log"
