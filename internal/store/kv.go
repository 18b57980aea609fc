package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

// Limits of key/value records.
const (
	MaxValue      = 4000   // bytes of a record's value, which a text column of any engine can hold
	maxRecords    = 10_000 // records of one namespace that ListKV and EarliestKV return
	maxKVAttempts = 20     // of UpdateKV, while other clients change the same record
)

// errKVBusy reports that other clients changed the record each time.
var errKVBusy = fmt.Errorf("%w: other clients keep changing the record; try again", errs.ErrConflict)

// Record is a key/value record, identified by its namespace and name. All clients of the same tables share them.
// Times are in microseconds, by the database's clock.
type Record sqlrun.KVRow

// Expired reports whether the record's time to live had ended when it was read. Expired records stay until they are
// deleted.
func (r Record) Expired() bool { return r.Expires != nil && *r.Expires <= r.Now }

// GetKV reads a record, expired or not.
func (s *Store) GetKV(ctx context.Context, namespace, name string) (r Record, exists bool, err error) {
	rows, err := readRows[Record](ctx, s, s.sql.Texts.GetKV, dialect.Args{"namespace": namespace, "name": name})
	if err != nil || len(rows) == 0 {
		return Record{}, false, err
	}
	return rows[0], true, nil
}

// ListKV returns up to 10,000 records of a namespace, ordered by name, including expired ones.
func (s *Store) ListKV(ctx context.Context, namespace string) ([]Record, error) {
	if l, ok := ctx.Value(listedKey{}).(*listed); ok && l.store == s && slices.Contains(l.namespaces, namespace) {
		l.read.Do(func() { l.list(ctx) })
		return l.by[namespace], l.err
	}
	return readRows[Record](ctx, s, s.sql.Texts.ListKV, dialect.Args{"namespace": namespace, "limit": maxRecords})
}

// EarliestKV returns up to limit records of a namespace that expire, the earliest first, including expired ones.
// Records that never expire are left out.
func (s *Store) EarliestKV(ctx context.Context, namespace string, limit int) ([]Record, error) {
	return readRows[Record](ctx, s, s.sql.Texts.EarliestKV,
		dialect.Args{"namespace": namespace, "limit": min(limit, maxRecords)})
}

// PutKV writes a record, whatever it was before. It expires after ttl; 0 means never.
func (s *Store) PutKV(ctx context.Context, namespace, name, value string, ttl time.Duration) error {
	return s.UpdateKV(ctx, namespace, name, func(Record, bool) (string, time.Duration, error) { return value, ttl, nil })
}

// UpdateKV atomically replaces a record's value and time to live with those that change returns. If another client
// changes the record in the meantime, it reads the record and calls change again. An error of change ends the update.
// After many changes of others it returns ErrConflict.
func (s *Store) UpdateKV(ctx context.Context, namespace, name string,
	change func(old Record, exists bool) (value string, ttl time.Duration, err error)) error {
	for range maxKVAttempts {
		old, exists, err := s.GetKV(ctx, namespace, name)
		if err != nil {
			return err
		}
		value, ttl, err := change(old, exists)
		if err != nil {
			return err
		}
		if done, err := s.SwapKV(ctx, old, exists, namespace, name, value, ttl); done || err != nil {
			return err
		}
	}
	return errKVBusy
}

// SwapKV writes a record that was read as old, unless it has changed since. It reports whether it wrote it.
func (s *Store) SwapKV(ctx context.Context, old Record, exists bool, namespace, name, value string, ttl time.Duration) (
	done bool, err error) {
	args, err := kvArgs(namespace, name, value, old.Version, ttl)
	if err != nil {
		return false, err
	}
	text := s.sql.Texts.AddKV
	if exists {
		text = s.sql.Texts.SetKV
	}
	var changed int64
	unsure, write, audit := false, s.write, auditOf(ctx)
	if audit != nil {
		write = s.writeTx
	}
	err = write(ctx, func(ctx context.Context, conn dialect.Conn, again bool) (err error) {
		changed, err = s.sql.Exec(ctx, conn, text, args)
		unsure = again && changed == 0
		if err == nil && changed > 0 {
			err = s.auditKV(ctx, conn, audit, old.Value, value)
		}
		return err
	})
	if s.sql.Class(err) == dialect.Duplicate { // another client adds it at the same time
		changed, err = 0, nil
	}
	if err == nil && unsure { // an earlier try of this call may have written it
		now, there, err := s.GetKV(ctx, namespace, name)
		return there && now.Value == value && (!exists || now.Version == old.Version+1), err
	}
	return changed > 0, err
}

