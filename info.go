package dbq

import (
	"fmt"
	"log/slog"

	"github.com/dbq-go/dbq/dialect"
)

// Info describes a client. It does not change while the client is open.
type Info struct {
	// Name is the client's name; see WithName.
	Name string
	// ID is Name, # and ten random characters: it is unique, even if clients share a name. The holder of a lease begins
	// with it. It has at most MaxReference characters.
	ID string
	// Dialect is the name of the engine's family, such as "postgres".
	Dialect string
	// Server describes the server, as found when the client opened.
	Server dialect.Server
	// Target is the host and database of the client's DSN, without user, password and options. It is zero for a client
	// made by New.
	Target dialect.Target
	// Strategy is the client's checkout strategy; see WithStrategy.
	Strategy dialect.Strategy
	// MaxPayload is the largest payload in bytes that the client enqueues; see WithMaxPayload.
	MaxPayload int
	// MaxCheckoutBytes bounds the payloads of one checkout, in bytes; see WithMaxCheckoutBytes.
	MaxCheckoutBytes int
}

// Info describes the client.
func (c *Client) Info() Info {
	return Info{
		Name: c.cfg.name, ID: c.id, Dialect: c.store.DialectName(), Server: c.store.Server(), Target: c.cfg.target,
		Strategy: c.store.Strategy, MaxPayload: c.store.MaxPayload, MaxCheckoutBytes: c.cfg.maxCheckoutBytes,
	}
}

// ClientStats are counters of a client since it opened.
type ClientStats struct {
	// Retried counts the writes that were retried after a conflict or a lost connection.
	Retried int64
	// Conflicts counts the writes that were retried after a conflict with another transaction: a deadlock, a lock
	// timeout or a serialization failure. A few are normal under concurrency. If there are many, another strategy may
	// suit the load better.
	Conflicts int64
	// Listening reports whether notifications of other processes reach the client. It is false if the client has no
	// Worker or Consumer, and if the engine has no notifications.
	Listening bool
}

// Stats returns the client's counters since it opened.
func (c *Client) Stats() ClientStats {
	return ClientStats{Retried: c.store.Retried(), Conflicts: c.store.Conflicts(), Listening: c.wake.Listening()}
}

// String describes the client by its name, its server and its database. It shows no user, password or option.
func (c *Client) String() string {
	text := fmt.Sprintf("dbq client %s on %s %s", c.cfg.name, c.store.Server().Product, c.store.Server().Version)
	if t := c.cfg.target; t != (dialect.Target{}) {
		text += " at " + t.String()
	}
	return text
}

// Format prints String for every verb: %+v and %#v show neither the client's configuration nor its pools.
func (c *Client) Format(f fmt.State, _ rune) { fmt.Fprint(f, c.String()) }

// LogValue is String as a group of attributes.
func (c *Client) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("name", c.cfg.name),
		slog.String("product", c.store.Server().Product),
		slog.String("version", c.store.Server().Version),
	}
	if t := c.cfg.target; t != (dialect.Target{}) {
		attrs = append(attrs, slog.String("database", t.String()))
	}
	return slog.GroupValue(attrs...)
}
