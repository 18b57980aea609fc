#!/bin/bash
# changed.sh prints the files that a change touches, one a line: those that differ from the merge base with CI_BASE or
# with the branch of a pull request, else from the newest commit that is over 12 hours old. Without such a commit it
# prints all files.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${CI_BASE:-${GITHUB_BASE_REF:+origin/$GITHUB_BASE_REF}}
if [ -n "$base" ]; then
  base=$(git merge-base "$base" HEAD)
else
  base=$(git rev-list -1 --before='12 hours ago' HEAD)
fi
if [ -n "$base" ]; then git diff --name-only "$base" HEAD; else git ls-files; fi
