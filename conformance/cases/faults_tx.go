package cases

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
	"github.com/dbq-go/dbq/workflow"
)

// callsTx are the calls that change something in a caller's transaction.
var callsTx = map[string]func(ctx context.Context, c *dbq.Client, tx dbq.Tx, q *dbq.Queue, held dbq.Lease) error{
	"EnqueueTx": func(ctx context.Context, _ *dbq.Client, tx dbq.Tx, q *dbq.Queue, _ dbq.Lease) error {
		_, err := q.EnqueueTx(ctx, tx, dbq.NewTask{})
		return err
	},
	"EnqueueManyTx of unique tasks": func(
		ctx context.Context, _ *dbq.Client, tx dbq.Tx, q *dbq.Queue, _ dbq.Lease,
	) error {
		_, err := q.EnqueueManyTx(ctx, tx, []dbq.NewTask{{Unique: pending("a")}, {Unique: replacing("b")}})
		return err
	},
	"CompleteTx": func(ctx context.Context, _ *dbq.Client, tx dbq.Tx, q *dbq.Queue, held dbq.Lease) error {
		return q.CompleteTx(ctx, tx, held, nil)
	},
	"SettleTx with an error": func(ctx context.Context, _ *dbq.Client, tx dbq.Tx, q *dbq.Queue, held dbq.Lease) error {
		return q.SettleTx(ctx, tx, held, dbq.Failed(errors.New("it failed")))
	},
	"OperateTx": func(ctx context.Context, c *dbq.Client, tx dbq.Tx, _ *dbq.Queue, held dbq.Lease) error {
		return admin.New(c).OperateTx(ctx, tx, admin.Revoke, held.Task, admin.By("ann"))
	},
	"workflow.EnqueueTx": func(ctx context.Context, c *dbq.Client, tx dbq.Tx, q *dbq.Queue, _ dbq.Lease) error {
		_, err := workflow.EnqueueTx(ctx, tx, c, []workflow.Step{
			{Name: "one", Queue: q.Name()}, {Name: "two", Queue: q.Name(), Needs: []string{"one"}}})
		return err
	},
}

// cutInCallersTx cuts each request of each call in a caller's transaction in turn, before it reaches the server and
// after, and then ends the transaction.
func cutInCallersTx(t *test) {
	p, dsn := t.throughProxy()
	direct := t.open()
	for _, name := range slices.Sorted(maps.Keys(callsTx)) {
		for _, lose := range []bool{false, true} {
			for k, fired := 1, true; fired && k <= maxRequests; k++ {
				q := direct.Queue(fmt.Sprintf("fault %d", subjects.Add(1)))
				held := t.takeNew(q, dbq.NewTask{}, long)
				c := t.oneConnection(dsn)
				tx := t.beginTx(c)
				what := fmt.Sprintf("%s, cut at request %d (answer lost: %v)", name, k, lose)
				fired = t.callUnder(p, proxy.Rule{AtRequest: k, LoseAnswer: lose}, c, func(ctx context.Context) {
					err := callsTx[name](ctx, c, tx, c.Queue(q.Name()), held.Lease)
					if p.Fired() && !errors.Is(err, dbq.ErrUnavailable) || errors.Is(err, dbq.ErrMayHaveHappened) {
						t.Errorf("%s: got error %v, want ErrUnavailable alone", what, err)
					}
					_ = tx.Rollback()
				}, nil)
				if k == 1 && !fired {
					t.Errorf("%s made no request that could be cut", name)
				}
				// The server may not have noticed yet that its client is gone.
				t.must(q.Complete(t.ctx, held.Lease, nil))
				if rest := t.list(direct, admin.Filter{Queue: q.Name()}); len(rest) != 1 {
					t.Errorf("%s: %d tasks are in the queue, want the one that was there", what, len(rest))
				}
			}
		}
	}
}
