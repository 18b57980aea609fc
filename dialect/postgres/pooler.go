package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	// poolerTimeout bounds the detection of a pooler. A pooler that does not share sessions may keep a second client
	// waiting for a server.
	poolerTimeout = 5 * time.Second
	// poolerRounds is how often two clients compare their servers. Other clients of the pooler can come in between: two
	// that start at the same time, and ask at the same pace, can each get the same server every time. So each round comes
	// after a random pause of at most poolerPause.
	poolerRounds = 16
	poolerPause  = 2 * time.Millisecond
)

// undefinedFunction is the SQLSTATE of a server that lacks pg_backend_pid.
const undefinedFunction = "42883"

// poolerName is Server.Pooler for a pooler that shares sessions.
const poolerName = "a connection pooler in transaction mode"

// sharesSessions reports whether conn leads to a pooler that gives a session to another client after each transaction.
// Prepared statements and LISTEN belong to a session, and would reach the wrong one.
//
// A pooler answers a connection by itself, with its own process id for cancel requests
// (https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-CANCELING-REQUESTS), which is not that of
// the server's process. The pooler shares sessions if two connected clients have the same server process.
func sharesSessions(parent context.Context, conn *pgx.Conn) (bool, error) {
	ctx, cancel := context.WithTimeout(parent, poolerTimeout)
	defer cancel()
	pid, err := serverPID(ctx, conn.PgConn())
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && refused.Code == undefinedFunction, err == nil && pid <= 0:
		return false, nil // it is not PostgreSQL, and has no such ids
	case err != nil || uint32(pid) == conn.PgConn().PID():
		return false, err
	}
	cfg := conn.Config()
	cfg.OnNotification = nil // that connection's own
	other, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return false, withoutConfig(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = other.Close(ctx)
	}()
	for range poolerRounds {
		time.Sleep(rand.N(poolerPause))
		again, err := serverPID(ctx, conn.PgConn())
		if err != nil {
			return false, err
		}
		time.Sleep(rand.N(poolerPause))
		theirs, err := serverPID(ctx, other.PgConn())
		switch {
		case parent.Err() != nil:
			return false, parent.Err() // nothing is known
		case err != nil && ctx.Err() != nil:
			return false, nil // the second client waits for a free server: sessions are not shared
		case err != nil:
			return false, err
		case again != pid || theirs == again:
			return true, nil
		}
	}
	return false, nil
}

// serverPID returns the id of the process that serves a statement. The simple protocol works behind every pooler.
func serverPID(ctx context.Context, conn *pgconn.PgConn) (int64, error) {
	results, err := conn.Exec(ctx, "SELECT pg_backend_pid()").ReadAll()
	if err != nil {
		return 0, err
	}
	if len(results) != 1 || len(results[0].Rows) != 1 {
		return 0, fmt.Errorf("postgres: pg_backend_pid() returned no row")
	}
	return strconv.ParseInt(string(results[0].Rows[0][0]), 10, 64)
}

// findPooler is sharesSessions for a pool. It refuses a pool that cannot work behind what it finds. A pool of another
// driver is not examined.
func findPooler(ctx context.Context, db *sql.DB) (shares bool, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	err = conn.Raw(func(driver any) error {
		c, ok := driver.(*stdlib.Conn)
		if !ok {
			return nil
		}
		if shares, err = sharesSessions(ctx, c.Conn()); err != nil {
			return err
		}
		if mode := c.Conn().Config().DefaultQueryExecMode; shares && mode != pgx.QueryExecModeExec {
			return fmt.Errorf("%w: the server is behind %s, which shares prepared statements between clients: "+
				"set default_query_exec_mode=exec (it is %s)", dialect.ErrDSN, poolerName, modeName(mode))
		}
		return nil
	})
	return shares, err
}

// modeName returns the name of a mode in a DSN; see pgx.ParseConfig.
func modeName(mode pgx.QueryExecMode) string {
	switch mode {
	case pgx.QueryExecModeCacheStatement:
		return "cache_statement"
	case pgx.QueryExecModeCacheDescribe:
		return "cache_describe"
	case pgx.QueryExecModeDescribeExec:
		return "describe_exec"
	case pgx.QueryExecModeSimpleProtocol:
		return "simple_protocol"
	}
	return mode.String()
}
