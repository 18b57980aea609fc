package postgres

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func TestTxOf(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		pool, err := pgxpool.New(t.Context(), dsn)
		must(t, err)
		t.Cleanup(pool.Close)
		opened, err := Open(t.Context(), dsn, nil)
		must(t, err)
		t.Cleanup(func() { _ = opened.Close() })
		for name, db := range map[string]*sql.DB{"Open": opened.Write, "FromPool": FromPool(pool)} {
			t.Run(name, func(t *testing.T) { txOf(t, db) })
		}
	})
}

// txOf writes by both, in a savepoint too, and finds all of it or nothing of it afterwards.
func txOf(t *testing.T, db *sql.DB) {
	db.SetMaxOpenConns(1) // a temporary table is of one session
	_, err := db.ExecContext(t.Context(), "CREATE TEMPORARY TABLE of_two (n int)")
	must(t, err)
	count := func() (n int) {
		must(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM of_two").Scan(&n))
		return n
	}
	write := func(ctx context.Context, tx *sql.Tx) pgx.Tx {
		_, err := tx.ExecContext(ctx, "INSERT INTO of_two VALUES ($1)", 1)
		must(t, err)
		ptx, err := TxOf(ctx, tx)
		must(t, err)
		n, err := ptx.CopyFrom(ctx, pgx.Identifier{"of_two"}, []string{"n"}, pgx.CopyFromRows([][]any{{2}, {3}}))
		if err != nil || n != 2 {
			t.Fatalf("copied %d rows, %v", n, err)
		}
		must(t, pgx.BeginFunc(ctx, ptx, func(inner pgx.Tx) error {
			_, err := inner.Exec(ctx, "INSERT INTO of_two VALUES ($1)", 4)
			return err
		}))
		inner, err := ptx.Begin(ctx)
		must(t, err)
		_, err = inner.Exec(ctx, "INSERT INTO of_two VALUES ($1)", 5)
		must(t, err)
		must(t, inner.Rollback(ctx))
		if ptx.Commit(ctx) == nil || ptx.Rollback(ctx) == nil {
			t.Error("the pgx.Tx has ended the transaction")
		}
		var seen int
		must(t, tx.QueryRowContext(ctx, "SELECT count(*) FROM of_two").Scan(&seen))
		if seen != 4 {
			t.Errorf("the *sql.Tx sees %d rows, want 4", seen)
		}
		return ptx
	}
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	write(t.Context(), tx)
	must(t, tx.Rollback())
	if n := count(); n != 0 {
		t.Errorf("%d rows after the rollback", n)
	}
	tx, err = db.BeginTx(t.Context(), nil)
	must(t, err)
	write(t.Context(), tx)
	must(t, tx.Commit())
	if n := count(); n != 4 {
		t.Errorf("%d rows after the commit, want 4", n)
	}
	if _, err := TxOf(t.Context(), tx); err == nil {
		t.Error("a transaction that has ended is a pgx.Tx")
	}
}
