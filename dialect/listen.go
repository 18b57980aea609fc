package dialect

import (
	"context"
	"database/sql"
)

// A Listener is a dialect whose server can notify other processes of new tasks. The core uses it if Server.Notifies
// is set, but does not depend on it: it sends notifications to itself through the pool to check that they arrive, and
// workers also poll. A lost notification only costs time.
type Listener interface {
	// Listen opens a connection to the server of db, outside that pool. It calls ready when it listens, and then heard
	// for each payload that Statements.Notify sends to channel. It closes the connection and returns when ctx ends or
	// the connection is lost. It must not reconnect.
	Listen(ctx context.Context, db *sql.DB, channel string, ready func(), heard func(payload string)) error
}
