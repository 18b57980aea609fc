#!/bin/bash
# Database servers for the tests, without containers: runs the Go program of this directory. Without arguments it prints
# its usage.
cd "$(dirname "$0")/../.." && exec go run ./ci/engines "$@"
