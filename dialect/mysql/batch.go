package mysql

import (
	"context"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/dbq-go/dbq/dialect/kit/batch"
)

// timedLeast is the smallest insert that is worth a separate query for the database's time.
const timedLeast = 50

// NeedsTx reports whether rows need several statements. An insert that may skip rows needs a second one in the
// same transaction, which reads the added rows: if that ran later, a row that had been completed and removed by then
// would look like one that was not added. A renewal or a mark commits by itself: the rows that it changed may be read
// later.
func (Dialect) NeedsTx(_ *dialect.Session, op dialect.Op, args dialect.Args, n int) bool {
	if op == dialect.Extend || op == dialect.Start {
		return n > maxRows
	}
	return op != dialect.Insert || n > maxRows || n > 1 && !batch.New(args)
}

// RunBatch runs a statement and determines which rows it changed, which neither server can return.
func (Dialect) RunBatch(
	ctx context.Context, s *dialect.Session, c dialect.Conn, op dialect.Op, args dialect.Args, n int,
) (dialect.Changed, error) {
	b, own := s.Statements.Batch(op), s.Private
	switch op {
	case dialect.Insert:
		return insert(ctx, s, c, args, n)
	case dialect.Extend:
		return batch.Then(ctx, s, c, b, own("extended"), args, n)
	case dialect.Start:
		return batch.Then(ctx, s, c, b, own("known_started"), args, n)
	case dialect.Remove:
		return batch.Counted(ctx, s, c, own("lock remove"), b, args, n)
	}
	return batch.Split(op, args, n).Run(func(args dialect.Args, n int) (dialect.Changed, error) {
		settled, err := batch.Locked(ctx, s, c, own("lock settle"), b, args, n)
		if err == nil {
			err = kit.KeepProgress(ctx, s, c, settled.Rows)
		}
		return settled, err
	}, func(args dialect.Args, n int) (dialect.Changed, error) {
		return batch.Counted(ctx, s, c, own("lock uniform"), own("complete uniform"), args, n)
	})
}

// insert has a statement of its own for uniform rows.
func insert(
	ctx context.Context, s *dialect.Session, c dialect.Conn, args dialect.Args, n int,
) (dialect.Changed, error) {
	if uniform := batch.UniformInsert(args); uniform != nil && n >= timedLeast {
		if shared, _ := uniform["now"].(*int64); shared == nil {
			rows, err := s.Query(ctx, c, s.Statements.ReadNow(), nil)
			if err != nil {
				return dialect.Changed{}, err
			}
			uniform["now"] = rows[0].Now
		}
		return batch.Add(ctx, s, c, s.Private("insert uniform"), uniform, n)
	}
	return batch.Skipping(ctx, s, c, s.Statements.Insert, s.Private("inserted"), args, n)
}
