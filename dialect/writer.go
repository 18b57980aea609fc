package dialect

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

// Writer returns a connection of Write. If Write has only one, Writer waits for it for at most Patience.
func (p Pool) Writer(ctx context.Context) (*sql.Conn, error) {
	if p.Patience == 0 || p.Write.Stats().InUse == 0 { // no wait, so no timer
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
