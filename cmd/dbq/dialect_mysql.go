//go:build !no_mysql

package main

import _ "github.com/dbq-go/dbq/dialect/mysql"
