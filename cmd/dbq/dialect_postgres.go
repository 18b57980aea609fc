//go:build !no_postgres

package main

import (
	"net/url"

	_ "github.com/dbq-go/dbq/dialect/postgres"
)

func init() {
	oddSessions["postgres"] = func(dsn string) string {
		u, err := url.Parse(dsn)
		if err != nil {
			return dsn // the client that opens it says what is wrong
		}
		q := u.Query()
		q.Set("timezone", "Asia/Kathmandu")
		u.RawQuery = q.Encode()
		return u.String()
	}
}
