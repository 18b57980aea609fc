package postgres

import (
	"context"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit/batch"
)

// NeedsTx reports whether the rows need several statements, or the sessions are not READ COMMITTED by default.
func (Dialect) NeedsTx(s *dialect.Session, op dialect.Op, args dialect.Args, n int) bool {
	if s.Server.ExplicitTx || op != dialect.Settle && op != dialect.Remove {
		return s.Server.ExplicitTx || n > maxRows
	}
	return batch.Split(op, args, n).Statements(maxRows) > 1
}

// RunBatch uses separate statements for uniform rows.
func (Dialect) RunBatch(
	ctx context.Context, s *dialect.Session, c dialect.Conn, op dialect.Op, args dialect.Args, n int,
) (dialect.Changed, error) {
	own := s.Private
	query := func(b dialect.Batch) batch.RunFunc {
		return func(args dialect.Args, n int) (dialect.Changed, error) { return batch.Query(ctx, s, c, b, args, n) }
	}
	plain := query(s.Statements.Batch(op))
	switch op {
	case dialect.Insert:
		if uniform := batch.UniformInsert(args); uniform != nil {
			return batch.Add(ctx, s, c, own("insert uniform"), uniform, n)
		}
	case dialect.Settle:
		return batch.Split(op, args, n).Run(plain, query(own("complete uniform")))
	case dialect.Remove:
		return batch.Split(op, args, n).Run(plain, query(own("remove uniform")))
	}
	return plain(args, n)
}