// SwapKVTx is SwapKV of an existing record in the caller's transaction. It tries once.
func (s *Store) SwapKVTx(ctx context.Context, tx sqlrun.Tx, old Record, value string, ttl time.Duration) (
	done bool, err error) {
	conn, err := s.txConn(tx)
	if err != nil {
		return false, err
	}
	return s.setKV(ctx, conn, old, value, ttl)
}

// setKV writes a record that was read as old, unless it has changed since.
func (s *Store) setKV(ctx context.Context, conn dialect.Conn, old Record, value string, ttl time.Duration) (
	done bool, err error) {
	args, err := kvArgs(old.Namespace, old.Name, value, old.Version, ttl)
	if err != nil {
		return false, err
	}
	changed, err := s.sql.Exec(ctx, conn, s.sql.Texts.SetKV, args)
	return changed > 0, err
}

// kvArgs are the values of a record that is written; a ttl of 0 keeps it forever.
func kvArgs(namespace, name, value string, version int64, ttl time.Duration) (dialect.Args, error) {
	if len(value) > MaxValue {
		return nil, fmt.Errorf("%w: %d bytes to keep, at most %d are allowed", errs.ErrOption, len(value), MaxValue)
	}
	args := dialect.Args{"namespace": namespace, "name": name, "value": value, "version": version, "ttl": (*int64)(nil)}
	if ttl > 0 {
		us := ttl.Microseconds()
		args["ttl"] = &us
	}
	return args, nil
}

// DeleteKV removes a record. A record that does not exist is not an error.
func (s *Store) DeleteKV(ctx context.Context, namespace, name string) error {
	args, audit := dialect.Args{"namespace": namespace, "name": name}, auditOf(ctx)
	if audit == nil {
		return s.write(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) error {
			_, err := s.sql.Exec(ctx, conn, s.sql.Texts.DropKV, args)
			return err
		})
	}
	return s.writeTx(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) error {
		old, exists, err := s.lockKV(ctx, conn, namespace, name)
		if err != nil || !exists {
			return err
		}
		if _, err := s.sql.Exec(ctx, conn, s.sql.Texts.DropKV, args); err != nil {
			return err
		}
		return s.auditKV(ctx, conn, audit, old.Value, "")
	})
}

// lockKV locks a record until the transaction ends, and then reads it.
func (s *Store) lockKV(ctx context.Context, conn dialect.Conn, namespace, name string) (
	r Record, exists bool, err error,
) {
	args := dialect.Args{"namespace": namespace, "name": name}
	n, err := s.sql.Exec(ctx, conn, s.sql.Texts.LockKV, args)
	if err != nil || n == 0 {
		return r, false, err
	}
	rows, err := sqlrun.QueryAs[Record](ctx, s.sql, conn, s.sql.Texts.GetKV, args)
	if err != nil || len(rows) != 1 {
		return r, false, err
	}
	return rows[0], true, nil
}

// DeleteExpiredKV removes the records of a namespace that expired at least age ago.
func (s *Store) DeleteExpiredKV(ctx context.Context, namespace string, age time.Duration) error {
	return s.write(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) error {
		args := dialect.Args{"namespace": namespace, "age": age.Microseconds()}
		_, err := s.sql.Exec(ctx, conn, s.sql.Texts.ExpireKV, args)
		return err
	})
}

// KVSwap is the change of a key/value record that an insert makes in its own transaction.
type KVSwap struct {
	Old Record // as it was read
	// Value returns the record's new value and time to live for the id of the first task.
	Value func(task uuid.UUID) (value string, ttl time.Duration, err error)
}

// ErrKVChanged is returned by an insert with a KVSwap if the record has changed since it was read. Nothing is changed.
var ErrKVChanged = errors.New("another client has changed the record")

type swapKey struct{}

// WithKVSwap returns a context whose Insert, by one call of the store, also makes the change of a record.
func WithKVSwap(ctx context.Context, swap KVSwap) context.Context {
	return context.WithValue(ctx, swapKey{}, &swap)
}

// swapOf returns the change that a context has, or nil.
func swapOf(ctx context.Context) *KVSwap {
	swap, _ := ctx.Value(swapKey{}).(*KVSwap)
	return swap
}

// swapKV makes the change. Without one it does nothing.
func (s *Store) swapKV(ctx context.Context, conn dialect.Conn, swap *KVSwap, task uuid.UUID) error {
	if swap == nil {
		return nil
	}
	value, ttl, err := swap.Value(task)
	if err != nil {
		return err
	}
	done, err := s.setKV(ctx, conn, swap.Old, value, ttl)
	if err == nil && !done {
		err = ErrKVChanged
	}
	return err
}
