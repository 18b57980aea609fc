#!/bin/bash
# No file may hold a path of one machine, nor the name of a package registry or mirror: neither is there elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."

patterns=(
  '(^|[^[:alnum:]_.*/}-])/(work|root|home/[a-z]+)/'
  '(proxy|sum)\.golang\.org' 'goproxy\.(io|cn)' '(deb|ftp|security|snapshot)\.debian\.org'
  'registry\.(npmjs|yarnpkg)\.' 'pypi\.org' 'files\.pythonhosted\.'
)
# The hosts that this machine is set up to use.
hosts() {
  go env GOPROXY | sed 's/[,|]/ /g' | xargs -n 1
  ! command -v apt-get >/dev/null || apt-get indextargets --format "\$(REPO_URI)" 2>/dev/null || true
}
while read -r host; do
  [ -z "$host" ] || patterns+=("${host//./\\.}")
done < <(hosts | sed -nE 's#^[a-z]+://([^/@]*@)?([^/:]+).*#\2#p' | sort -u)

arguments=()
for pattern in "${patterns[@]}"; do arguments+=(-e "$pattern"); done
! git ls-files -z --cached --others --exclude-standard | xargs -0 grep -nIE "${arguments[@]}" --
