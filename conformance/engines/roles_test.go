package engines

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
)

// roleTargets are the servers on which the rights of SECURITY.md are tested.
var roleTargets = []string{"postgres18", "mysql97", "mariadb118"}

// grantsOf reads the rights of a role from SECURITY.md, in their order, for an engine's family.
func grantsOf(t *testing.T, role, family string) (statements []string) {
	t.Helper()
	b, err := os.ReadFile("../../SECURITY.md")
	check.OK(t, err)
	grant := regexp.MustCompile(`(?m)^(GRANT [^;]+) TO ` + role + `;(.*)$`)
	for _, found := range grant.FindAllStringSubmatch(string(b), -1) {
		if !strings.Contains(found[2], "only") || family == "mysql" || !strings.Contains(found[2], "MySQL") {
			statements = append(statements, found[1])
		}
	}
	if len(statements) < 2 {
		t.Fatalf("SECURITY.md grants %s %q", role, statements)
	}
	return statements
}

// A roleUser is a user of a database who has the rights of a role on tables of their own.
type roleUser struct {
	t      *testing.T
	admin  *dbq.Client
	grants []string
	name   string
	prefix dbq.Option
	tables string
	dsn    string
}

// inRole makes the tables and the user, with all rights of the role, until the test ends.
func inRole(t *testing.T, target target, role string) *roleUser {
	t.Helper()
	dsn := os.Getenv(target.variable())
	if dsn == "" {
		t.Skip("no server: set " + target.variable())
	}
	id := dbq.NewID()
	u := &roleUser{t: t, name: fmt.Sprintf("dbqr_%x", id[10:])}
	u.tables = u.name + "_"
	u.prefix = dbq.WithPrefix(u.tables)
	admin, err := dbq.Open(t.Context(), dsn, u.prefix, dbq.WithMigrate())
	check.OK(t, err)
	u.admin = admin
	u.dsn = as(t, dsn, u.name)
	u.grants = grantsOf(t, role, admin.Info().Dialect)
	t.Cleanup(func() {
		if err := dbq.DropTables(context.WithoutCancel(t.Context()), dsn, u.prefix); err != nil {
			t.Error(err)
		}
		u.exec("DROP USER " + u.name)
		admin.Close()
	})
	u.exec(map[string]string{
		"postgres": "CREATE USER " + u.name + " PASSWORD 'p'", "mysql": "CREATE USER " + u.name + " IDENTIFIED BY 'p'",
	}[admin.Info().Dialect])
	for _, grant := range u.grants {
		u.grant(grant)
	}
	return u
}

// as is a DSN as another user.
func as(t *testing.T, dsn, user string) string { return asUser(t, dsn, user, "p") }

