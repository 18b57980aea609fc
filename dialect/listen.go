package dialect

import (
	"context"
	"database/sql"
)

// A Listener is a dialect whose server can notify other processes of new tasks. The core uses it if Server.Notifies is
// set, and does not rely on it: it sends itself notifications through the pool to check that they arrive, and workers
// poll as well. A lost notification costs time and nothing else.
type Listener interface {
	// Listen opens a connection to the server of db, outside that pool, calls ready when it listens, and calls heard for
	// each payload that Statements.Notify sends to channel from then on. It closes the connection and returns when ctx
	// ends or the connection is lost. It must not reconnect.
	Listen(ctx context.Context, db *sql.DB, channel string, ready func(), heard func(payload string)) error
}
