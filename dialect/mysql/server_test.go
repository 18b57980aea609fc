package mysql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/dialecttest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

// onEachServer runs f on each server that the environment names, and skips with the reason when it names none.
func onEachServer(t *testing.T, f func(t *testing.T, dsn string)) {
	t.Helper()
	t.Parallel()
	dialecttest.OnEachServer(t, "MySQL or MariaDB", dialecttest.MySQLServers, f)
}

// migrated is a session on dbq's tables in a database of the test's own.
func migrated(t *testing.T, dsn string) *sqlrun.Session {
	t.Helper()
	s := dialecttest.OwnSchema(t, Dialect{}, Open, dsn, "DROP DATABASE IF EXISTS %s")
	for range 2 { // each statement can be run again
		for _, query := range dialecttest.Schema(s) {
			if _, err := s.Pool.Write.ExecContext(t.Context(), query); err != nil {
				t.Fatalf("%v\n%s", err, query)
			}
		}
	}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	check.OK(t, err)
}

// fill adds n rows of queue work by one statement. Values are for state, priority, attempt, fence, due_at, lease_end
// and taken_by, and may use n.i, the number of the row. n is at most 100,000.
func fill(t *testing.T, s *sqlrun.Session, n int, values string) {
	t.Helper()
	const digits = `(
  SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL
  SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)`
	query := fmt.Sprintf(`
INSERT INTO {task}
       (id, queue, kind, max_attempts, created, updated, payload,
        state, priority, attempt, fence, due_at, lease_end, taken_by)
SELECT UNHEX(CONCAT('%x', '7', LPAD(HEX(n.i), 15, '0'))), 'work', '', 10, 1, 1, REPEAT('p', 40),
       %s
  FROM (SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS i
          FROM %[3]s a, %[3]s b, %[3]s c, %[3]s e, %[3]s f) AS n
 WHERE n.i < %[4]d`, []byte(uuid.NewString()[:8]), values, digits, n)
	if _, err := s.Pool.Write.ExecContext(t.Context(), text(s.Names, query)); err != nil {
		t.Fatalf("%v\n%s", err, query)
	}
}

// analyze makes the optimizer's statistics fresh.
func analyze(t *testing.T, s *sqlrun.Session) {
	t.Helper()
	rows, err := s.Pool.Write.QueryContext(t.Context(), text(s.Names, "ANALYZE TABLE {task}"))
	must(t, err)
	must(t, rows.Close())
}

func TestProbe(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		pool, err := Open(t.Context(), dsn, nil)
		must(t, err)
		defer pool.Close()
		s, err := Dialect{}.Probe(t.Context(), pool.Write)
		must(t, err)
		product := "MySQL"
		if strings.HasPrefix(dsn, "mariadb:") {
			product = "MariaDB"
		}
		if s.Product != product || s.Version == "" || len(s.Strategies) != 3 ||
			s.MaxPayload < 1<<20 || s.Precision == 0 || !s.ExplicitTx {
			t.Errorf("got %+v", s)
		}
		t.Logf("%+v", s)
	})
}

// text writes names into a text.
func text(n dialect.Names, s string) string { return filler(n)(s) }
