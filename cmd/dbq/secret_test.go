package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/spf13/cobra"
)

const secret = "Tr0ub4dor"

// guarded is a SQLite database that is opened by a DSN with a password and a host.
func init() {
	dialect.Register(dialect.Driver{Schemes: []string{"guarded"}, Dialect: sqlite.Dialect{}, Note: "this is a test's",
		Open: func(ctx context.Context, dsn string, _ dialect.Password) (dialect.Pool, error) {
			d, err := dialect.ParseDSN(dsn)
			if err != nil {
				return dialect.Pool{}, err
			}
			return sqlite.Open(ctx, "sqlite:/"+d.Database, nil)
		}})
}

// everyCommand is each command of dbq as a user might type it, for an id of a task, as text and with --json.
func everyCommand(id string) [][]string {
	var out [][]string
	for _, l := range []string{
		"migrate", "stats", "stats --over 1h", "list", "enqueue -q q --payload x", "queue list",
		"import -q q --from-sql SELECT'r'reference",
		"queue set q --concurrency 3", "queue clean q --keep-completed 1h", "queue pause q",
		"queue resume q", "limit q --concurrency 5 --create", "limit q", "limit q --off", "workflow " + id, "cancel " + id,
		"cancel --all", "schedule put s --every 1h -q q", "schedule list", "schedule list -q q --name-prefix s",
		"schedule show s", "schedule pause s",
		"schedule resume s", "schedule run s", "schedule delete s", "schedule preview --cron @daily", "worker list",
		"token create t --role viewer", "token list", "token revoke 0123456789abcdef",
		"audit list", "audit clean --keep 365d --yes",
		"worker stop nobody", "worker pause nobody", "worker resume nobody", "work -q q --until-empty -- true", "show " + id,
		"wait --timeout 10ms " + id,
		"reject " + id, "reenqueue " + id, "list --state poison", "revoke --all", "reject --all", "quarantine --all",
		"restore --all", "reenqueue --all", "finish " + id,
		"purge --all --yes", "migrate --print", "version", "help",
	} {
		out = append(out, strings.Fields(l), append([]string{"--json"}, strings.Fields(l)...))
	}
	return out
}

// TestEveryCommandIsTried: a command that is added to dbq is added to everyCommand.
func TestEveryCommandIsTried(t *testing.T) {
	t.Parallel()
	elsewhere := map[string]string{ // to where its output is checked
		"dbq conform": "checks", "dbq demo": "checks", "dbq serve": "serve_test.go",
	}
	tried := map[string]bool{}
	root := newRoot(&app{})
	for _, args := range everyCommand("0198c1f2-7a3b-7c4d-8e5f-0123456789ab") {
		if cmd, _, err := root.Find(args); err == nil {
			tried[cmd.CommandPath()] = true
		}
	}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		path := cmd.CommandPath()
		if cmd.Runnable() && !cmd.HasSubCommands() && !cmd.Hidden && !tried[path] && elsewhere[path] == "" {
			t.Errorf("everyCommand lacks %s", path)
		}
	}
	walk(root)
}

// checks are the commands that make a database of their own behind a DSN, in each of their formats.
func checks(dir string) (out [][]string) {
	for _, format := range []string{"text", "json", "junit"} {
		out = append(out, []string{"conform", "--run", "Errors/ErrorFields", "--report", format})
	}
	return append(out, []string{"demo", "--files", "2", "--workers", "2", "--dir", dir},
		[]string{"demo", "--json", "--files", "2", "--workers", "2", "--dir", dir})
}

// typed runs a command in this process, and returns all that it printed.
func typed(t *testing.T, args ...string) (code int, printed string) {
	t.Helper()
	var out, errs bytes.Buffer
	in := ofProcess()
	in.in, in.out, in.err = strings.NewReader(""), &out, &errs
	code = run(t.Context(), in, args)
	return code, out.String() + errs.String()
}

