// Package dialecttest holds what the tests of dbq's own dialects have in common: the way to their servers, and laws on what the conformance
// suite cannot see, such as the texts of statements, DSNs and classes of errors. Only tests may import it; ci/layers.txt says so.
package dialecttest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// Open is a dialect's Open.
type Open func(ctx context.Context, dsn string) (dialect.Pool, error)

// OnEachServer runs f on each server whose DSN is in one of the environment's variables, and skips with the reason when none is.
func OnEachServer(t *testing.T, products string, variables []string, f func(t *testing.T, dsn string)) {
	t.Helper()
	ran := false
	for _, variable := range variables {
		if dsn := os.Getenv(variable); dsn != "" {
			ran = true
			t.Run(strings.TrimSuffix(strings.TrimPrefix(variable, "DBQ_TEST_"), "_DSN"), func(t *testing.T) { f(t, dsn) })
		}
	}
	if !ran {
		t.Skip("no " + products + ": set one of " + strings.Join(variables, ", ") + ", or run make test, which starts what it finds")
	}
}

// Session is a session on a pool, by what its server says of itself.
func Session(t *testing.T, d dialect.Dialect, pool dialect.Pool, names dialect.Names) *dialect.Session {
	t.Helper()
	server, err := d.Probe(t.Context(), pool.Write)
	if err != nil {
		t.Fatal(err)
	}
	return dialect.NewSession(d, pool, server, names)
}

// OwnSchema is a session on a schema of the test's own, which is yet to be made. When the test ends, drop removes it; its %s is the name.
func OwnSchema(t *testing.T, d dialect.Dialect, open Open, dsn, drop string) *dialect.Session {
	t.Helper()
	pool, err := open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	s := Session(t, d, pool, dialect.Names{Schema: fmt.Sprintf("dbqt_%x", uuid.New().ID()), Prefix: "dbq_"})
	t.Cleanup(func() {
		if _, err := pool.Write.ExecContext(context.Background(), fmt.Sprintf(drop, s.Names.Schema)); err != nil {
			t.Errorf("left behind: %v", err)
		}
	})
	return s
}

// Schema are the statements that make a session's tables.
func Schema(s *dialect.Session) []string {
	texts := slices.Clone(s.Statements.MigrationTable)
	for _, m := range s.Dialect.Migrations(s.Names) {
		texts = append(texts, m.Statements...)
	}
	return texts
}

// Migrate makes a session's tables in one transaction.
func Migrate(t *testing.T, s *dialect.Session) {
	t.Helper()
	err := s.Tx(t.Context(), func(ctx context.Context, c dialect.Conn) error {
		for _, text := range Schema(s) {
			if _, err := c.Exec(ctx, text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
