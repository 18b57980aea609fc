package dialect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// fake is a dialect without an engine.
type fake struct {
	statements Statements
	classify   func(error) Class
}

func (fake) Name() string                                   { return "fake" }
func (fake) Probe(context.Context, *sql.DB) (Server, error) { return Server{}, nil }
func (fake) Migrations(Names) []Migration                   { return nil }
func (f fake) Statements(Names) Statements                  { return f.statements }
func (f fake) Classify(err error) Class                     { return f.classify(err) }
func (fake) Checkout(context.Context, *Session, CheckoutRequest) (CheckoutResult, error) {
	return CheckoutResult{}, nil
}

// register is Register until the test ends.
func register(t *testing.T, d Driver) {
	t.Helper()
	Register(d)
	t.Cleanup(func() {
		registry.Lock()
		defer registry.Unlock()
		for _, scheme := range d.Schemes {
			delete(registry.drivers, scheme)
		}
	})
}

func openNothing(context.Context, string, Password) (Pool, error) { return Pool{}, nil }

func TestRegisteredDriverIsFoundByEachOfItsSchemes(t *testing.T) {
	t.Parallel()
	register(t, Driver{Schemes: []string{"find-a", "find-b"}, Dialect: fake{}, Open: openNothing})
	for _, dsn := range []string{"find-a", "find-a:", "find-a://h/d", "FIND-B:x", "find-b:u:p@h"} {
		if d, err := Lookup(dsn); err != nil || d.Dialect == nil {
			t.Errorf("Lookup(%q) = %v, %v", dsn, d, err)
		}
	}
	if got := Schemes(); !slices.IsSorted(got) || !slices.Contains(got, "find-a") || !slices.Contains(got, "find-b") {
		t.Errorf("Schemes() = %v", got)
	}
}

func TestRegisterPanicsOnAMistake(t *testing.T) {
	t.Parallel()
	register(t, Driver{Schemes: []string{"taken"}, Dialect: fake{}, Open: openNothing})
	for name, d := range map[string]Driver{
		"no dialect":      {Schemes: []string{"x"}, Open: openNothing},
		"no open":         {Schemes: []string{"x"}, Dialect: fake{}},
		"no scheme":       {Dialect: fake{}, Open: openNothing},
		"scheme is taken": {Schemes: []string{"taken"}, Dialect: fake{}, Open: openNothing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if v := recover(); v == nil || !strings.HasPrefix(fmt.Sprint(v), "dialect: ") {
					t.Errorf("got panic %v", v)
				}
			}()
			Register(d)
		})
	}
}

func TestUnknownSchemeNamesTheImportAndHidesThePassword(t *testing.T) {
	t.Parallel()
	register(t, Driver{Schemes: []string{"miss"}, Dialect: fake{}, Open: openNothing})
	for _, c := range []struct{ dsn, want string }{
		{"mongodb://app:hush@h/d", "use one of "},
		{"MongoDB://app:hush@h/d", "use one of "},
		{"hush.db:app", "does not begin with one"},
		{"hush", "does not begin with one"},
		{"", "does not begin with one"},
		{"hu_sh.db", "does not begin with one"},
		{"/var/lib/hush.db", "does not begin with one"},
		{"host=db password=hush", "use one of "},
		{"us_er:hush@tcp(db:3306)/d", "does not begin with one"},
	} {
		_, err := Lookup(c.dsn)
		if !errors.Is(err, ErrUnknownScheme) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Lookup(%q): got %v, want %q", c.dsn, err, c.want)
			continue
		}
		if strings.Contains(err.Error(), "hush") {
			t.Errorf("Lookup(%q) shows the secret: %v", c.dsn, err)
		}
		if strings.Contains(c.want, "use one of") && !strings.Contains(err.Error(), "miss") {
			t.Errorf("Lookup(%q) does not name the registered schemes: %v", c.dsn, err)
		}
	}
}

func TestTableNames(t *testing.T) {
	t.Parallel()
	for want, n := range map[string]Names{
		"dbq_task":      {Prefix: "dbq_"},
		"jobs.dbq_task": {Schema: "jobs", Prefix: "dbq_"},
	} {
		if got := n.Table("task"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
