package store

import (
	"bytes"
	"context"
	"slices"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// findKeys reads keys, and the states of their tasks.
func (s *Store) findKeys(ctx context.Context, conn dialect.Conn, ids []uuid.UUID) ([]sqlrun.KeyRow, error) {
	args := dialect.Args{"id": dialect.Col[uuid.UUID](ids)}
	return sqlrun.QueryBatchAs[sqlrun.KeyRow](ctx, s.sql, conn, s.sql.Texts.FindKeys, args, len(ids))
}

func idsOfKeys(keys []*uniqueKey) []uuid.UUID {
	ids := make([]uuid.UUID, len(keys))
	for i, k := range keys {
		ids[i] = k.id
	}
	return ids
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

// cleanKeys removes the unique keys that have expired and whose tasks are completed or removed. Other tasks exclude
// others, or can return to the queue and do so again: their keys are checked again later.
func (s *Store) cleanKeys(ctx context.Context) error {
	for {
		checked := 0
		err := s.writeTx(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) (err error) {
			checked, err = s.cleanKeysOnce(ctx, conn)
			return err
		})
		if err != nil || checked < cleanBatch {
			return err
		}
		if err := Sleep(ctx, cleanPause); err != nil {
			return err
		}
	}
}

// cleanKeysOnce checks some keys, and returns how many.
func (s *Store) cleanKeysOnce(ctx context.Context, conn dialect.Conn) (checked int, err error) {
	old, err := s.sql.Query(ctx, conn, s.sql.Texts.OldKeys, dialect.Args{"limit": cleanBatch})
	if err != nil || len(old) == 0 {
		return 0, err
	}
	ids := dialect.Col[uuid.UUID](slices.SortedFunc(slices.Values(idsOf(old)), compareIDs))
	if _, err := sqlrun.QueryBatchAs[sqlrun.KeyRow](
		ctx, s.sql, conn, s.sql.Texts.LockKeys, dialect.Args{"id": ids}, len(ids)); err != nil {
		return 0, err
	}
	now, err := s.sql.Now(ctx, conn)
	if err != nil {
		return 0, err
	}
	rows, err := s.findKeys(ctx, conn, ids) // as they are now, under lock
	if err != nil {
		return 0, err
	}
	var ended, id, task dialect.Col[uuid.UUID]
	var expires dialect.Col[int64]
	for _, k := range rows {
		switch {
		case k.Expires > now: // a task has taken it
		case k.State != nil && *k.State != int64(state.Completed):
			id, task, expires = append(id, k.ID), append(task, k.Task), append(expires, now+keyKept.Microseconds())
		default:
			ended = append(ended, k.ID)
		}
	}
	if len(id) > 0 {
		args := dialect.Args{"id": id, "task": task, "expires": expires}
		if _, err := s.sql.ExecBatch(ctx, conn, s.sql.Texts.SetKeys, args, len(id)); err != nil {
			return 0, err
		}
	}
	return len(old), s.dropKeys(ctx, conn, ended)
}

// dropKeys removes keys that the transaction has locked.
func (s *Store) dropKeys(ctx context.Context, conn dialect.Conn, ids dialect.Col[uuid.UUID]) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := s.sql.ExecBatch(ctx, conn, s.sql.Texts.DropKeys, dialect.Args{"id": ids}, len(ids))
	return err
}
