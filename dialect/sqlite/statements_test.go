package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/dialecttest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// migrated is a session on a new database with dbq's tables.
func migrated(t *testing.T, params string) *sqlrun.Session {
	t.Helper()
	pool := openFile(t, filepath.Join(t.TempDir(), "q.db"), params)
	s := dialecttest.Session(t, Dialect{}, pool, dialect.Names{Prefix: "dbq_"})
	dialecttest.Migrate(t, s)
	return s
}

func TestViewIsReadable(t *testing.T) {
	t.Parallel()
	s := migrated(t, "")
	_, err := s.Pool.Write.ExecContext(t.Context(), `
INSERT INTO dbq_task
       (id, queue, kind, state, priority, max_attempts, due,
        created, updated, payload, result)
VALUES (x'0198c1f2000070008000000000000001', 'mail', '', 3, 0, 5, 1700000000123000,
        0, 0, x'00ff', CAST('no route' AS BLOB))`)
	check.OK(t, err)
	type line struct {
		id, state, due string
		payloadBytes   int
		result         string
	}
	want := line{"0198c1f2000070008000000000000001", "ERROR", "2023-11-14 22:13:20.123", 2, "no route"}
	var got line
	err = s.Pool.Read.QueryRowContext(t.Context(), "SELECT id, state, due, payload_bytes, result FROM dbq_tasks").
		Scan(&got.id, &got.state, &got.due, &got.payloadBytes, &got.result)
	check.OK(t, err)
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
