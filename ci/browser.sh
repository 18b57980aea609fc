#!/bin/bash
# make browser: the tests of the web console in Chromium, which is installed if it is missing (Debian, as root), on
# SQLite and on the PostgreSQL server that DBQ_TEST_POSTGRES18_DSN names.
set -euo pipefail
cd "$(dirname "$0")/.."
ci/programs.sh chromium=chromium
cd console/browser
# These tests mostly wait, for what a page shows next: more run at once than there are cores.
CI=true exec go test -count=1 -timeout 10m -parallel 4 ./...
