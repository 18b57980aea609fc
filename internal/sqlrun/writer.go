package sqlrun

import (
	"context"
	"database/sql"

	"github.com/dbq-go/dbq/dialect"
)

// writer returns a connection of Pool.Write. If the pool has only one, writer waits for it for at most Patience. Its
// error is a TxError, because nothing was sent.
func (s *Session) writer(ctx context.Context) (*sql.Conn, error) {
	p, wait := s.Pool, ctx
	busy := p.Patience > 0 && p.Write.Stats().InUse > 0
	if busy { // otherwise no wait, so no timer
		patient, cancel := dialect.PatientFor(ctx, p.Patience)
		defer cancel()
		wait = patient
	}
	conn, err := p.Write.Conn(wait)
	if err == nil {
		return conn, nil
	}
	if busy && wait.Err() != nil {
		err = dialect.WriterBusy(wait)
	}
	return nil, &TxError{Err: err}
}
