package sqlrun

import (
	"context"
	"strings"

	"github.com/dbq-go/dbq/dialect"
)

// NamespacePause and NamespaceLimit are the namespaces of the key/value records of paused queues and of queues with
// limits. A record's name is the queue.
const (
	NamespacePause = "pause"
	NamespaceLimit = "limit"
)

// The conditions for which {unpaused} stands; see dialect.Statements. The second one is that of a checkout by itself.
const (
	unpaused             = "n.namespace = '" + NamespacePause + "'"
	unpausedAndUnlimited = "n.namespace IN ('" + NamespaceLimit + "', '" + NamespacePause + "')"
)

// fillUnpaused fills the {unpaused} of a text: no record of namespaces is of :queue.
func fillUnpaused(text string, n dialect.Names, namespaces string) string {
	return strings.ReplaceAll(text, "{unpaused}",
		"NOT EXISTS (SELECT 1 FROM "+n.Table("kv")+" n WHERE "+namespaces+" AND n.name = :queue)")
}

// private returns a dialect's private statements with their {unpaused} filled.
func private(own map[string]dialect.Batch, n dialect.Names, namespaces string) map[string]dialect.Batch {
	out := make(map[string]dialect.Batch, len(own))
	for name, b := range own {
		b.SQL = fillUnpaused(b.SQL, n, namespaces)
		out[name] = b
	}
	return out
}

// CheckoutWithin is the dialect's Checkout of a queue with limits, in a transaction on c that has locked the limits.
func (s *Session) CheckoutWithin(
	ctx context.Context, c dialect.Conn, r dialect.CheckoutRequest,
) (dialect.CheckoutResult, error) {
	within := dialect.Session{
		Server: s.Server, Names: s.Names, Statements: s.Limited, Runner: inTx{Runner: s, conn: c},
	}
	return s.Dialect.Checkout(ctx, &within, r)
}

// inTx runs everything on a connection whose transaction has begun, and which its caller ends.
type inTx struct {
	dialect.Runner
	conn dialect.Conn
}

func (r inTx) Read(ctx context.Context, text string, args dialect.Args) ([]dialect.Row, error) {
	return r.Query(ctx, r.conn, text, args)
}

func (r inTx) Do(ctx context.Context, f func(context.Context, dialect.Conn) error) error {
	return f(ctx, r.conn)
}

func (r inTx) Tx(ctx context.Context, f func(context.Context, dialect.Conn) error) error {
	return f(ctx, r.conn)
}

// LockedTx takes no lock: the limits are locked already.
func (r inTx) LockedTx(ctx context.Context, _ dialect.Lock, f func(context.Context, dialect.Conn) error) error {
	return f(ctx, r.conn)
}
