//go:build !no_postgres

package main

import _ "github.com/dbq-go/dbq/dialect/postgres"
