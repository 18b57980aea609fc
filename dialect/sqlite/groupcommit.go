package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
)

// The limits of one group, so that no caller waits long for the others.
const (
	maxGroup      = 256     // statements
	maxGroupBytes = 4 << 20 // of their values
)

// groupCommit commits the statements of concurrent callers in one transaction. A commit costs more than a short
// statement, and far more when it waits for the disk.
//
// The first caller becomes the leader: it waits for the writing connection and commits, with its own statement, those
// that were queued in the meantime. Then a waiting caller or a new one becomes the leader. No caller waits for others
// to come, and a lone caller needs no transaction but its statement.
//
// Each caller gets the result that it would have got alone: if anything in the transaction fails, it is rolled back,
// and every caller runs its own statement.
//
// No caller waits longer for the writer than timeout, in which it may wait for a leader first, and then lead.
type groupCommit struct {
	timeout time.Duration

	mu      sync.Mutex
	led     bool      // a leader has the connection, or waits for it
	grouped bool      // the last leader's transaction had more than one statement
	waiting []*change // in the order of their calls
}

// change is a caller's statement. The lock of groupCommit guards its last three fields.
type change struct {
	writer  dialect.Writer
	text    string
	args    []driver.NamedValue
	size    int // of its values
	touched int64

	wakeup chan struct{} // nil if the caller did not wait
	taken  bool          // a leader runs it: it can no longer be withdrawn
	done   bool          // a leader has run it
	undone bool          // the leader's transaction was rolled back: the caller runs it alone
}

// exec implements GroupCommit of a dialect.Pool.
func (g *groupCommit) exec(
	ctx context.Context, writer dialect.Writer, text string, args []any,
) (touched int64, ok bool, err error) {
	if !changesFew(text) || !repeated(text) {
		return 0, false, nil
	}
	c, err := newChange(writer, text, args)
	if err != nil {
		return 0, true, err
	}
	first := g.enter(c)
	leads := first
	if !first {
		limited, cancel := kit.WithWriterTimeout(ctx, g.timeout)
		defer cancel()
		ctx = limited
		leads, err = g.wait(ctx, c)
	}
	if leads {
		err = g.lead(ctx, c)
	}
	if c.undone {
		err = c.run(ctx, func(on *conn) error { return on.change(ctx, c) })
	}
	if !first && errors.Is(err, context.DeadlineExceeded) {
		err = kit.WriterBusy(ctx)
	}
	if err != nil {
		return 0, true, err
	}
	return c.touched, true, nil
}

func newChange(writer dialect.Writer, text string, args []any) (*change, error) {
	c := &change{writer: writer, text: text, args: make([]driver.NamedValue, len(args))}
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

// enter queues the change, or reports that its caller is to lead.
func (g *groupCommit) enter(c *change) (leads bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.led {
		g.led = true
		return true
	}
	c.wakeup = make(chan struct{}, 1)
	g.waiting = append(g.waiting, c)
	return false
}

// wait waits until a leader has run the change, or reports that its caller is to lead. If ctx ends before a leader has
// taken the change, it is withdrawn. After that, the result is at most a commit away.
func (g *groupCommit) wait(ctx context.Context, c *change) (leads bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for ended := ctx.Done(); !c.done; {
		if err = ctx.Err(); !c.taken && (err != nil || !g.led) {
			g.waiting = slices.DeleteFunc(g.waiting, func(w *change) bool { return w == c })
			if err != nil {
				g.wakeNext() // in case this caller had been woken to lead
				return false, kit.WriterBusy(ctx)
			}
			g.led = true
			return true, nil
		}
		g.mu.Unlock()
		select {
		case <-c.wakeup:
		case <-ended:
			ended = nil
		}
		g.mu.Lock()
	}
	return false, nil
}

// wakeNext wakes the first waiting caller to lead, if there is no leader.
func (g *groupCommit) wakeNext() {
	if !g.led && len(g.waiting) > 0 {
		g.waiting[0].wake()
	}
}

// wake makes the caller check its change and the leader.
func (c *change) wake() {
	select {
	case c.wakeup <- struct{}{}:
	default: // it has not checked since the last wake, or did not wait
	}
}

// lead runs a caller's change, and those of others if there are any.
func (g *groupCommit) lead(ctx context.Context, c *change) error {
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.led = false
		g.wakeNext()
	}()
	return c.run(ctx, func(on *conn) error {
		if g.expectsOthers() {
			return g.commit(ctx, on, c)
		}
		return on.change(ctx, c)
	})
}

// expectsOthers reports whether others wait, or are likely to come while a statement runs.
func (g *groupCommit) expectsOthers() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.grouped || len(g.waiting) > 0
}

// run runs f on the writing connection. A context that ends needs no grace period here: a short statement is not
// interrupted, and one that waits for another process's lock has done nothing.
func (c *change) run(ctx context.Context, f func(on *conn) error) error {
	one, err := c.writer(ctx)
	if err != nil {
		return err
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

// commit runs the leader's change, and those of all callers that come before the commit, in one transaction. It takes
// them once it has the file's lock, so that each can still be withdrawn while another process has it.
func (g *groupCommit) commit(ctx context.Context, on *conn, own *change) error {
	if _, err := on.ExecContext(ctx, "BEGIN IMMEDIATE", nil); err != nil {
		return err
	}
	all, committed := []*change{own}, false
	defer func() { g.finish(all, committed) }()
	ctx = context.Background() // the leader's context must not end the others' statements
	for i := 0; i < len(all); i++ {
		if err := on.change(ctx, all[i]); err != nil {
			return undo(on)
		}
		if i == len(all)-1 {
			all = g.take(all)
		}
	}
	if _, err := on.ExecContext(ctx, "COMMIT", nil); err != nil {
		return undo(on)
	}
	committed = true
	return nil
}

// undo rolls back. If that fails, closing the connection does.
func undo(on *conn) error {
	if _, err := on.ExecContext(context.Background(), "ROLLBACK", nil); err != nil {
		return driver.ErrBadConn
	}
	return nil
}

// take adds the waiting changes to all, within the limits of a group.
func (g *groupCommit) take(all []*change) []*change {
	size := 0
	for _, c := range all {
		size += c.size
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, c := range g.waiting {
		if size += c.size; size > maxGroupBytes || len(all) == maxGroup {
			break
		}
		c.taken = true
		all = append(all, c)
		n++
	}
	g.waiting = slices.Delete(g.waiting, 0, n)
	return all
}

// finish reports the end of a transaction to all callers in it.
func (g *groupCommit) finish(all []*change, committed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.grouped = len(all) > 1
	for _, c := range all {
		c.done, c.undone = true, !committed
		c.wake()
	}
}
