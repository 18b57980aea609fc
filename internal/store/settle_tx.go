package store

import (
	"context"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/limits"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// SettleTx is Settle in the caller's transaction. It tries once, and waits for locked rows as long as the transaction's
// settings allow.
func (s *Store) SettleTx(ctx context.Context, tx sqlrun.Tx, queue string, ss []SettleRow) (
	[]SettleResult, FollowUp, error) {
	conn, err := s.txConn(tx)
	if err != nil {
		return nil, FollowUp{}, err
	}
	b := s.newSettleBatch(queue, ss, true, true)
	if err := b.run(ctx, conn, false); err != nil {
		return nil, FollowUp{}, err
	}
	return b.out, b.added, nil
}

// LeasedTx reports whether a task is leased under a lease, as the caller's transaction sees it.
func (s *Store) LeasedTx(ctx context.Context, tx sqlrun.Tx, l LeaseKey) (bool, error) {
	_, row, err := s.peekTx(ctx, tx, l)
	return l.HeldBy(row), err
}

// SetResultTx replaces the result of a task that the caller's transaction has completed under a lease. If it has not,
// SetResultTx returns ErrLeaseLost.
func (s *Store) SetResultTx(ctx context.Context, tx sqlrun.Tx, l LeaseKey, result []byte) error {
	conn, row, err := s.peekTx(ctx, tx, l)
	if err != nil {
		return err
	}
	if row.State != state.Completed || row.Fence != l.Fence {
		return errs.ErrLeaseLost
	}
	cut := limits.CutResult(result)
	_, err = s.sql.ExecBatch(ctx, conn, s.sql.Texts.SetResult, dialect.Args{
		"id":          dialect.Col[uuid.UUID]{l.Task},
		"result":      dialect.Col[[]byte]{cut},
		"result_size": dialect.Col[*int64]{sizeOf(cut)},
	}, 1)
	return err
}

// peekTx reads the task of a lease as the caller's transaction sees it. The zero row means that there is none.
func (s *Store) peekTx(ctx context.Context, tx sqlrun.Tx, l LeaseKey) (conn dialect.Conn, row dialect.Row, err error) {
	if conn, err = s.txConn(tx); err != nil {
		return nil, row, err
	}
	rows, err := s.Peek(ctx, conn, []uuid.UUID{l.Task})
	return conn, rows[l.Task], err
}
