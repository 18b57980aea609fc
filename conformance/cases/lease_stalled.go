package cases

import (
	"context"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
)

// renewalStalled lets a client stop before each request of a renewal in turn, with the connection open, as a process
// does that is stopped or whose machine sleeps.
func renewalStalled(t *test) {
	p, dsn := t.throughProxy()
	direct := t.open()
	const stoppedFor = 3 * time.Second // other clients must not notice
	for k, fired := 1, true; fired; k++ {
		q := direct.Queue(fmt.Sprintf("fault %d", subjects.Add(1)))
		task := t.takeNew(q, dbq.NewTask{}, short)
		t.awaitExpiry(direct, task.ID)
		t.enqueue(q, dbq.NewTask{})
		c := t.oneConnection(dsn)
		rule := proxy.Rule{AtRequest: k, Stall: true}
		fired = t.callUnder(p, rule, c, func(ctx context.Context) {
			_, _ = c.Queue(q.Name()).Extend(ctx, task.Lease, long)
		}, func(returned <-chan struct{}) {
			if t.awaitFault(p, rule, returned) {
				return
			}
			ctx, cancel := context.WithTimeout(t.ctx, stoppedFor)
			defer cancel()
			for _, want := range []string{"the one that is due", "an answer"} { // the second one searches for expired leases
				tasks, err := q.Checkout(ctx, 5, long)
				if err != nil {
					t.Errorf("beside a renewal that stopped before its request %d, a checkout returned %d tasks and %v, want %s",
						k, len(tasks), err, want)
				}
			}
		})
	}
}
