package store

import (
	"context"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// Notifies reports whether the server passes notifications on to other processes.
func (s *Store) Notifies() bool { return s.Server.Notifies && s.Statements.Notify != "" }

// Listens reports whether Listen can work.
func (s *Store) Listens() bool {
	_, ok := s.Dialect.(dialect.Listener)
	return ok && s.Server.Pooler == ""
}

// channel is where the clients of these tables notify each other.
func (s *Store) channel() string { return s.Names.Table("task") }

// Notify sends a payload to those who listen, in a transaction of its own.
func (s *Store) Notify(ctx context.Context, payload string) error {
	conn, err := sqlrun.ConnOf(s.Pool.Write)
	if err == nil {
		_, err = s.Exec(ctx, conn, s.Statements.Notify, dialect.Args{"channel": s.channel(), "payload": payload})
	}
	return err
}

// Listen calls received for each payload that Notify sends from the call of ready on, until ctx ends or the connection,
// which is not one of the pool's, is lost.
func (s *Store) Listen(ctx context.Context, ready func(), received func(payload string)) error {
	return s.Dialect.(dialect.Listener).Listen(ctx, s.Pool.Write, s.channel(), ready, received)
}
