package store

import (
	"context"
	"errors"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

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
	args, err := kvArgs(swap.Old.Namespace, swap.Old.Name, value, swap.Old.Version, ttl)
	if err != nil {
		return err
	}
	changed, err := s.sql.Exec(ctx, conn, s.sql.Texts.SetKV, args)
	if err == nil && changed == 0 {
		err = ErrKVChanged
	}
	return err
}
