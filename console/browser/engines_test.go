package browser

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dbqtest"
	_ "github.com/dbq-go/dbq/dialect/postgres"
	"github.com/google/uuid"
)

// onEach runs a test on SQLite, and on the PostgreSQL server that DBQ_TEST_POSTGRES18_DSN or DBQ_TEST_POSTGRES_DSN
// names.
func onEach(t *testing.T, f func(t *testing.T, client *dbq.Client)) {
	t.Helper()
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		f(t, dbqtest.New(t).Client)
	})
	t.Run("postgres18", func(t *testing.T) {
		t.Parallel()
		f(t, onPostgres(t))
	})
}

func onPostgres(t *testing.T) *dbq.Client {
	t.Helper()
	dsn := postgresDSN(t)
	return openPostgres(t, dsn, dsn)
}

// postgresDSN returns the DSN of the PostgreSQL server, or skips the test if there is none.
func postgresDSN(t *testing.T) string {
	t.Helper()
	dsn := os.Getenv("DBQ_TEST_POSTGRES18_DSN")
	if dsn == "" {
		dsn = os.Getenv("DBQ_TEST_POSTGRES_DSN")
	}
	if dsn == "" {
		if slices.Contains(strings.Split(os.Getenv("DBQ_TEST_REQUIRE"), ","), "postgres18") {
			t.Fatal("DBQ_TEST_REQUIRE wants postgres18, and DBQ_TEST_POSTGRES18_DSN names no server")
		}
		t.Skip("DBQ_TEST_POSTGRES18_DSN names no server")
	}
	return dsn
}

// openPostgres opens tables of its own by one DSN, and drops them at the end by another one of the same database.
func openPostgres(t *testing.T, dsn, dropBy string) *dbq.Client {
	t.Helper()
	own := dbq.WithPrefix(fmt.Sprintf("browser%x_", uuid.New().ID()))
	client, err := dbq.Open(t.Context(), dsn, own, dbq.WithMigrate())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		if err := dbq.DropTables(context.WithoutCancel(t.Context()), dropBy, own); err != nil {
			t.Error(err)
		}
	})
	return client
}
