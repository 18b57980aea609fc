package sqlrun

import (
	"context"

	"github.com/dbq-go/dbq/dialect"
)

// RunBatch applies an operation to n rows: by the dialect's BatchRunner or, without one, by the operation's batch.
func (s *Session) RunBatch(
	ctx context.Context, c dialect.Conn, op dialect.Op, args dialect.Args, n int,
) (dialect.Changed, error) {
	if payloads, ok := args["payload"].(dialect.Col[[]byte]); ok {
		bytes := 0
		for _, p := range payloads {
			bytes += len(p)
		}
		tryOf(ctx).sends(bytes)
	}
	if s.batches != nil {
		return s.batches.RunBatch(ctx, &s.Session, c, op, args, n)
	}
	rows, err := s.QueryBatch(ctx, c, s.Texts.Batch(op), args, n)
	return dialect.Changed{Rows: rows}, err
}

// NeedsTx reports whether RunBatch must be in a transaction for these rows.
func (s *Session) NeedsTx(op dialect.Op, args dialect.Args, n int) bool {
	if s.batches != nil {
		return s.batches.NeedsTx(&s.Session, op, args, n)
	}
	return s.Server.ExplicitTx || n > s.Texts.Batch(op).Max
}

// QueryBatch runs a batch of n rows on c, in statements of at most Max rows, and collects the results.
func (s *Session) QueryBatch(
	ctx context.Context, c dialect.Conn, b dialect.Batch, args dialect.Args, n int,
) ([]dialect.Row, error) {
	return QueryBatchAs[dialect.Row](ctx, s, c, b, args, n)
}

// QueryBatchAs is QueryBatch for rows of another kind.
func QueryBatchAs[T any](
	ctx context.Context, s *Session, c dialect.Conn, b dialect.Batch, args dialect.Args, n int,
) (out []T, err error) {
	for from, most := 0, max(b.Max, 1); from < n; from += most {
		to := min(from+most, n)
		q, values, err := s.binder.bindBatch(b, args, from, to)
		if err != nil {
			return nil, err
		}
		rows, err := readAs[T](ctx, c, q, values, to-from)
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = rows
		} else {
			out = append(out, rows...)
		}
	}
	return out, nil
}

// ExecBatch is QueryBatch for a statement that returns nothing. It returns the number of affected rows.
func (s *Session) ExecBatch(
	ctx context.Context, c dialect.Conn, b dialect.Batch, args dialect.Args, n int,
) (touched int64, err error) {
	for from, most := 0, max(b.Max, 1); from < n; from += most {
		q, values, err := s.binder.bindBatch(b, args, from, min(from+most, n))
		if err != nil {
			return touched, err
		}
		k, err := c.Exec(ctx, q, values...)
		touched += k
		if err != nil {
			return touched, err
		}
		tryOf(ctx).answered()
	}
	return touched, nil
}
