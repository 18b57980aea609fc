package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"sync"

	"github.com/dbq-go/dbq/dialect"
)

// A transaction that callers share has at most so many of them, and so many bytes, so that none waits long for the
// others.
const (
	mostShared  = 256
	bytesShared = 4 << 20
)

// together lets callers share a commit, which costs more than a short statement, and far more when it waits for the
// disk. A caller that finds no other one leads: it waits for the writing connection and runs, in one transaction, its
// own statement and those of all callers that came in the meantime. Then one of the callers that are left leads, unless
// a new one does, which runs their statements too. No caller waits for others to come, and a single one needs no
// transaction but its statement.
//
// Each caller gets the result that it would have got alone: when anything in the transaction fails, it is rolled back,
// and every caller runs its statement by itself.
type together struct {
	pool dialect.Pool

	mu      sync.Mutex
	led     bool      // somebody has the connection for those who wait here, or waits for it
	company bool      // the last leader's transaction was not his alone
	waiting []*change // in the order in which they came
}

// change is the statement of a caller, who reads what became of it under the lock of together.
type change struct {
	text    string
	args    []driver.NamedValue
	size    int // of its values
	touched int64

	news  chan struct{} // nil for one who did not wait
	taken bool          // a leader runs it: it cannot be withdrawn any more
	told  bool          // it has been done, or is alone
	alone bool          // it was rolled back, with others
}

// share is the Share of a dialect.Pool.
func (t *together) share(ctx context.Context, text string, args []any) (touched int64, ok bool, err error) {
	if !changesFew(text) || !repeated(text) {
		return 0, false, nil
	}
	c, err := newChange(text, args)
	if err != nil {
		return 0, true, err
	}
	leads, err := t.join(ctx, c)
	if leads {
		err = t.lead(ctx, c)
	}
	if c.alone {
		err = t.run(ctx, func(on *conn) error { return on.change(ctx, c) })
	}
	if err != nil {
		return 0, true, err
	}
	return c.touched, true, nil
}

func newChange(text string, args []any) (*change, error) {
	c := &change{text: text, args: make([]driver.NamedValue, len(args))}
	for i, arg := range args {
		v, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return nil, fmt.Errorf("sqlite: value %d of a statement: %w", i+1, err)
		}
		switch v := v.(type) {
		case string:
			c.size += len(v)
		case []byte:
			c.size += len(v)
		}
		c.args[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return c, nil
}

// join waits until a leader has run the change, or its caller is to lead. When ctx ends, what no leader has taken yet
// is withdrawn; else the answer is no more than a commit away.
func (t *together) join(ctx context.Context, c *change) (leads bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.led {
		t.led = true
		return true, nil
	}
	c.news = make(chan struct{}, 1)
	t.waiting = append(t.waiting, c)
	for ended := ctx.Done(); !c.told; {
		if err = ctx.Err(); !c.taken && (err != nil || !t.led) {
			t.waiting = slices.DeleteFunc(t.waiting, func(w *change) bool { return w == c })
			if err != nil {
				t.callNext() // it may have been this one that was called
				return false, &dialect.TxError{Err: err}
			}
			t.led = true
			return true, nil
		}
		t.mu.Unlock()
		select {
		case <-c.news:
		case <-ended:
			ended = nil
		}
		t.mu.Lock()
	}
	return false, nil
}

// callNext calls somebody to lead when nobody does.
func (t *together) callNext() {
	if !t.led && len(t.waiting) > 0 {
		t.waiting[0].call()
	}
}

// call says that there is news, to one who looks for himself what it is.
func (c *change) call() {
	select {
	case c.news <- struct{}{}:
	default: // he has not looked since the last call, or never waited
	}
}

// lead runs a caller's change, and those of others when there are any.
func (t *together) lead(ctx context.Context, c *change) error {
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.led = false
		t.callNext()
	}()
	return t.run(ctx, func(on *conn) error {
		if t.hasCompany() {
			return t.shared(ctx, on, c)
		}
		return on.change(ctx, c)
	})
}

// hasCompany reports whether others wait, or are likely to come while a statement runs.
func (t *together) hasCompany() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.company || len(t.waiting) > 0
}

// run runs f on the writing connection. It has no grace for a context that ends: a short statement is not cut off, and
// one that waits for another process's lock has done nothing.
func (t *together) run(ctx context.Context, f func(on *conn) error) error {
	one, err := t.pool.Writer(ctx)
	if err != nil {
		return &dialect.TxError{Err: err}
	}
	defer one.Close()
	return one.Raw(func(on any) error { return f(on.(*conn)) })
}

func (c *conn) change(ctx context.Context, one *change) error {
	r, err := c.ExecContext(ctx, one.text, one.args)
	if err == nil {
		one.touched, err = r.RowsAffected()
	}
	return err
}

// shared runs the leader's change and those of all who come before its commit. They are taken when the file's lock is
// had, so that each can still withdraw while another process has it.
func (t *together) shared(ctx context.Context, on *conn, leaders *change) error {
	if _, err := on.ExecContext(ctx, "BEGIN IMMEDIATE", nil); err != nil {
		return err
	}
	all, committed := []*change{leaders}, false
	defer func() { t.tell(all, committed) }()
	ctx = context.Background() // the leader's has nothing to say about the others
	for i := 0; i < len(all); i++ {
		if err := on.change(ctx, all[i]); err != nil {
			return undo(on)
		}
		if i == len(all)-1 {
			all = t.take(all)
		}
	}
	if _, err := on.ExecContext(ctx, "COMMIT", nil); err != nil {
		return undo(on)
	}
	committed = true
	return nil
}

// undo rolls back. When that fails, it is done by giving up the connection.
func undo(on *conn) error {
	if _, err := on.ExecContext(context.Background(), "ROLLBACK", nil); err != nil {
		return driver.ErrBadConn
	}
	return nil
}

// take adds those who wait to all, as far as there is room.
func (t *together) take(all []*change) []*change {
	size := 0
	for _, c := range all {
		size += c.size
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, c := range t.waiting {
		if size += c.size; size > bytesShared || len(all) == mostShared {
			break
		}
		c.taken = true
		all = append(all, c)
		n++
	}
	t.waiting = slices.Delete(t.waiting, 0, n)
	return all
}

// tell says what became of a transaction to all who shared it.
func (t *together) tell(all []*change, committed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.company = len(all) > 1
	for _, c := range all {
		c.told, c.alone = true, !committed
		c.call()
	}
}
