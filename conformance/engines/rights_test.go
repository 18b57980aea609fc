package engines

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

// A user who may read and write, but make nothing: migrate says whose help it needs and makes nothing, and on tables
// that are there everything works.
func TestUserWithoutCreate(t *testing.T) {
	t.Parallel()
	for _, target := range present() {
		dsn := os.Getenv(target.variable())
		if target.file != nil {
			continue
		}
		t.Run(target.name, func(t *testing.T) {
			t.Parallel()
			prefix := ownPrefix(t, dsn)
			own := dbq.WithPrefix(prefix)
			poor, grant := poorUser(t, dsn, prefix)
			_, err := dbq.Open(t.Context(), poor, own, dbq.WithMigrate())
			if !errors.Is(err, dbq.ErrDenied) || !strings.Contains(err.Error(), "dbq migrate --print") {
				t.Fatalf("got %v, want ErrDenied and what to do", err)
			}
			if _, err := dbq.Open(t.Context(), dsn, own); !errors.Is(err, dbq.ErrNotMigrated) {
				t.Fatalf("got %v, want ErrNotMigrated: a refused migration makes nothing", err)
			}
			if _, _, err := dbq.Migrate(t.Context(), dsn, own); err != nil {
				t.Fatal(err)
			}
			grant()
			c, err := dbq.Open(t.Context(), poor, own, dbq.WithMigrate())
			if err != nil {
				t.Fatalf("with the tables there: %v", err)
			}
			defer c.Close()
			for _, s := range c.Info().Server.Strategies {
				c, err := dbq.Open(t.Context(), poor, own, dbq.WithStrategy(s))
				check.OK(t, err)
				defer c.Close()
				q := c.Queue(string(s))
				if _, err := q.Enqueue(t.Context(), dbq.NewTask{}); err != nil {
					t.Fatal(err)
				}
				tasks, err := q.Checkout(t.Context(), 1, time.Minute)
				if err != nil || len(tasks) != 1 {
					t.Fatalf("%s: got %v, %v, want a task", s, tasks, err)
				}
				check.OK(t, q.Settle(t.Context(), tasks[0].Lease, dbq.Deleted()))
			}
		})
	}
}

// poorUser makes a user who may only read and write, and answers its DSN and what gives it the rights to the tables of
// a prefix. On PostgreSQL, rights to all tables would deadlock with other tests that drop theirs.
func poorUser(t *testing.T, dsn, prefix string) (poor string, grant func()) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("the DSN cannot be read") // it may hold a password
	}
	_, pool, err := sqlrun.Open(t.Context(), dsn, nil)
	check.OK(t, err)
	t.Cleanup(func() { pool.Close() })
	name := fmt.Sprintf("dbq_poor_%x", uuid.New().ID())
	const rights = "SELECT, INSERT, UPDATE, DELETE"
	const tables = "%[1]stask, %[1]slease, %[1]sattempt, %[1]sarchive, %[1]skv, %[1]smigration"
	make, give := "CREATE ROLE "+name+" LOGIN PASSWORD 'poor'",
		[]string{"GRANT " + rights + " ON " + fmt.Sprintf(tables, prefix) + " TO " + name}
	drop := []string{"DROP OWNED BY " + name, "DROP ROLE " + name}
	if u.Scheme != "postgres" {
		database := strings.Trim(u.Path, "/")
		make, drop = "CREATE USER "+name+"@'%' IDENTIFIED BY 'poor'", []string{"DROP USER " + name + "@'%'"}
		give = []string{"GRANT " + rights + " ON " + database + ".* TO " + name + "@'%'"}
	}
	if _, err := pool.Write.ExecContext(t.Context(), make); err != nil {
		t.Skipf("this user may not make users: %v", err)
	}
	t.Cleanup(func() {
		for _, statement := range drop {
			if _, err := pool.Write.ExecContext(context.WithoutCancel(t.Context()), statement); err != nil {
				t.Errorf("left behind: %v", err)
			}
		}
	})
	grant = func() {
		t.Helper()
		for _, statement := range give {
			if _, err := pool.Write.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	if u.Scheme != "postgres" {
		grant() // MySQL lets no user into a database without any right
	}
	u.User = url.UserPassword(name, "poor")
	return u.String(), grant
}

// A user who owns a schema, and may make none, migrates into it. The migration of one who lacks both rights is denied.
func TestMigrateIntoOwnSchema(t *testing.T) {
	t.Parallel()
	for _, target := range present() {
		if target.file != nil || target.name == "pgbouncer" { // where every user is the same one of the server
			continue
		}
		t.Run(target.name, func(t *testing.T) {
			t.Parallel()
			dsn := os.Getenv(target.variable())
			_, pool, err := sqlrun.Open(t.Context(), dsn, nil)
			check.OK(t, err)
			t.Cleanup(func() { pool.Close() })
			name := fmt.Sprintf("dbqs_%x", uuid.New().ID())
			user, database := "USER "+name, "DATABASE "+name
			create, drop := []string{
				"CREATE " + user + " PASSWORD 'p'", "CREATE SCHEMA " + name + " AUTHORIZATION " + name,
			}, []string{"DROP OWNED BY " + name, "DROP " + user}
			own := as(t, dsn, name)
			if !strings.HasPrefix(dsn, "postgres") {
				create = []string{
					"CREATE " + user + " IDENTIFIED BY 'p'", "CREATE " + database, "GRANT ALL ON " + name + ".* TO " + name,
				}
				drop = []string{"DROP " + database, "DROP " + user}
				own = strings.Replace(own, "/mysql", "/"+name, 1) // every user may connect to a database of their own only
			}
			run := func(statements []string) {
				for _, text := range statements {
					if _, err := pool.Write.ExecContext(context.WithoutCancel(t.Context()), text); err != nil {
						t.Errorf("%s: %v", text, err)
					}
				}
			}
			t.Cleanup(func() { run(drop) })
			run(create)
			c, err := dbq.Open(t.Context(), own, dbq.WithSchema(name), dbq.WithMigrate())
			check.OK(t, err)
			defer c.Close()
			if _, err := c.Queue("q").Enqueue(t.Context(), dbq.NewTask{}); err != nil {
				t.Error(err)
			}
			if _, _, err := dbq.Migrate(t.Context(), own, dbq.WithSchema("x"+name)); !errors.Is(err, dbq.ErrDenied) {
				t.Errorf("into a schema that does not exist: %v, want ErrDenied", err)
			}
		})
	}
}
