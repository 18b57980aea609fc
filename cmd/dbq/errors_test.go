//go:build unix

package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/check"
)

func TestUsageErrors(t *testing.T) {
	u := newUser(t)
	for _, c := range []struct {
		line string
		says string
	}{
		{"list --bogus", "--bogus"},
		{"list extra", "extra"},
		{"show", "id"},
		{"show xyz", "task id"},
		{"enqueue", "--queue"},
		{"enqueue -q a --priority x", "priority"},
		{"enqueue -q a --priority 10", "it must be 0 to 9"},
		{"enqueue -q a --max-attempts -1", "max attempts"},
		{"enqueue -q a --header x", "KEY=VALUE"},
		{"enqueue -q a --payload-file nope", "cannot read the payload"},
		{"work -q a", "PROGRAM"},
		{"work -- cat", "--queue"},
		{"work -q a -- no-such-program", "cannot run the program"},
		{"--strategy skip-locked enqueue -q q", "supports only [cas]"},
		{"--prefix 9 migrate", "Prefix"},
		{"--dsn no-directory/x.db migrate", "no-directory"},
		{"--dsn x.db?bogus=1 migrate", "bogus"},
		{"demo --workers 1", "--workers"},
		{"demo --files 0", "--files"},
		{"demo --prefix x_", "--prefix"},
		{"demo --dir nope", "--dir"},
	} {
		u.run(strings.Fields(c.line)...).fails(exitUsage, c.says)
	}
}

func init() {
	dialect.Register(dialect.Driver{Schemes: []string{"noted"}, Dialect: sqlite.Dialect{}, Note: "this is a test's",
		Open: func(ctx context.Context, dsn string, _ dialect.Password) (dialect.Pool, error) {
			return sqlite.Open(ctx, "sqlite"+strings.TrimPrefix(dsn, "noted"), nil)
		}})
}

// A command prints the note of the dialect that it opens, and no other command prints one.
func TestServerNoticeIsPrinted(t *testing.T) {
	u := newUser(t)
	const note = "dbq: note: this is a test's\n"
	for _, line := range []string{"migrate", "enqueue -q q --payload x", "stats", "migrate --print"} {
		o := u.run(append([]string{"--dsn", "noted:" + u.file("noted.db")}, strings.Fields(line)...)...)
		if o.code != 0 || o.err != note {
			t.Errorf("%s: got code %d, %q", line, o.code, o.err)
		}
	}
	for _, line := range []string{"migrate", "stats"} {
		if o := u.run("--dsn", "sqlite:"+u.file("plain.db"), line); o.code != 0 || strings.Contains(o.err, "note:") {
			t.Errorf("%s: got code %d, %q", line, o.code, o.err)
		}
	}
	const oracle = "dbq: note: the Oracle dialect has not yet been run against a server\n"
	if o := u.run("migrate", "--print", "--dialect", "oracle"); o.err != oracle {
		t.Errorf("got %q", o.err)
	}
}

func TestExitCodesOfDatabases(t *testing.T) {
	u := newUser(t)
	u.run("--dsn", "missing.db", "stats").fails(exitNotMigrated, "missing.db", "dbq migrate")
	u.run("--dsn", "missing.db", "enqueue", "-q", "q").fails(exitNotMigrated, "dbq migrate")
	if os.Geteuid() != 0 { // who may write everywhere
		u.run("--dsn", "own.db", "migrate").ok()
		check.OK(t, os.Chmod(u.file("own.db"), 0o400))
		u.run("--dsn", "own.db", "enqueue", "-q", "q").fails(exitUnavailable, "access")
	}
	u.run("--dsn", "postgres://127.0.0.1:1/x", "stats").fails(exitUnavailable, "cannot be reached", "--dsn")
	for _, server := range []string{"postgres://127.0.0.1:1/x", "mysql://u:p@127.0.0.1:1/x",
		"oracle://u:p@127.0.0.1:1/x"} {
		o := u.run("--dsn", server, "stats").fails(exitUnavailable)
		if n := strings.Count(o.err, "connection refused"); n != 1 {
			t.Errorf("%s: the refusal is printed %d times: %s", server, n, o.err)
		}
	}
}
