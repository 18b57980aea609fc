package dialect

import (
	"context"
	"database/sql"
)

// A Listener is a dialect whose server can tell other processes that tasks came. The core uses it where Server.Notifies
// says so, and never trusts it: it sends itself notifications through the pool to see whether they arrive, and workers
// poll all the same, so what is lost costs time and nothing else. Without it, workers poll.
type Listener interface {
	// Listen opens a connection of its own to the server of db, outside that pool, and calls heard for each payload that
	// Statements.Notify sends to channel from the call of ready on. It returns when ctx ends or the connection is lost,
	// and must have closed the connection then. It must not reconnect.
	Listen(ctx context.Context, db *sql.DB, channel string, ready func(), heard func(payload string)) error
}
