package dialect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// ErrWriterBusy is why a statement did not begin on an engine with one writing connection: somebody had it for longer
// than Pool.Patience. Nothing happened.
var ErrWriterBusy = errors.New(
	"the one connection that writes is in use: a call does not go on while its own caller has " +
		"a transaction of Client.DB open; use the Tx call in that transaction (EnqueueTx, CompleteTx), or end it first",
)

// Writer is a connection of Write. Where there is one alone, it waits for it no longer than Patience.
func (p Pool) Writer(ctx context.Context) (*sql.Conn, error) {
	if p.Patience == 0 || p.Write.Stats().InUse == 0 { // it need not wait, so it need not watch the time
		return p.Write.Conn(ctx)
	}
	patient, cancel := context.WithTimeout(ctx, p.Patience)
	defer cancel()
	conn, err := p.Write.Conn(patient)
	if err != nil && patient.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w (waited for %v)", ErrWriterBusy, p.Patience)
	}
	return conn, err
}
