package conformance

import (
	"context"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
)

// A call is one of the methods that talk to the database, for laws that are about all of them.
type call struct {
	name    string
	plain   func(ctx context.Context) error
	tx      func(ctx context.Context, tx dbq.Tx) error // instead of plain
	settles bool                                       // carries a lease
}

// try makes the call; one that wants a transaction gets one on c, rolled back afterwards.
func (t *T) try(ctx context.Context, c *dbq.Client, call call) error {
	if call.tx == nil {
		return call.plain(ctx)
	}
	tx := t.begin(c)
	defer tx.Rollback() //nolint:errcheck // a cancelled statement may have ended it already
	return call.tx(ctx, tx)
}

// queueCalls are the methods of a queue.
func queueCalls(q *dbq.Queue, l dbq.Lease) []call {
	settle := func(name string, f func(ctx context.Context) error) call {
		return call{name: name, plain: f, settles: true}
	}
	return []call{
		{name: "enqueue", plain: func(ctx context.Context) error { _, err := q.Enqueue(ctx, dbq.NewTask{}); return err }},
		{name: "enqueueMany", plain: func(ctx context.Context) error {
			_, err := q.EnqueueMany(ctx, make([]dbq.NewTask, 3))
			return err
		}},
		{name: "enqueueTx", tx: func(ctx context.Context, tx dbq.Tx) error {
			_, err := q.EnqueueTx(ctx, tx, dbq.NewTask{})
			return err
		}},
		{name: "enqueueManyTx", tx: func(ctx context.Context, tx dbq.Tx) error {
			_, err := q.EnqueueManyTx(ctx, tx, make([]dbq.NewTask, 3))
			return err
		}},
		{name: "find", plain: func(ctx context.Context) error { _, err := q.Find(ctx, "r"); return err }},
		{name: "checkout", plain: func(ctx context.Context) error { _, err := q.Checkout(ctx, 1, long); return err }},
		settle("complete", func(ctx context.Context) error { return q.Complete(ctx, l, nil) }),
		settle("completeAndDelete", func(ctx context.Context) error { return q.CompleteAndDelete(ctx, l) }),
		settle("completeMany", func(ctx context.Context) error {
			lost, err := q.CompleteMany(ctx, []dbq.Lease{l})
			if err == nil && len(lost) > 0 {
				err = dbq.ErrLeaseLost
			}
			return err
		}),
		settle("fail", func(ctx context.Context) error { return q.Fail(ctx, l, dbq.RetryIn(0), errBoom) }),
		settle("poison", func(ctx context.Context) error { return q.Poison(ctx, l, errBoom) }),
		settle("release", func(ctx context.Context) error { return q.Release(ctx, l, 0) }),
		settle("settle", func(ctx context.Context) error {
			_, err := q.Settle(ctx, []dbq.Settlement{dbq.Completed(l, nil), dbq.CompletedAndDeleted(l)})
			return err
		}),
		settle("extend", func(ctx context.Context) error { _, err := q.Extend(ctx, l, long); return err }),
		settle("extendMany", func(ctx context.Context) error { _, _, err := q.ExtendMany(ctx, []dbq.Lease{l}, long); return err }),
		settle("markStarted", func(ctx context.Context) error {
			_, lost, err := q.MarkStarted(ctx, []dbq.Lease{l})
			if err == nil && len(lost) > 0 {
				err = dbq.ErrLeaseLost
			}
			return err
		}),
		{name: "completeTx", settles: true, tx: func(ctx context.Context, tx dbq.Tx) error { return q.CompleteTx(ctx, tx, l, nil) }},
		{name: "completeAndDeleteTx", settles: true, tx: func(ctx context.Context, tx dbq.Tx) error {
			return q.CompleteAndDeleteTx(ctx, tx, l)
		}},
	}
}

// allCalls are the methods of a client and of its queue q.
func allCalls(c *dbq.Client, l dbq.Lease) []call {
	calls := append(queueCalls(c.Queue("q"), l), []call{
		{name: "get", plain: func(ctx context.Context) error { _, err := c.Get(ctx, l.Task); return err }},
		{name: "list", plain: func(ctx context.Context) error { _, err := c.List(ctx, dbq.Filter{}); return err }},
		{name: "stats", plain: func(ctx context.Context) error { _, err := c.Stats(ctx); return err }},
		{name: "wait", plain: func(ctx context.Context) error { _, err := c.Wait(ctx, l.Task); return err }},
		{name: "now", plain: func(ctx context.Context) error { _, err := c.Now(ctx); return err }},
	}...)
	for _, tr := range state.ByOperator() {
		calls = append(calls,
			call{name: string(tr.Event), plain: func(ctx context.Context) error { return c.Operate(ctx, dbq.Operation{Event: tr.Event}, l.Task) }},
			call{name: string(tr.Event) + " by filter", plain: func(ctx context.Context) error {
				_, err := c.OperateMany(ctx, dbq.Operation{Event: tr.Event}, dbq.Filter{Limit: 10})
				return err
			}})
	}
	return calls
}
