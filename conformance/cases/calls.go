package cases

import (
	"context"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/state"
)

// A call is one of the methods that talk to the database, for laws that are about all of them.
type call struct {
	name    string
	plain   func(ctx context.Context) error
	tx      func(ctx context.Context, tx dbq.Tx) error // instead of plain
	settles bool                                       // carries a lease
}

// makeCall makes the call. One that needs a transaction gets one on c, which is rolled back afterwards.
func (t *test) makeCall(ctx context.Context, c *dbq.Client, call call) error {
	if call.tx == nil {
		return call.plain(ctx)
	}
	tx := t.beginTx(c)
	defer tx.Rollback() // a cancelled statement may have ended it already
	return call.tx(ctx, tx)
}

// queueCalls returns the methods of a queue as calls.
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
		settle("settleDeleted", func(ctx context.Context) error { return q.Settle(ctx, l, dbq.Deleted()) }),
		settle("fail", func(ctx context.Context) error { return q.Settle(ctx, l, dbq.RetryIn(0, errBoom)) }),
		settle("poison", func(ctx context.Context) error { return q.Settle(ctx, l, dbq.Poisoned(errBoom)) }),
		settle("release", func(ctx context.Context) error { return q.Settle(ctx, l, dbq.Released(0)) }),
		settle("settleMany", func(ctx context.Context) error {
			_, err := q.SettleMany(ctx, []dbq.Settlement{settlement(l, dbq.Completed(nil)), settlement(l, dbq.Deleted())})
			return err
		}),
		settle("extend", func(ctx context.Context) error { _, err := q.Extend(ctx, l, long); return err }),
		settle("extendMany", func(ctx context.Context) error {
			_, _, err := q.ExtendMany(ctx, []dbq.Lease{l}, long)
			return err
		}),
		{name: "completeTx", settles: true, tx: func(ctx context.Context, tx dbq.Tx) error {
			return q.CompleteTx(ctx, tx, l, nil)
		}},
		{name: "settleDeletedTx", settles: true, tx: func(ctx context.Context, tx dbq.Tx) error {
			return q.SettleTx(ctx, tx, l, dbq.Deleted())
		}},
	}
}

// allCalls returns the methods of a client and of its queue q as calls.
func allCalls(c *dbq.Client, l dbq.Lease) []call {
	calls := append(queueCalls(c.Queue("q"), l), []call{
		{name: "get", plain: func(ctx context.Context) error { _, err := c.Get(ctx, l.Task); return err }},
		{
			name:  "list",
			plain: func(ctx context.Context) error { _, err := admin.New(c).List(ctx, admin.Filter{}); return err },
		},
		{name: "stats", plain: func(ctx context.Context) error { _, err := admin.New(c).Stats(ctx); return err }},
		{name: "wait", plain: func(ctx context.Context) error { _, err := c.Wait(ctx, l.Task); return err }},
		{name: "now", plain: func(ctx context.Context) error { _, err := c.Now(ctx); return err }},
	}...)
	for _, tr := range state.ByOperator() {
		calls = append(calls,
			call{name: string(tr.Event), plain: func(ctx context.Context) error {
				return admin.New(c).Operate(ctx, tr.Event, l.Task)
			}},
			call{name: string(tr.Event) + " by filter", plain: func(ctx context.Context) error {
				_, err := admin.New(c).OperateMany(ctx, tr.Event, admin.Filter{Limit: 10})
				return err
			}})
	}
	return calls
}
