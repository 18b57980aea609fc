//go:build !no_oracle

package main

import _ "github.com/dbq-go/dbq/dialect/oracle"
