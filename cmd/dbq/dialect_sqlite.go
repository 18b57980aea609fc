//go:build !no_sqlite

package main

import _ "github.com/dbq-go/dbq/dialect/sqlite"
