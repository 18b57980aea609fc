#!/bin/bash
# A program that uses dbq on one engine must not pay for the others: with dbq and dialect/sqlite imported, its
# go.sum may name no other engine's driver, no container library and no telemetry.
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)
module=$(cd "$repository" && go list -m)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

cat >main.go <<GO
package main

import (
	_ "$module"
	_ "$module/dialect/sqlite"
	_ "$module/worker"
)

func main() {}
GO
go mod init example.com/thin
go mod edit -require "$module@v0.0.0" -replace "$module=$repository"
go mod tidy
go build -o /dev/null .

# What other modules' tests bring in counts as well: it would be downloaded all the same. Only the drivers that sqlx's own tests
# use cannot be kept out (go-sql-driver/mysql, lib/pq, go-sqlite3); nothing of them is compiled.
if grep -E '/(pgx|go-ora|testcontainers-go|docker|moby|prometheus)[/ ]|opentelemetry' go.sum; then
  echo "these lines of go.sum should not be there"
  exit 1
fi