func asUser(t *testing.T, dsn, user, password string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("the DSN cannot be read") // it may hold a password
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

func (u *roleUser) exec(text string) {
	u.t.Helper()
	if _, err := u.admin.DB().ExecContext(context.WithoutCancel(u.t.Context()), text); err != nil {
		u.t.Errorf("%s: %v", text, err)
	}
}

func (u *roleUser) grant(grant string) {
	u.t.Helper()
	u.exec(strings.ReplaceAll(grant, "dbq_", u.tables) + " TO " + u.name)
}

func (u *roleUser) revoke(grant string) {
	u.t.Helper()
	grant = strings.Replace(grant, "GRANT", "REVOKE", 1)
	u.exec(strings.ReplaceAll(grant, "dbq_", u.tables) + " FROM " + u.name)
}

func (u *roleUser) open(opts ...dbq.Option) (*dbq.Client, error) {
	c, err := dbq.Open(u.t.Context(), u.dsn, append(opts, u.prefix)...)
	if err == nil {
		u.t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// TestRoles holds SECURITY.md against the engines: a user with the rights of a role can do its work with every
// strategy, a user without one of them cannot, and what the role is not for is denied.
func TestRoles(t *testing.T) {
	t.Parallel()
	type calls map[string]func(ctx context.Context, c *dbq.Client, task dbq.Task) error
	for role, r := range map[string]struct {
		work   func(ctx context.Context, u *roleUser, c *dbq.Client) error
		denied calls
	}{
		"worker":   {workAsWorker, calls{"enqueue": enqueueOne}},
		"operator": {workAsOperator, calls{"enqueue": enqueueOne, "get": getOne, "audit": readAudit, "clean": cleanAudit}},
		"auditor": {workAsAuditor, calls{
			"enqueue": enqueueOne, "get": getOne, "checkout": checkoutOne, "pause": pauseOne, "reject": rejectOne,
			"clean": cleanAudit,
		}},
		"monitor": {workAsMonitor, calls{
			"enqueue": enqueueOne, "get": getOne, "checkout": checkoutOne, "pause": pauseOne, "reject": rejectOne,
		}},
	} {
		for _, name := range roleTargets {
			t.Run(role+"/"+name, func(t *testing.T) {
				t.Parallel()
				u := inRole(t, target{name: name}, role)
				ctx := t.Context()
				c, err := u.open()
				check.OK(t, err)
				for _, s := range c.Info().Server.Strategies {
					c, err := u.open(dbq.WithStrategy(s))
					if err == nil {
						err = r.work(ctx, u, c)
					}
					if err != nil {
						t.Fatalf("with strategy %s: %v", s, err)
					}
				}
				task := u.enqueue(1)[0]
				for what, do := range r.denied {
					if err := do(ctx, c, task); !errors.Is(err, dbq.ErrDenied) {
						t.Errorf("%s: got %v, want ErrDenied", what, err)
					}
				}
				for _, grant := range u.grants {
					u.revoke(grant)
					c, err := u.open()
					if err == nil {
						err = r.work(ctx, u, c)
					}
					if !errors.Is(err, dbq.ErrDenied) {
						t.Errorf("without %s: got %v, want ErrDenied", grant, err)
					}
					u.grant(grant)
				}
			})
		}
	}
}

// TestRoleOfDeadLetters holds SECURITY.md against the engines: a worker of a queue with a dead-letter queue needs one
// more right, without which nothing of the settlement is done.
func TestRoleOfDeadLetters(t *testing.T) {
	t.Parallel()
	for _, name := range roleTargets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := inRole(t, target{name: name}, "worker")
			ctx := t.Context()
			c, err := u.open()
			check.OK(t, err)
			set := func(s *admin.QueueSettings) { s.DeadLetter = "alerts" }
			check.OK(t, admin.New(u.admin).ConfigureQueue(ctx, "q", set))
			u.enqueue(1)
			q := c.Queue("q")
			ts, err := q.Checkout(ctx, 1, time.Minute)
			if err != nil || len(ts) != 1 {
				t.Fatalf("checkout of %d: %v", len(ts), err)
			}
			if err := q.Settle(ctx, ts[0].Lease, dbq.Poisoned(nil)); !errors.Is(err, dbq.ErrDenied) {
				t.Errorf("without the right: got %v, want ErrDenied", err)
			}
			u.grant("GRANT INSERT ON dbq_task")
			if err := q.Settle(ctx, ts[0].Lease, dbq.Poisoned(nil)); err != nil {
				t.Errorf("with the right: %v", err)
			}
			if ts, err := u.admin.Queue("alerts").Checkout(ctx, 1, time.Minute); err != nil || len(ts) != 1 {
				t.Errorf("there are %d notices, error %v", len(ts), err)
			}
		})
	}
}

// A monitor that may not read headers and results counts, and does not list.
func TestMonitorWithoutResults(t *testing.T) {
	t.Parallel()
	for _, name := range roleTargets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := inRole(t, target{name: name}, "monitor")
			u.revoke("GRANT SELECT (headers, result) ON dbq_task")
			c, err := u.open()
			check.OK(t, err)
			u.enqueue(1)
			if stats, err := admin.New(c).Stats(t.Context()); err != nil || len(stats) != 1 {
				t.Errorf("stats: got %v, %v", stats, err)
			}
			if _, err := admin.New(c).List(t.Context(), admin.Filter{}); !errors.Is(err, dbq.ErrDenied) {
				t.Errorf("list: got %v, want ErrDenied", err)
			}
		})
	}
}
