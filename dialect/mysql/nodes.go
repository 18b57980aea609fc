package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect/kit"
	mysql "github.com/go-sql-driver/mysql"
)

// nodeLifetime bounds how long a connection is kept when a DSN names several nodes: a node that was expelled from its
// cluster still answers queries, so that an idle worker would not notice.
const nodeLifetime = time.Minute

// nodes connects to the first available node of a list. Printing a pool shows the address of each node, not its
// configuration.
type nodes []driver.Connector

func newNodes(cfg *mysql.Config, addresses []string) (nodes, error) {
	out := make(nodes, len(addresses))
	for i, a := range addresses {
		one := cfg.Clone()
		one.Addr = a
		inner, err := mysql.NewConnector(one)
		if err != nil {
			return nil, err
		}
		out[i] = &node{inner, cfg.DBName}
	}
	return out, nil
}

// node connects to one of them.
type node struct {
	driver.Connector
	database string
}

// Connect returns dialect.ErrNoDatabase if the server does not have the database.
func (n *node) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := n.Connector.Connect(ctx)
	if refused := (*mysql.MySQLError)(nil); errors.As(err, &refused) && refused.Number == 1049 {
		err = kit.NoDatabase(n.database, err)
	}
	return c, err
}

// Driver returns the driver, which all nodes have in common.
func (n nodes) Driver() driver.Driver { return n[0].Driver() }

// Connect tries the nodes in order. When there are several, those that are read-only or not part of their cluster are
// skipped.
func (n nodes) Connect(ctx context.Context) (driver.Conn, error) {
	var failed []error
	for _, node := range n {
		own := new(nodeConn)
		c, err := node.Connect(kit.WithTracking(ctx, func(l *kit.TrackedConn) { own.line = l }))
		if err == nil {
			own.conn = c.(conn)
			own.line.TakenWith(ctx)
			if err = own.prepare(ctx, len(n) > 1); err == nil {
				return own, nil
			}
			c.Close()
		}
		if len(n) == 1 || ctx.Err() != nil {
			return nil, err
		}
		failed = append(failed, err)
	}
	return nil, fmt.Errorf("none of the %d nodes serves: %w", len(n), errors.Join(failed...))
}

// conn has the methods of the driver's connections besides those of driver.Conn.
type conn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// nodeConn is a connection that the pool discards when its node stops serving, so that the next one may lead to a node
// that serves.
type nodeConn struct {
	conn
	line    *kit.TrackedConn
	refused bool
}

// ResetSession runs when the pool hands out the connection again.
func (c *nodeConn) ResetSession(ctx context.Context) error {
	c.line.TakenWith(ctx)
	return c.conn.ResetSession(ctx)
}

// ExecContext executes a statement and notes whether the node refused to serve.
func (c *nodeConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	r, err := c.conn.ExecContext(ctx, query, args)
	c.look(err)
	return r, err
}

// QueryContext runs a query and notes whether the node refused to serve.
func (c *nodeConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	r, err := c.conn.QueryContext(ctx, query, args)
	c.look(err)
	return r, err
}

func (c *nodeConn) look(err error) {
	var e *mysql.MySQLError
	c.refused = c.refused || errors.As(err, &e) && slices.Contains(notServing, e.Number)
}

// IsValid reports whether the pool may keep the connection.
func (c *nodeConn) IsValid() bool { return !c.refused && c.conn.IsValid() }

// notServing has the errors of a node that is shutting down, cut off from its cluster, or not yet part of it. The
// statement was not executed. For a read-only node the driver returns driver.ErrBadConn; see RejectReadOnly.
var notServing = []uint16{1047, 1053, 3100, 3796, 3797, 3798, 3799}

// clusterSettings are the variables that show a node's state in its cluster.
var clusterSettings = []string{"read_only", "wsrep_on", "wsrep_sync_wait", "group_replication_group_name",
	"group_replication_single_primary_mode", "group_replication_consistency"}

// prepare fixes the session's variables, and makes it see what other nodes have committed. If choose is set, because
// other nodes can be tried, it returns an error for a node that takes no writes.
func (c *nodeConn) prepare(ctx context.Context, choose bool) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	v, err := c.ask(ctx, show(clusterSettings...))
	if err != nil {
		return err
	}
	if choose && isOn(v, "read_only") {
		return &mysql.MySQLError{Number: 1290, Message: "the node is read-only"}
	}
	if choose && isOn(v, "wsrep_on") {
		ready, err := c.ask(ctx, `SHOW STATUS WHERE Variable_name = 'wsrep_ready'`)
		if err != nil {
			return err
		}
		if !isOn(ready, "wsrep_ready") {
			return &mysql.MySQLError{Number: 1047, Message: "the node is not part of its cluster"}
		}
	}
	set := unfixed(v)
	if name, value := causal(v); name != "" {
		set = append(set, name+"="+value)
	}
	// The isolation level once for the session, so that no transaction has to set it. Its variable has different names.
	for _, text := range append(set, isolation) {
		if _, err = c.conn.ExecContext(ctx, "SET SESSION "+text, nil); err != nil {
			return err
		}
	}
	return nil
}

// causal returns the variable to set, and its value, for a session to see what was committed on any node before its
// query; name is "" if none is needed. Without it, a worker whose connection moved to another node could consider
// a lease lost that has not been replicated there yet.
func causal(v map[string]string) (name, value string) {
	const consistency = "group_replication_consistency"
	switch {
	case isOn(v, "wsrep_on"):
		if wait, _ := strconv.Atoi(v["wsrep_sync_wait"]); wait&1 == 0 {
			return "wsrep_sync_wait", strconv.Itoa(wait | 1)
		}
	case v["group_replication_group_name"] == "":
	case isOn(v, "group_replication_single_primary_mode"):
		if v[consistency] == "EVENTUAL" {
			return consistency, "'BEFORE_ON_PRIMARY_FAILOVER'"
		}
	case !slices.Contains([]string{"BEFORE", "AFTER", "BEFORE_AND_AFTER"}, v[consistency]):
		return consistency, "'BEFORE'"
	}
	return "", ""
}

// ask runs a query that returns names and values.
func (c *nodeConn) ask(ctx context.Context, query string) (map[string]string, error) {
	rows, err := c.conn.QueryContext(ctx, query, nil)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]string{}
	for row := make([]driver.Value, len(rows.Columns())); ; {
		if err := rows.Next(row); err == io.EOF {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		out[strings.ToLower(fmt.Sprintf("%s", row[0]))] = fmt.Sprintf("%s", row[1])
	}
}

func isOn(v map[string]string, name string) bool {
	return strings.EqualFold(v[name], "ON") || v[name] == "1"
}
