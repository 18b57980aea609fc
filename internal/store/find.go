package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

// GetTask reads one task with its payload, or ErrNotFound.
func (s *Store) GetTask(ctx context.Context, id uuid.UUID) (dialect.Row, error) {
	return read(ctx, s, func(ctx context.Context, conn dialect.Conn) (dialect.Row, error) {
		return s.getTask(ctx, conn, id)
	})
}

// GetTaskTx is GetTask as the caller's transaction sees the task.
func (s *Store) GetTaskTx(ctx context.Context, tx sqlrun.Tx, id uuid.UUID) (dialect.Row, error) {
	conn, err := s.txConn(tx)
	if err != nil {
		return dialect.Row{}, err
	}
	return s.getTask(ctx, conn, id)
}

func (s *Store) getTask(ctx context.Context, conn dialect.Conn, id uuid.UUID) (dialect.Row, error) {
	rows, err := s.sql.Query(ctx, conn, s.sql.Texts.Get, dialect.Args{"id": id})
	if err == nil && len(rows) == 0 {
		err = errs.ErrNotFound
	}
	if err != nil {
		return dialect.Row{}, err
	}
	return rows[0], nil
}

// FindReference returns the id of the task with a reference in a queue, or ErrNotFound.
func (s *Store) FindReference(ctx context.Context, queue, reference string) (uuid.UUID, error) {
	return read(ctx, s, func(ctx context.Context, conn dialect.Conn) (uuid.UUID, error) {
		return s.findReference(ctx, conn, queue, reference)
	})
}

func (s *Store) findReference(ctx context.Context, conn dialect.Conn, queue, reference string) (uuid.UUID, error) {
	args := dialect.Args{"queue": queue, "reference": reference}
	rows, err := s.sql.Query(ctx, conn, s.sql.Texts.FindReference, args)
	if err != nil {
		return uuid.Nil, err
	}
	if len(rows) == 0 {
		return uuid.Nil, errs.ErrNotFound
	}
	return rows[0].ID, nil
}

// NextDue returns the time until a task of a queue can be checked out, by the database's clock. It is 0 if a task is
// due or a lease has expired. ok is false if there is no such time, or the queue is paused.
func (s *Store) NextDue(ctx context.Context, queue string) (wait time.Duration, ok bool, err error) {
	rows, err := read(ctx, s, func(ctx context.Context, conn dialect.Conn) ([]dialect.Row, error) {
		return s.sql.Next(ctx, conn, queue)
	})
	if err != nil || len(rows) == 0 || rows[0].Due == nil {
		return 0, false, err
	}
	us := max(*rows[0].Due-rows[0].Now, 0)
	us = min(us, math.MaxInt64/int64(time.Microsecond)) // the most that a Duration can hold
	return time.Duration(us) * time.Microsecond, true, nil
}

// ReadNow reads the database's clock, in microseconds since 1970.
func (s *Store) ReadNow(ctx context.Context) (now int64, err error) {
	return read(ctx, s, s.sql.Now)
}

// Peek reads id, queue, state, fence and updated of tasks. Those that do not exist are missing from the map.
func (s *Store) Peek(ctx context.Context, conn dialect.Conn, ids []uuid.UUID) (map[uuid.UUID]dialect.Row, error) {
	rows, err := queryIDs[dialect.Row](ctx, s, conn, s.sql.Texts.Peek, ids)
	return byID(rows), err
}

// PeekTasks is Peek on a connection for reading.
func (s *Store) PeekTasks(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]dialect.Row, error) {
	return read(ctx, s, func(ctx context.Context, conn dialect.Conn) (map[uuid.UUID]dialect.Row, error) {
		return s.Peek(ctx, conn, ids)
	})
}

// Ids are UUIDs that begin with the milliseconds of their time, so they sort by time.

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

// firstID returns the lowest id of a time.
func firstID(t time.Time) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:], uint64(max(0, t.UnixMilli()))<<16)
	return id
}

// TimeOf returns the time of an id.
func TimeOf(id uuid.UUID) time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:]) >> 16))
}

// nextID returns the lowest id above id.
func nextID(id uuid.UUID) uuid.UUID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]++; id[i] != 0 {
			break
		}
	}
	return id
}

// prevID returns the highest id below id.
func prevID(id uuid.UUID) uuid.UUID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]--; id[i] != 0xff {
			break
		}
	}
	return id
}
