package oracle

import (
	"context"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/batch"
)

// NeedsTx always returns true: a statement that changes rows does not return them, so a second one reads them.
func (Dialect) NeedsTx(*dialect.Session, dialect.Op, dialect.Args, int) bool { return true }

// RunBatch changes rows, and determines which ones by a query before or after the change.
func (Dialect) RunBatch(
	ctx context.Context, s *dialect.Session, c dialect.Conn, op dialect.Op, args dialect.Args, n int,
) (dialect.Changed, error) {
	b, own := s.Statements.Batch(op), s.Statements.Own
	switch op {
	case dialect.Insert:
		return insert(ctx, s, c, args, n)
	case dialect.Extend:
		return batch.Then(ctx, s, c, b, own["extended"], args, n)
	}
	locked, err := batch.Locked(ctx, s, c, own["lock"], b, args, n)
	if err != nil || op != dialect.Settle || len(locked.Rows) == 0 {
		return locked, err
	}
	settled, err := s.QueryBatch(ctx, c, own["settled"], args, n)
	return dialect.Changed{Rows: batch.Among(settled, locked.Rows)}, err
}

// insert adds rows in blocks of few sizes, and reads which rows were added.
func insert(
	ctx context.Context, s *dialect.Session, c dialect.Conn, args dialect.Args, n int,
) (dialect.Changed, error) {
	before, err := batch.Existing(ctx, s, c, args)
	if err != nil {
		return dialect.Changed{}, err
	}
	var out dialect.Changed
	for from := 0; from < n; {
		rows := block(args["payload"].(dialect.Col[[]byte]), from)
		part := batch.Pick(args, rows)
		if _, err := s.ExecBatch(ctx, c, s.Statements.Insert, part, len(rows)); err != nil {
			return out, err
		}
		added, err := batch.Added(ctx, s, c, s.Statements.Own["inserted"], part, len(rows), before)
		if err != nil {
			return out, err
		}
		out.Rows = append(out.Rows, added.Rows...)
		from += len(rows)
	}
	return out, nil
}

// blockSizes are the possible numbers of rows in a block. There are few, because each text and each list of bound types
// has its own cursor in the shared pool. SQL Tuning Guide, "Cursor Sharing": bind variables of different types or
// maximum lengths prevent sharing.
var blockSizes = []int{maxTasks, 50, 20, 10, 5, 2, 1}

// block returns the indexes of the rows of the block that begins with row from. A block has either payloads bound as
// RAW or payloads bound as BLOB, so that a text has two lists of types, not one for each order of the two.
func block(payloads [][]byte, from int) (rows []int) {
	long := func(i int) bool { return len(payloads[i]) > inlineBytes }
	to := from + 1
	for to < len(payloads) && to-from < maxTasks && long(to) == long(from) {
		to++
	}
	for _, size := range blockSizes {
		if size <= to-from {
			to = from + size
			break
		}
	}
	for i := from; i < to; i++ {
		rows = append(rows, i)
	}
	return rows
}
