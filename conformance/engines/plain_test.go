package engines

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/querycount"
)

// plainTrips are the round trips of calls on a queue without limits, of tasks without keys, workflows, unique rules and
// dead letters. On SQLite they are statements, without those that begin and end transactions. What such tasks do not
// use must cost them nothing, so a number should only fall.
var plainTrips = map[string]map[string]int{
	"sqlite": {"enqueue": 1, "enqueue many": 1, "checkout": 5, "heartbeat": 1, "heartbeat with progress": 1,
		"complete": 1, "complete many": 1, "retry": 4},
	"pgx": {"enqueue": 1, "enqueue many": 1, "checkout": 1, "heartbeat": 1, "heartbeat with progress": 1,
		"complete": 1, "complete many": 1, "retry": 3},
	"mysql": {"enqueue": 1, "enqueue many": 1, "checkout": 5, "heartbeat": 2, "heartbeat with progress": 2,
		"complete": 4, "complete many": 4, "retry": 5}, // with those that begin and end transactions
}

// TestPlainTasksPayNothing counts the round trips of the calls that each task needs.
func TestPlainTasksPayNothing(t *testing.T) {
	onEngines(t, func(t *testing.T, target target, dsn string) {
		want := plainTrips[target.driver]
		var reset func()
		var counts func() int
		if target.file != nil {
			want = plainTrips["sqlite"]
			dsn = countedScheme + strings.TrimPrefix(dsn, "sqlite")
			reset, counts = func() { countedStatements.Store(0) }, func() int { return int(countedStatements.Load()) }
		} else {
			dsn, reset, counts = countedServer(t, dsn)
		}
		if want == nil {
			t.Skipf("no round trips were counted with the driver %q", target.driver)
		}
		c, err := dbq.Open(t.Context(), dsn, ownTables(t, dsn), dbq.WithMigrate(), dbq.WithoutNotify())
		check.OK(t, err)
		defer c.Close()
		c.DB().SetMaxOpenConns(1)
		got := map[string]int{}
		// The first calls prepare statements, and once a second a checkout looks for expired leases: the least counts.
		for i := 0; i < 3 || i < 30 && !maps.Equal(got, want); i++ {
			for name, n := range plainCalls(t, c.Queue("plain"), reset, counts) {
				if least, seen := got[name]; !seen || n < least {
					got[name] = n
				}
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("the round trips are %v, want %v: see plainTrips", got, want)
		}
	})
}

// countedServer returns the DSN of a proxy that counts requests since the last reset.
func countedServer(t *testing.T, dsn string) (counted string, reset func(), counts func() int) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("the DSN cannot be read") // it may hold a password
	}
	p, err := proxy.New(u.Host)
	check.OK(t, err)
	t.Cleanup(p.Close)
	u.Host = p.Addr()
	return u.String(), func() { p.Set(proxy.Rule{}) }, p.Requests
}

// TestLimitsAreLockedForFiveRoundTrips counts the round trips of a checkout within limits where statements are sent
// together: one locks the limits and reads them, two count the leased tasks and find keys, one leases, and one commits.
func TestLimitsAreLockedForFiveRoundTrips(t *testing.T) {
	onEngines(t, func(t *testing.T, target target, dsn string) {
		if target.driver != "pgx" {
			t.Skipf("the driver %q sends each statement alone", target.driver)
		}
		dsn, reset, counts := countedServer(t, dsn)
		c, err := dbq.Open(t.Context(), dsn, ownTables(t, dsn), dbq.WithMigrate(), dbq.WithoutNotify())
		check.OK(t, err)
		defer c.Close()
		c.DB().SetMaxOpenConns(1)
		q := c.Queue("limited")
		check.OK(t, admin.New(c).ConfigureLimits(t.Context(), q.Name(), func(l *admin.QueueLimits) {
			l.Concurrency, l.KeyConcurrency = 100, 1
		}))
		tasks := make([]dbq.NewTask, 60)
		for i := range tasks {
			tasks[i].Key = fmt.Sprint("key ", i)
		}
		if _, err := q.EnqueueMany(t.Context(), tasks); err != nil {
			t.Fatal(err)
		}
		least := math.MaxInt
		for range 6 { // the first ones prepare statements, and some look for expired leases
			reset()
			leased, err := q.Checkout(t.Context(), 10, time.Minute)
			if err != nil || len(leased) != 10 {
				t.Fatalf("%d tasks were leased (%v), want 10", len(leased), err)
			}
			least = min(least, counts())
		}
		if least != 5 {
			t.Errorf("a checkout takes %d round trips, want 5", least)
		}
	})
}