// No command shows the password of a DSN that it was given, whatever is wrong with the DSN.
func TestHostileDSNsShowNoPassword(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var dsns []string
	for _, scheme := range []string{"postgres", "mysql", "mariadb", "oracle", "guarded", "sqlite", "mongodb"} {
		for _, rest := range []string{
			"//app:%s@127.0.0.1:1/db", "//app@srv:%s@127.0.0.1:1/db", "//app:a%%40%s@127.0.0.1:1/db",
			"//app@srv:SE%%zz%s@127.0.0.1:1/db",
			"//app/x:%s@127.0.0.1:1/db", "//app?x:%s@127.0.0.1:1/db", "//app#x:%s@127.0.0.1:1/db",
			"//app:%s@127.0.0.1:port/db", "//app:%s/x@127.0.0.1:1/db",
			"//%s@127.0.0.1:1/db", "//app:%s", "//127.0.0.1:1/db?user=u&password=%s", "//127.0.0.1:1/db?password='ab'%s",
			"//127.0.0.1:1/db?pass%%77ord=%s",
			"//127.0.0.1:1/db?PASSWORD=%s", "//127.0.0.1:1/db?password=a&%s",
			"//127.0.0.1:1/db?sslmode=require&sslpassword=%s", "//127.0.0.1:1/db?pwd=%s",
			"//app@127.0.0.1:1/db?WALLET+PASSWORD=%s", "//app:%s@[::1/db", "//app:%s@127.0.0.1:1/db?bogus=%%zz",
			"app:%s@tcp(127.0.0.1:1)/db",
			"//app:%s@(DESCRIPTION=(ADDRESS=(PROTOCOL=TCP)(HOST=127.0.0.1)(PORT=1))(CONNECT_DATA=(SERVICE_NAME=x)))",
		} {
			if scheme != "sqlite" || strings.Contains(rest, "@") { // without an @ it is a file's name
				dsns = append(dsns, scheme+":"+fmt.Sprintf(rest, secret))
			}
		}
	}
	dsns = append(dsns, "app:"+secret+"@tcp(127.0.0.1:1)/db", "host=127.0.0.1 port=1 password="+secret,
		"host=127.0.0.1 port=1 user=app password="+secret+" connect_timeout="+secret, "user=app password='a "+secret+"'",
		secret+":app@127.0.0.1/db", "app@127.0.0.1:"+secret,
		"127.0.0.1:"+secret+"@app", "password = '"+secret+"'", "jdbc:oracle:thin:app/"+secret+"@127.0.0.1:1:x")
	commands := append(everyCommand("0198c1f2-7a3b-7c4d-8e5f-0123456789ab"), checks(dir)...)
	for i, dsn := range dsns {
		// Each DSN with some commands, each command with some DSNs.
		for j := range 4 {
			args := commands[(i*4+j)%len(commands)]
			if _, printed := typed(t, append([]string{"--dsn", dsn}, args...)...); strings.Contains(printed, secret) {
				t.Errorf("%q with %s shows the password: %s", args, dsn, printed)
			}
		}
	}
}

// A hint is shown whole, although the DSN may have its words.
func TestHintOfAWrongDSNIsWhole(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"user=postgres host=host password='user' database": "such as postgres://user@host/database; it has: ",
		"postgres user@host:5432/database":                 "such as postgres://user@host/database; it has: ",
		"nosuch://postgres:begins@mysql/scheme":            "such as postgres://user@host/database; it has: ",
	} {
		if _, printed := typed(t, "--dsn", dsn, "stats"); !strings.Contains(printed, want) {
			t.Errorf("%s: %s", dsn, printed)
		}
	}
}

// So it is when the database is there.
func TestNoCommandShowsThePassword(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dsn := "guarded://app@srv:" + secret + "@db.example:7" + filepath.Join(dir, "q.db") + "?token=" + secret
	if _, printed := typed(t, "--dsn", dsn, "migrate"); !strings.Contains(printed, "in guarded://db.example:7/") ||
		strings.Contains(printed, secret) {
		t.Errorf("migrate says %q", printed)
	}
	_, id := typed(t, "--dsn", dsn, "enqueue", "-q", "q", "--payload", "x")
	id, _, _ = strings.Cut(id, "\n")
	for _, args := range append(everyCommand(id), checks(t.TempDir())...) {
		code, printed := typed(t, append([]string{"--dsn", dsn}, args...)...)
		if strings.Contains(printed, secret) {
			t.Errorf("%q shows the password: %s", args, printed)
		}
		if code == exitUnavailable || code == exitNotMigrated {
			t.Errorf("%q: exit code %d: %s", args, code, printed)
		}
	}
}
