package dialect

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// txTimeout bounds a transaction whose caller gave no deadline; a migration may build indexes for a while.
const txTimeout = 10 * time.Minute

// commitTimeout bounds a COMMIT or ROLLBACK, which the caller's context must not cancel: a commit cut off in the middle is
// one whose outcome nobody knows. When that context ends, a grace is left; see Linger.
const commitTimeout = 10 * time.Second

// A Session is an opened database: the pools, what Probe found, and the statements. The core makes one for each client and
// hands it back to the dialect. It is safe for concurrent use.
type Session struct {
	Dialect    Dialect
	Pool       Pool
	Server     Server
	Names      Names
	Statements Statements

	// memory is what dialects remember of earlier calls; see Remembered.
	memory     sync.Map
	remembered atomic.Int64 // entries of memory, or a few more

	binder binder
	native Native // nil for most
}

// NewSession prepares a dialect's statements for a server.
func NewSession(d Dialect, pool Pool, server Server, names Names) *Session {
	s := &Session{Dialect: d, Pool: pool, Server: server, Names: names, Statements: d.Statements(names)}
	s.binder.style = s.Statements.Style
	if v, ok := d.(ValueBinder); ok {
		s.binder.value = v.BindValue
	}
	if v, ok := d.(Inliner); ok {
		s.binder.inline = v.Inline
	}
	s.native, _ = d.(Native)
	return s
}

// memoryMost bounds what a session remembers: a few things for each queue.
const memoryMost = 20_000

// Remembered returns what was remembered under key, or else remembers fresh. Nothing may depend on it but the pace: everything is forgotten
// when there is more than a client of ten thousand queues needs.
func (s *Session) Remembered(key string, fresh any) any {
	v, there := s.memory.LoadOrStore(key, fresh)
	if !there && s.remembered.Add(1) > memoryMost {
		s.memory.Clear()
		s.remembered.Store(0)
	}
	return v
}

// Exec runs a statement on c and says how many rows it touched.
func (s *Session) Exec(ctx context.Context, c Conn, text string, args Args) (int64, error) {
	q, values, err := s.binder.bind(text, args)
	if err != nil {
		return 0, err
	}
	return c.Exec(ctx, q, values...)
}

// Literal writes the values of a statement into its text, for a person to read and run. It knows numbers and plain text.
func (s *Session) Literal(text string, args Args) (string, error) {
	c := s.binder.compile(text)
	if c.err != nil {
		return "", c.err
	}
	out := c.text
	for _, name := range c.names {
		lit := fmt.Sprint(args[name])
		if v, ok := args[name].(string); ok {
			lit = "'" + strings.ReplaceAll(v, "'", "''") + "'"
		}
		out = strings.Replace(out, "?", lit, 1)
	}
	return out, nil
}

// Query runs a statement on c that returns rows of tasks.
func (s *Session) Query(ctx context.Context, c Conn, text string, args Args) ([]Row, error) {
	return QueryAs[Row](ctx, s, c, text, args)
}