// plainCalls makes each call, and returns its cost.
func plainCalls(t *testing.T, q *dbq.Queue, reset func(), counts func() int) map[string]int {
	out := map[string]int{}
	ctx := t.Context()
	count := func(name string, call func() error) {
		reset()
		if err := call(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = counts()
	}
	if _, err := q.EnqueueMany(ctx, make([]dbq.NewTask, 5)); err != nil {
		t.Fatal(err)
	}
	count("enqueue", func() error { _, err := q.Enqueue(ctx, dbq.NewTask{Payload: []byte("payload")}); return err })
	count("enqueue many", func() error { _, err := q.EnqueueMany(ctx, make([]dbq.NewTask, 4)); return err })
	tasks, err := q.Checkout(ctx, 3, time.Minute) // it looks for expired leases, so that the next one does not
	check.OK(t, err)
	count("checkout", func() error {
		more, err := q.Checkout(ctx, 3, time.Minute)
		tasks = append(tasks, more...)
		return err
	})
	if len(tasks) != 6 {
		t.Fatalf("%d tasks were leased, want 6", len(tasks))
	}
	l := tasks[0].Lease
	count("heartbeat", func() error { _, err := q.Extend(ctx, l, time.Minute); return err })
	l.Progress = []byte("half")
	count("heartbeat with progress", func() (err error) { l, err = q.Extend(ctx, l, time.Minute); return err })
	count("complete", func() error { return q.Complete(ctx, tasks[1].Lease, []byte("done")) })
	count("retry", func() error { return q.Settle(ctx, tasks[2].Lease, dbq.RetryIn(time.Hour, context.Canceled)) })
	count("complete many", func() error {
		done, err := q.SettleMany(ctx, []dbq.Settlement{
			{Lease: tasks[3].Lease, Outcome: dbq.Completed(nil)}, {Lease: tasks[4].Lease, Outcome: dbq.Completed(nil)}})
		for _, d := range done {
			if err == nil {
				err = d.Err
			}
		}
		return err
	})
	for _, task := range []dbq.Lease{l, tasks[5].Lease} {
		check.OK(t, q.Complete(ctx, task, nil))
	}
	rest, err := q.Checkout(ctx, 100, time.Minute)
	check.OK(t, err)
	for _, task := range rest {
		check.OK(t, q.Complete(ctx, task.Lease, nil))
	}
	return out
}

// countedScheme is SQLite with a count of the statements, apart from those that begin and end transactions.
const countedScheme = "counted-sqlite"

var countedStatements atomic.Int64

type countedDialect struct{ sqlite.Dialect }

// NativeConn counts what runs on a connection.
func (countedDialect) NativeConn(_ *sql.Conn, std dialect.Conn) dialect.Conn { return countedConn{std} }

type countedConn struct{ dialect.Conn }

func (c countedConn) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	countedStatements.Add(1)
	return c.Conn.Exec(ctx, query, args...)
}

func (c countedConn) Query(ctx context.Context, query string, args []any, read func(dialect.Rows) error) error {
	countedStatements.Add(1)
	return c.Conn.Query(ctx, query, args, read)
}

func init() {
	dialect.Register(dialect.Driver{Schemes: []string{countedScheme}, Dialect: countedDialect{},
		Open: func(ctx context.Context, dsn string, _ dialect.Password) (dialect.Pool, error) {
			pool, err := sqlite.Open(ctx, "sqlite"+strings.TrimPrefix(dsn, countedScheme), nil)
			if err != nil {
				return pool, err
			}
			pool.Read = querycount.Wrap(pool.Read, &countedStatements)
			group := pool.GroupCommit
			pool.GroupCommit = func(ctx context.Context, w dialect.Writer, query string, args []any) (int64, bool, error) {
				touched, ok, err := group(ctx, w, query, args)
				if ok { // otherwise it runs on a connection
					countedStatements.Add(1)
				}
				return touched, ok, err
			}
			return pool, nil
		}})
}
