package sqlrun

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

const (
	// reserveMost bounds a Reserve: a worker seldom has more than a renewal, a checkout and two settlements under way
	// at once.
	reserveMost = 4
	// reserveWait bounds how long Reserve waits for connections.
	reserveWait = 5 * time.Second
	// reserveLife is when a connection that is kept makes room for another one, if the pool has any: after a failover
	// it may lead to a server that takes no more writes. freshWait bounds the wait for the other one.
	reserveLife = time.Minute
	freshWait   = 50 * time.Millisecond
)

// reserve keeps connections of a bounded pool for some of its users, who then never wait for the others. Between two
// uses, it treats a connection as the pool does. It is safe for concurrent use.
type reserve struct {
	db    *sql.DB
	users int // guarded by reserves.mu

	mu   sync.Mutex
	over bool
	free chan kept // one for each connection, also for one that is still to be made
}

// kept is a connection, or the place of one.
type kept struct {
	conn  *sql.Conn // nil is to be made
	since time.Time
}

// reserves has the reserves of this process. Each pool has one, for all its clients and workers, because together they
// must leave connections to the others.
var reserves = struct {
	mu sync.Mutex
	of map[*sql.DB]*reserve
}{of: map[*sql.DB]*reserve{}}

type reserveKey struct{}

// Reserve keeps connections of the pool for the statements of the context that it returns, until release is called:
// half of the pool, and at most 4, shared by all reservations of the pool. It waits up to 5 seconds for them; the
// others are opened when they are needed. conns is the number of reserved connections. It is 0 for an unbounded pool,
// for one whose transactions have a pool of their own (Pool.Caller), and for a pool of one connection.
func (s *Session) Reserve(ctx context.Context) (reserved context.Context, conns int, release func()) {
	db := s.Pool.Write
	conns = min(reserveMost, db.Stats().MaxOpenConnections/2)
	if s.Pool.Caller != nil || s.Pool.Read != db || conns == 0 {
		return ctx, 0, func() {}
	}
	reserves.mu.Lock()
	r := reserves.of[db]
	if r == nil {
		r = &reserve{db: db, free: make(chan kept, conns)}
		for range conns {
			r.free <- kept{}
		}
		reserves.of[db] = r
	}
	r.users++
	first := r.users == 1
	reserves.mu.Unlock()
	if first {
		r.fill(ctx)
	}
	return context.WithValue(ctx, reserveKey{}, r), cap(r.free), sync.OnceFunc(r.leave)
}

// fill opens the connections.
func (r *reserve) fill(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reserveWait)
	defer cancel()
	var made []kept
	for range cap(r.free) {
		k, err := r.take(ctx)
		if err != nil {
			break // the pool is busy, or the server is away
		}
		made = append(made, k)
	}
	for _, k := range made {
		r.put(k)
	}
}

// leave ends the reserve after its last user. A connection that is in use returns to the pool later.
func (r *reserve) leave() {
	reserves.mu.Lock()
	defer reserves.mu.Unlock()
	if r.users--; r.users > 0 {
		return
	}
	delete(reserves.of, r.db)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	for range cap(r.free) {
		select {
		case k := <-r.free:
			k.close()
			r.free <- kept{}
		default: // the others are in use
		}
	}
}

// take takes a connection out of the reserve, within ctx. put returns it.
func (r *reserve) take(ctx context.Context) (k kept, err error) {
	select {
	case k = <-r.free:
	case <-ctx.Done():
		return k, ctx.Err()
	}
	if k.conn != nil && time.Since(k.since) > reserveLife {
		once, cancel := context.WithTimeout(ctx, freshWait)
		fresh, err := r.db.Conn(once)
		cancel()
		if err == nil {
			k.close()
			return kept{fresh, time.Now()}, nil
		}
		k.since = time.Now() // the pool has none to spare; do not wait for it in each call
	}
	if k.conn != nil && reset(ctx, k.conn) {
		return k, nil
	}
	k.close()
	k = kept{since: time.Now()}
	if k.conn, err = r.db.Conn(ctx); err != nil {
		r.free <- kept{}
	}
	return k, err
}

func (r *reserve) put(k kept) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || !valid(k.conn) {
		k.close()
		k = kept{}
	}
	r.free <- k
}

func (k kept) close() {
	if k.conn != nil {
		_ = k.conn.Close()
	}
}

// reset runs before a pool hands a connection out again. It returns false if the connection can no longer be used.
func reset(ctx context.Context, conn *sql.Conn) bool {
	err := conn.Raw(func(c any) error {
		if resetter, ok := c.(driver.SessionResetter); ok {
			if err := resetter.ResetSession(ctx); errors.Is(err, driver.ErrBadConn) {
				return err
			}
		}
		return nil
	})
	return err == nil
}

// valid reports whether a pool may keep a connection that comes back.
func valid(conn *sql.Conn) bool {
	err := conn.Raw(func(c any) error {
		if v, ok := c.(driver.Validator); ok && !v.IsValid() {
			return driver.ErrBadConn
		}
		return nil
	})
	return err == nil
}

// keptFor returns the reserve of ctx, if it belongs to db.
func keptFor(ctx context.Context, db *sql.DB) *reserve {
	if r, ok := ctx.Value(reserveKey{}).(*reserve); ok && r.db == db {
		return r
	}
	return nil
}

// conn returns a connection for writing, from the reserve of ctx or from the pool. Call done after use. Its error is a
// TxError, because nothing was sent.
func (s *Session) conn(ctx context.Context) (conn *sql.Conn, done func(), err error) {
	r := keptFor(ctx, s.Pool.Write)
	if r == nil {
		t := tryOf(ctx)
		t.acquires(s.Pool.Write)
		if conn, err = s.writer(ctx); err != nil {
			return nil, nil, err
		}
		t.answered()
		return conn, func() { _ = conn.Close() }, nil
	}
	k, err := r.take(ctx)
	if err != nil {
		return nil, nil, &TxError{Err: err}
	}
	return k.conn, func() { r.put(k) }, nil
}

// Reading runs f on a connection from the reserve of ctx, or on the reading pool. An error of f is returned as a
// TxError, because nothing was changed.
func (s *Session) Reading(ctx context.Context, f func(ctx context.Context, c dialect.Conn) error) error {
	t := s.try(ctx)
	return t.end(s.reading(t, f))
}

func (s *Session) reading(ctx context.Context, f func(ctx context.Context, c dialect.Conn) error) (err error) {
	if keptFor(ctx, s.Pool.Read) == nil && (s.Pool.Read != s.Pool.Write || s.Pool.Patience == 0 && !busy(s.Pool.Read)) {
		err = f(ctx, stdConn{s.Pool.Read})
	} else {
		conn, done, failed := s.conn(ctx)
		if failed != nil {
			return failed
		}
		defer done()
		err = f(ctx, stdConn{conn})
		s.discardUnfit(conn, err)
	}
	if err != nil {
		return &TxError{Err: err}
	}
	return nil
}
