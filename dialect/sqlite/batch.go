package sqlite

import (
	"context"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit/batch"
)

// NeedsTx reports whether rows take several statements, or a list of which not all may be changed.
func (Dialect) NeedsTx(_ *dialect.Session, op dialect.Op, args dialect.Args, n int) bool {
	if op != dialect.Settle && op != dialect.Remove {
		return n > maxRows
	}
	p := batch.Split(op, args, n)
	return p.Uniform() || p.Statements(maxRows) > 1
}

// RunBatch has statements of its own for a single row and for uniform rows.
func (Dialect) RunBatch(
	ctx context.Context, s *dialect.Session, c dialect.Conn, op dialect.Op, args dialect.Args, n int,
) (dialect.Changed, error) {
	own := s.Private
	if name := oneRow(op, args); n == 1 && name != "" {
		return batch.One(ctx, s, c, own(name), args)
	}
	plain := func(args dialect.Args, n int) (dialect.Changed, error) {
		return batch.Query(ctx, s, c, s.Statements.Batch(op), args, n)
	}
	switch op {
	case dialect.Insert:
		if uniform := batch.UniformInsert(args); uniform != nil {
			return batch.Add(ctx, s, c, own("insert uniform"), uniform, n)
		}
	case dialect.Settle, dialect.Remove:
		change := own("complete uniform")
		if op == dialect.Remove {
			change = own("remove uniform")
		}
		return batch.Split(op, args, n).Run(plain, func(args dialect.Args, n int) (dialect.Changed, error) {
			return batch.Counted(ctx, s, c, own("lock uniform"), change, args, n)
		})
	}
	return plain(args, n)
}

// oneRow is the statement for a single row, or "".
func oneRow(op dialect.Op, args dialect.Args) string {
	switch {
	case op == dialect.Insert && batch.New(args):
		return "insert one new"
	case op == dialect.Insert:
		return "insert one"
	case op == dialect.Remove:
		return "remove one"
	case op == dialect.Settle && batch.Completes(args):
		return "complete one"
	}
	return ""
}
