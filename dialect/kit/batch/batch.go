// Package batch runs operations on many rows, for dialects that implement dialect.BatchRunner.
//
// If a statement cannot return the rows that it changed, as on MySQL and Oracle, these functions find them: Locked
// locks them first, Counted counts them and locks only if some are missing, Then reads them afterwards, and Skipping is
// for an insert that leaves out rows. TakeOver takes over expired leases, for an engine that keeps renewals in a table
// of their own.
//
// If many rows share most values, a shorter statement is faster: UniformInsert recognizes an insert of such rows, and
// Split divides a settlement into parts of rows under one fence. FillPayloads reads the payloads that a search omitted.
//
// dialect/mysql/batch.go uses most of it, and dialect/postgres/batch.go is the shortest.
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

// Skipping runs a batch that inserts rows, leaves out those that exist, and does not return the ones that it added. If
// it added only some, inserted finds them by their ids, which are new. An id that the caller gave may be that of a row
// that another transaction has added meanwhile. So if there is one, Skipping rolls back to a savepoint, and adds one
// row at a time.
func Skipping(
	ctx context.Context, s *dialect.Session, c dialect.Conn, b, inserted dialect.Batch, args dialect.Args, n int,
) (dialect.Changed, error) {
	undoable := n > 1 && Given(args)
	if undoable {
		if _, err := c.Exec(ctx, savepoint); err != nil {
			return dialect.Changed{}, err
		}
	}
	touched, err := s.ExecBatch(ctx, c, b, args, n)
	if err != nil || touched == 0 || touched == int64(n) {
		return dialect.Changed{All: err == nil && touched == int64(n)}, err
	}
	if !undoable {
		return Query(ctx, s, c, inserted, args, n)
	}
	if _, err := c.Exec(ctx, undo); err != nil {
		return dialect.Changed{}, err
	}
	return OneByOne(args, n, func(row dialect.Args) (dialect.Changed, error) { return One(ctx, s, c, b, row) })
}

// Given reports whether the caller gave the id of one of the rows of an insert.
func Given(args dialect.Args) bool { return !unset(args["reused"]) }

// OneByOne runs add for each row, in their order, and returns the rows that it added.
func OneByOne(
	args dialect.Args, n int, add func(row dialect.Args) (dialect.Changed, error),
) (out dialect.Changed, err error) {
	ids := args["id"].(dialect.Col[uuid.UUID])
	for i := range n {
		added, err := add(Pick(args, []int{i}))
		if err != nil {
			return out, err
		}
		if added.All {
			out.Rows = append(out.Rows, dialect.Row{ID: ids[i]})
		}
	}
	return out, nil
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
