// Package dialecttest has what the tests of dbq's own dialects share: sessions on their servers, and checks of DSNs and
// classes of errors. Its own tests check what the conformance suite cannot see of all dialects, such as that a server
// accepts each statement. Only tests may import it; TestImports of ci/rules checks that.
package dialecttest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

// Variables that name servers to test on.
var (
	PostgresServers = []string{"DBQ_TEST_POSTGRES_DSN", "DBQ_TEST_POSTGRES15_DSN", "DBQ_TEST_POSTGRES18_DSN"}
	MySQLServers    = []string{"DBQ_TEST_MYSQL97_DSN", "DBQ_TEST_MARIADB1011_DSN", "DBQ_TEST_MARIADB118_DSN"}
)

// Open is the type of a dialect's Open.
type Open func(ctx context.Context, dsn string, password dialect.Password) (dialect.Pool, error)

// OnEachServer runs f on each server that one of the variables names, and skips the test if none is set.
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
		t.Skipf("no %s: set one of %s, or run make test, which starts what it finds", products,
			strings.Join(variables, ", "))
	}
}

// Session returns a session on a pool, after probing its server.
func Session(t *testing.T, d dialect.Dialect, pool dialect.Pool, names dialect.Names) *sqlrun.Session {
	t.Helper()
	server, err := d.Probe(t.Context(), pool.Write)
	if err != nil {
		t.Fatal(err)
	}
	return sqlrun.NewSession(d, pool, server, names)
}

// OwnSchema returns a session on a schema of the test's own, which Migrate creates. When the test ends, the statement
// drop removes it; its %s is the schema's name.
func OwnSchema(t *testing.T, d dialect.Dialect, open Open, dsn, drop string) *sqlrun.Session {
	t.Helper()
	pool, err := open(t.Context(), dsn, nil)
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

// Private returns a dialect's private statements by name: the plain texts, and the batches.
func Private(st dialect.Statements) (texts map[string]string, batches map[string]dialect.Batch) {
	texts, batches = map[string]string{}, map[string]dialect.Batch{}
	for name, b := range st.Private {
		if b.Max > 0 {
			batches[name] = b
		} else {
			texts[name] = b.SQL
		}
	}
	return texts, batches
}

// Schema returns the statements that create a session's tables.
func Schema(s *sqlrun.Session) []string {
	var texts []string
	for _, m := range s.Dialect.Migrations(s.Names) {
		texts = append(texts, m.Statements...)
	}
	return texts
}

// Migrate creates a session's tables in one transaction.
func Migrate(t *testing.T, s *sqlrun.Session) {
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
