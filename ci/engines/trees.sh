#!/bin/bash
# Builds the Debian trees that hold the servers, from packages alone: no container registry is asked.
# A tree whose stamp matches is left as it is.
# shellcheck disable=SC2016  # mmdebstrap and apt-get fill in the $ of these
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"

build() { # SUITE PACKAGES
  local suite=$1 packages=$2 tree=$ENGINES/$1 new=$ENGINES/.new-$1 options
  options=(
    --quiet --variant=minbase
    # A mirror can be a snapshot whose Release file has expired. Signatures are still checked.
    --aptopt='Acquire::Check-Valid-Until "false"'
    --aptopt='APT::Install-Recommends "false"'
    --aptopt='Acquire::Retries "5"'
    --dpkgopt='path-exclude=/usr/share/man/*'
    --dpkgopt='path-exclude=/usr/share/locale/*'
    --dpkgopt='path-exclude=/usr/share/doc/*'
    # PostgreSQL's JIT is a third of its size, and no queue statement is long enough to use it.
    --dpkgopt='path-exclude=/usr/lib/postgresql/*/lib/bitcode/*'
    --dpkgopt='path-exclude=/usr/lib/postgresql/*/lib/llvmjit*'
    --essential-hook='mkdir -p "$1/etc/postgresql-common"'
    --essential-hook='echo "create_main_cluster = false" >"$1/etc/postgresql-common/createcluster.conf"'
    --customize-hook="$here/seed.sh \"\$1\""
    --include="$packages"
  )
  rm -rf --one-file-system "$new"
  timeout 900 mmdebstrap "${options[@]}" "$suite" "$new" "$mirror"
  rm -rf --one-file-system "$tree"
  mv "$new" "$tree"
}

stamp_of() { cat "$here/trees.sh" "$here/seed.sh" - <<<"$1" | sha256sum | cut -c1-32; }

stale=() stamps=() pids=()
for line in "${TREES[@]}"; do
  tree=$ENGINES/${line%%:*}
  stamp=$(stamp_of "$line")
  [ "$(cat "$tree/.stamp" 2>/dev/null)" != "$stamp" ] || continue
  ! used root "$tree" || die "$tree is old, and servers run in it: ci/engines/native.sh stop"
  stale+=("$line") stamps+=("$stamp")
done
[ ${#stale[@]} -gt 0 ] || exit 0

is_root || die "the trees in $ENGINES are missing or old; run this as root"
mkdir -p "$ENGINES"
# The mirror that this machine's own apt uses: its main archive, not the security one. apt tells it after an update.
mirror_of_apt() { apt-get indextargets --format '$(REPO_URI)' | awk '!/security/ && !n++'; }
mirror=${DBQ_DEBIAN_MIRROR:-$(mirror_of_apt)}
if [ -z "$mirror" ]; then
  timeout 300 apt-get update -q >/dev/null
  mirror=$(mirror_of_apt)
fi
[ -n "$mirror" ] || die "apt names no mirror: set DBQ_DEBIAN_MIRROR"

for line in "${stale[@]}"; do
  suite=${line%%:*}
  say "building $ENGINES/$suite"
  build "$suite" "${line#*:}" >"$ENGINES/$suite.log" 2>&1 &
  pids+=($!)
done
failed=''
for i in "${!stale[@]}"; do
  suite=${stale[$i]%%:*}
  if wait "${pids[$i]}"; then
    echo "${stamps[$i]}" >"$ENGINES/$suite/.stamp"
  else
    tail -n 20 "$ENGINES/$suite.log" >&2
    failed="$failed $suite"
  fi
done
[ -z "$failed" ] || die "could not build:$failed (logs in $ENGINES)"
