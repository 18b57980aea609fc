package postgres

import (
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

// TestCheckoutOfSeveralStatementsTakesAllOrNothing makes the second of two statements fail, by a trigger that refuses
// the last task.
func TestCheckoutOfSeveralStatementsTakesAllOrNothing(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn)
		task, schema := s.Names.Table("task"), s.Names.Schema
		for _, text := range []string{
			`INSERT INTO ` + task + ` (id, queue, kind, state, priority, max_attempts, due, created, updated, payload)
SELECT CAST('00000000-0000-7000-8000-00000000000' || i AS uuid), 'q', '', 0, 5, 9, i, 0, 0, ''
  FROM generate_series(1, 3) AS i`,
			`CREATE FUNCTION ` + schema + `.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE 'it lost a race' USING ERRCODE = '40001';
END $$`,
			`CREATE TRIGGER refuse BEFORE UPDATE ON ` + task + `
   FOR EACH ROW WHEN (old.due = 3) EXECUTE FUNCTION ` + schema + `.refuse()`,
		} {
			_, err := s.Pool.Write.ExecContext(t.Context(), text)
			must(t, err)
		}
		take := s.Statements.Private["take ready"]
		take.Max = 2
		s.Statements.Private["take ready"] = take
		r := dialect.CheckoutRequest{Strategy: dialect.CAS, Queue: "q", Limit: 3, Lease: time.Hour, Holder: "h"}
		if leased, err := (Dialect{}).Checkout(t.Context(), &s.Session, r); s.Class(err) != dialect.Conflict {
			t.Errorf("got %d tasks and %v, want a conflict", len(leased.Rows), err)
		}
		var held int
		must(t, s.Pool.Write.QueryRowContext(t.Context(), "SELECT count(*) FROM "+task+" WHERE state = 1").Scan(&held))
		if held != 0 {
			t.Errorf("%d tasks are held by a checkout that returned none", held)
		}
	})
}
