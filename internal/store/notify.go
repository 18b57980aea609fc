package store

import (
	"context"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// Notifies reports whether the server passes notifications on to other processes.
func (s *Store) Notifies() bool { return s.sql.Server.Notifies && s.sql.Texts.Notify != "" }

// Listens reports whether Listen can work.
func (s *Store) Listens() bool {
	_, ok := s.sql.Dialect.(dialect.Listener)
	return ok && s.sql.Server.Pooler == ""
}

// channel names the channel by which the clients of these tables notify each other.
func (s *Store) channel() string { return s.sql.Names.Table("task") }

// Notify sends a payload to all listeners, in a transaction of its own.
func (s *Store) Notify(ctx context.Context, payload string) error {
	args := dialect.Args{"channel": s.channel(), "payload": payload}
	_, err := s.sql.Exec(ctx, sqlrun.ConnOf(s.sql.Pool.Write), s.sql.Texts.Notify, args)
	return err
}

// Listen calls ready, and then received for each payload that Notify sends. It returns when ctx ends or its connection
// is lost. The connection is not from the pool.
func (s *Store) Listen(ctx context.Context, ready func(), received func(payload string)) error {
	return s.sql.Dialect.(dialect.Listener).Listen(ctx, s.sql.Pool.Write, s.channel(), ready, received)
}
