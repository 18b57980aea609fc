// Package batch helps dialects to run operations on many rows (dialect.BatchRunner): with a shorter statement for
// rows that share most values, and with ways to find the changed rows if a statement cannot return them.
package batch

import (
	"context"
	"fmt"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// A savepoint of a transaction; a later one with the same name replaces it.
const (
	savepoint = "SAVEPOINT dbq_batch"
	undo      = "ROLLBACK TO SAVEPOINT dbq_batch"
)

// Query runs a batch that returns the rows that it changed.
func Query(
	ctx context.Context, s *dialect.Session, c dialect.Conn, b dialect.Batch, args dialect.Args, n int,
) (dialect.Changed, error) {
	rows, err := s.QueryBatch(ctx, c, b, args, n)
	return dialect.Changed{Rows: rows}, err
}

// Locked runs a batch that returns nothing. Before that, lock locks the rows that the batch will change and returns
// them with their new values.
func Locked(
	ctx context.Context, s *dialect.Session, c dialect.Conn, lock, b dialect.Batch, args dialect.Args, n int,
) (dialect.Changed, error) {
	rows, err := s.QueryBatch(ctx, c, lock, args, n)
	if err == nil && len(rows) > 0 {
		_, err = s.ExecBatch(ctx, c, b, args, n)
	}
	return dialect.Changed{Rows: rows}, err
}

// Counted is Locked for a batch that usually changes all of its rows: it does not lock first, but counts the changed
// rows. If some are missing, it rolls back to a savepoint and runs Locked.
func Counted(
	ctx context.Context, s *dialect.Session, c dialect.Conn, lock, b dialect.Batch, args dialect.Args, n int,
) (dialect.Changed, error) {
	if _, err := c.Exec(ctx, savepoint); err != nil {
		return dialect.Changed{}, err
	}
	touched, err := s.ExecBatch(ctx, c, b, args, n)
	if err != nil || touched == int64(n) {
		return dialect.Changed{All: err == nil}, err
	}
	if _, err := c.Exec(ctx, undo); err != nil {
		return dialect.Changed{}, err
	}
	return Locked(ctx, s, c, lock, b, args, n)
}

// Then runs a batch that returns nothing, and returns the rows that another batch finds afterwards.
func Then(
	ctx context.Context, s *dialect.Session, c dialect.Conn, b, after dialect.Batch, args dialect.Args, n int,
) (dialect.Changed, error) {
	if _, err := s.ExecBatch(ctx, c, b, args, n); err != nil {
		return dialect.Changed{}, err
	}
	return Query(ctx, s, c, after, args, n)
}

// One runs a batch that changes a single row, or none.
func One(
	ctx context.Context, s *dialect.Session, c dialect.Conn, b dialect.Batch, args dialect.Args,
) (dialect.Changed, error) {
	touched, err := s.ExecBatch(ctx, c, b, args, 1)
	return dialect.Changed{All: touched == 1}, err
}

// Add runs a batch that inserts new rows. It fails unless all rows are inserted.
func Add(
	ctx context.Context, s *dialect.Session, c dialect.Conn, b dialect.Batch, args dialect.Args, n int,
) (dialect.Changed, error) {
	touched, err := s.ExecBatch(ctx, c, b, args, n)
	if err == nil && touched != int64(n) {
		err = fmt.Errorf("the server reports that it added %d rows instead of %d", touched, n)
	}
	return dialect.Changed{All: err == nil}, err
}

// Existing returns the caller-supplied ids that are in the table. If a dialect's insert cannot report the rows that
// it added, the dialect calls Existing before the insert. Added returns the rows that exist afterwards and did not
// exist before.
func Existing(ctx context.Context, s *dialect.Session, c dialect.Conn, args dialect.Args) ([]dialect.Row, error) {
	ids, reused := args["id"].(dialect.Col[uuid.UUID]), args["reused"].(dialect.Col[int64])
	var given dialect.Col[uuid.UUID]
	for i, id := range ids {
		if reused[i] != 0 {
			given = append(given, id)
		}
	}
	if len(given) == 0 {
		return nil, nil
	}
	return s.QueryBatch(ctx, c, s.Statements.Peek, dialect.Args{"id": given}, len(given))
}

// Added is described at Existing. inserted returns the ids of the existing rows.
func Added(
	ctx context.Context, s *dialect.Session, c dialect.Conn, inserted dialect.Batch, args dialect.Args, n int,
	before []dialect.Row,
) (dialect.Changed, error) {
	rows, err := s.QueryBatch(ctx, c, inserted, args, n)
	old := make(map[uuid.UUID]bool, len(before))
	for _, r := range before {
		old[r.ID] = true
	}
	var added []dialect.Row
	for _, r := range rows {
		if !old[r.ID] {
			added = append(added, r)
		}
	}
	return dialect.Changed{Rows: added}, err
}

// Pick returns the args of some rows, by their indexes.
func Pick(args dialect.Args, rows []int) dialect.Args {
	out := make(dialect.Args, len(args))
	for name, v := range args {
		if col, ok := v.(dialect.Column); ok {
			v = col.Pick(rows)
		}
		out[name] = v
	}
	return out
}