// Ask runs a query on the reading pool. Whatever its error, nothing happened.
func (s *Session) Ask(ctx context.Context, text string, args Args) ([]Row, error) {
	var rows []Row
	err := s.Reading(ctx, func(c Conn) (err error) {
		rows, err = s.Query(ctx, c, text, args)
		return err
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// An Asker runs a statement that only reads.
type Asker func(text string, args Args) ([]Row, error)

// AskNow makes a question for the time by the database's clock, in microseconds, out of a way to ask.
func (s *Session) AskNow(ask Asker) func() (int64, error) {
	return func() (int64, error) {
		rows, err := ask(strings.TrimSpace("SELECT "+s.Statements.Now+" AS now "+s.Statements.Dual), nil)
		if err != nil || len(rows) != 1 {
			return 0, err
		}
		return rows[0].Now, nil
	}
}

// QueryAs is Query for rows of another kind.
func QueryAs[T any](ctx context.Context, s *Session, c Conn, text string, args Args) ([]T, error) {
	q, values, err := s.binder.bind(text, args)
	if err != nil {
		return nil, err
	}
	atMost, _ := args["limit"].(int)
	return readAs[T](ctx, c, q, values, atMost)
}

// readAs runs a query and reads its rows, which are likely to be no more than atMost.
func readAs[T any](ctx context.Context, c Conn, query string, values []any, atMost int) (out []T, err error) {
	if reader, ok := c.(Reader); ok {
		err = reader.Read(ctx, query, values, func(rows Rows) (err error) {
			out, err = scan[T](rows, atMost)
			return err
		})
	} else {
		var rows Rows
		if rows, err = c.Query(ctx, query, values...); err == nil {
			out, err = scan[T](rows, atMost)
		}
	}
	if tasks, ok := any(out).([]Row); ok {
		restoreAllEmpty(tasks)
	}
	return out, err
}

// on is what statements run on that go to one connection.
func (s *Session) on(conn sqlConn) Conn {
	if one, ok := conn.(*sql.Conn); ok && s.native != nil {
		return s.native.NativeConn(one, stdConn{conn})
	}
	return stdConn{conn}
}

// QueryBatch runs a batch of n rows on c, in as many statements as its Max asks for, and collects what they return.
func (s *Session) QueryBatch(ctx context.Context, c Conn, b Batch, args Args, n int) ([]Row, error) {
	var out []Row
	for from, to := 0, 0; from < n; from = to {
		to = b.end(args, from, n)
		rows, err := s.queryPart(ctx, c, b, args, from, to)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return out, nil
}

// queryPart runs the statements of a batch for rows from to to.
func (s *Session) queryPart(ctx context.Context, c Conn, b Batch, args Args, from, to int) ([]Row, error) {
	query := func(text, row string) ([]Row, error) {
		q, values, err := s.binder.bindBatch(Batch{SQL: text, Row: row, Sep: b.Sep}, args, from, to)
		if err != nil {
			return nil, err
		}
		return readAs[Row](ctx, c, q, values, to-from)
	}
	if b.One != "" && to == from+1 {
		return s.queryOne(ctx, c, b.One, args, from)
	}
	if b.First == "" && b.After == "" {
		return query(b.SQL, b.Row)
	}
	if b.Counts && b.First != "" {
		if rows, err := s.allOf(ctx, c, b, args, from, to); err != nil || rows != nil {
			return rows, err
		}
	}
	readRow := cmp.Or(b.ReadRow, b.Row)
	var rows []Row
	var err error
	if b.First != "" {
		if rows, err = query(b.First, readRow); err != nil || len(rows) == 0 {
			return nil, err
		}
	}
	q, values, err := s.binder.bindBatch(b, args, from, to)
	if err != nil {
		return nil, err
	}
	touched, err := c.Exec(ctx, q, values...)
	if err != nil {
		return nil, err
	}
	if b.Counts && b.First == "" {
		switch touched {
		case 0: // what is there, somebody else has put there
			return nil, nil
		case int64(to - from):
			return given(args, from, to), nil
		}
	}
	if b.After == "" {
		return rows, nil
	}
	after, err := query(b.After, readRow)
	if b.First == "" || err != nil {
		return after, err
	}
	type version struct {
		id    uuid.UUID
		fence int64
	}
	locked := make(map[version]bool, len(rows))
	for _, r := range rows {
		locked[version{r.ID, r.Fence}] = true
	}
	return slices.DeleteFunc(after, func(r Row) bool { return !locked[version{r.ID, r.Fence}] }), nil
}

// queryOne runs a Batch's One for row i.
func (s *Session) queryOne(ctx context.Context, c Conn, text string, args Args, i int) ([]Row, error) {
	q, values, err := s.binder.bindRow(text, args, i)
	if err != nil {
		return nil, err
	}
	touched, err := c.Exec(ctx, q, values...)
	if err != nil || touched == 0 {
		return nil, err
	}
	return given(args, i, i+1), nil
}

// ExecBatch is QueryBatch for a statement that returns nothing; it says how many rows were touched.
func (s *Session) ExecBatch(ctx context.Context, c Conn, b Batch, args Args, n int) (int64, error) {
	var touched int64
	for from, to := 0, 0; from < n; from = to {
		to = b.end(args, from, n)
		q, values, err := s.bindPart(b, args, from, to)
		if err != nil {
			return touched, err
		}
		k, err := c.Exec(ctx, q, values...)
		touched += k
		if err != nil {
			return touched, err
		}
	}
	return touched, nil
}

// bindPart binds the statement for rows from to to of a batch, or for one of them.
func (s *Session) bindPart(b Batch, args Args, from, to int) (string, []any, error) {
	if b.One != "" && to == from+1 {
		return s.binder.bindRow(b.One, args, from)
	}
	return s.binder.bindBatch(b, args, from, to)
}

// Do acquires a connection for writing and runs f on it: within ctx for the wait, and within a transaction of its own when
// the server asks for one. A statement outside a transaction is its own.
func (s *Session) Do(ctx context.Context, f func(ctx context.Context, c Conn) error) error {
	if s.Server.ExplicitTx {
		return s.Tx(ctx, f)
	}
	return s.Alone(ctx, f)
}

// Tx runs f in a transaction that starts with Statements.Begin, or by the driver's own means where that is empty, and commits when f returns nil. Its errors are TxErrors.
// When ctx ends, f's statements are cancelled and rolled back; the COMMIT itself is never cancelled by ctx.
func (s *Session) Tx(ctx context.Context, f func(ctx context.Context, c Conn) error) error {
	return s.LockedTx(ctx, Lock{}, f)
}

// Lock is a pair of statements that take and free a lock of a connection's session. Take must wait for the lock and be an error
// when it cannot be had. Both empty is no lock.
type Lock struct {
	Take, Free string
	Args       Args
	// Early frees the lock before the COMMIT instead of after it: for one that only keeps others from the same work, and need not keep
	// them waiting for a disk.
	Early bool
}

// LockedTx is Tx under a lock that its connection takes before the transaction begins and frees after it has ended, so that who
// gets the lock next sees what was committed.
func (s *Session) LockedTx(ctx context.Context, lock Lock, f func(ctx context.Context, c Conn) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, txTimeout)
	defer cancel()
	conn, done, err := s.conn(ctx)
	if err != nil {
		return err
	}
	defer done()
	if lock.Take != "" {
		if _, err = s.Exec(ctx, stdConn{conn}, lock.Take, lock.Args); err != nil {
			discard(conn) // it may or may not have the lock
			return &TxError{Err: err}
		}
		defer func() {
			if lock.Take != "" {
				s.free(ctx, conn, lock)
			}
		}()
	}
	begin := s.beginByText
	if len(s.Statements.Begin) == 0 {
		begin = beginByDriver
	}
	tx, err := begin(ctx, conn)
	if err != nil {
		discard(conn) // it may or may not be in a transaction
		return &TxError{Err: err}
	}
	finished := false
	defer func() {
		if !finished { // f failed or panicked
			_ = tx.end(ctx, tx.rollback) // the connection is thrown away when this fails
		}
	}()
	err = f(ctx, s.on(tx.on))
	if err == nil && lock.Early {
		if _, err = s.Exec(ctx, s.on(tx.on), lock.Free, lock.Args); err == nil {
			lock.Take = ""
		}
	}
	if err != nil {
		return &TxError{Err: err}
	}
	finished = true
	if err = tx.end(ctx, tx.commit); err != nil {
		return &TxError{Committing: true, Err: err}
	}
	return nil
}

// free gives a session's lock back, with its connection when it cannot otherwise.
func (s *Session) free(ctx context.Context, conn *sql.Conn, lock Lock) {
	ctx, stop := graceful(ctx, commitTimeout)
	defer stop()
	if _, err := s.Exec(ctx, stdConn{conn}, lock.Free, lock.Args); err != nil {
		discard(conn)
	}
}

// discard closes the driver's connection instead of giving it back to the pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}

// Class is what an error means. Inside a transaction a lost connection is Unavailable before the COMMIT was sent, and
// Ambiguous after.
func (s *Session) Class(err error) Class {
	if err == nil {
		return Unknown
	}
	if errors.Is(err, ErrWriterBusy) {
		return Unavailable
	}
	class := s.Dialect.Classify(err)
	var tx *TxError
	if errors.As(err, &tx) {
		switch {
		case tx.Committing && (class == Unavailable || ended(err)):
			return Ambiguous
		case !tx.Committing && class == Ambiguous:
			return Unavailable
		}
	}
	return class
}

// ended reports whether err is a context's end.
func ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
