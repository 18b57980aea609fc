package sqlrun

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// ErrWriterBusy is returned on an engine with one writing connection if that was in use for longer than Pool.Patience.
// Nothing was changed.
var ErrWriterBusy = errors.New(
	"the only writing connection is in use; if this goroutine holds a transaction of Client.DB, " +
		"use EnqueueTx or CompleteTx in it, or end it first",
)

// writer returns a connection of Pool.Write. If the pool has only one, writer waits for it for at most Patience. Its
// error is a TxError, because nothing was sent.
func (s *Session) writer(ctx context.Context) (*sql.Conn, error) {
	p, wait := s.Pool, ctx
	if p.Patience > 0 && p.Write.Stats().InUse > 0 { // otherwise no wait, so no timer
		patient, cancel := context.WithTimeout(ctx, p.Patience)
		defer cancel()
		wait = patient
	}
	conn, err := p.Write.Conn(wait)
	if err == nil {
		return conn, nil
	}
	if wait.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w (waited for %v)", ErrWriterBusy, p.Patience)
	}
	return nil, &TxError{Err: err}
}
