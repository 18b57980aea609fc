//go:build unix

package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/sqlite"
)

var errDenied = errors.New("permission denied for table dbq_task")

// denying is SQLite for a user who may read the tables and change nothing in them.
type denying struct{ sqlite.Dialect }

func (denying) Checkout(context.Context, *dialect.Session, dialect.CheckoutRequest) (dialect.CheckoutResult, error) {
	return dialect.CheckoutResult{}, errDenied
}

func (d denying) Classify(err error) dialect.Class {
	if errors.Is(err, errDenied) {
		return dialect.Denied
	}
	return d.Dialect.Classify(err)
}

func init() {
	dialect.Register(dialect.Driver{Schemes: []string{"denying"}, Dialect: denying{},
		Open: func(ctx context.Context, dsn string, _ dialect.Password) (dialect.Pool, error) {
			return sqlite.Open(ctx, "sqlite"+strings.TrimPrefix(dsn, "denying"), nil)
		}})
}

// A right that is missing does not come back by itself: a worker that went on asking would look alive and do nothing.
func TestWorkEndsWithoutPermission(t *testing.T) {
	u := newUser(t)
	u.run("enqueue", "-q", "q").id()
	o := u.run("--dsn", "denying:"+u.file("dbq.db"), "work", "-q", "q", "--poll", "50ms", "--quiet", "--", "true")
	if o.code != exitUnavailable || !strings.Contains(o.err, "permission denied for table") ||
		!strings.Contains(o.err, "the rights") {
		t.Errorf("exit code %d, stderr %s", o.code, o.err)
	}
}
