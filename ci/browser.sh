#!/bin/bash
# make browser: the tests of the web console in Chromium, which is installed if it is missing (Debian, as root).
set -euo pipefail
cd "$(dirname "$0")/.."
ci/programs.sh chromium=chromium
cd console/browser
CI=true exec go test -count=1 -timeout 10m ./...
