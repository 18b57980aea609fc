package cases

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
)

// limitStalled lets a client stop before each request of a checkout within limits, with the connection open, as a
// process does that is stopped, whose machine sleeps or loses its power, or that the network no longer reaches.
func limitStalled(t *test) {
	direct := t.open()
	t.rowLocks(direct)
	const most = 24 // requests of such a checkout, and more
	var stopped atomic.Int64
	t.concurrently(most, func(_ context.Context, i int) {
		if t.stalledBefore(i+1, direct) {
			stopped.Add(1)
		}
	})
	if n := stopped.Load(); n < 3 || n == most {
		t.Errorf("%d clients stopped, want at least 3, and less than %d", n, most)
	}
}

// stalledBefore lets a client stop before request k of a checkout, and reports whether there was one.
func (t *test) stalledBefore(k int, direct *dbq.Client) bool {
	const stoppedFor = 20 * time.Second
	p, dsn := t.throughProxy()
	q := direct.Queue(fmt.Sprintf("fault %d", subjects.Add(1)))
	t.limit(direct, q.Name(), admin.QueueLimits{Leased: 100})
	t.enqueueMany(q, 10, nil)
	c := t.oneConnection(dsn)
	rule := proxy.Rule{AtRequest: k, Stall: true}
	return t.callUnder(p, rule, c, func(ctx context.Context) {
		_, _ = c.Queue(q.Name()).Checkout(ctx, 1, long)
	}, func(returned <-chan struct{}) {
		if t.awaitFault(p, rule, returned) {
			return
		}
		ctx, cancel := context.WithTimeout(t.ctx, stoppedFor)
		defer cancel()
		start := time.Now()
		tasks, err := q.Checkout(ctx, 1, long)
		t.Logf("request %d: %v", k, time.Since(start))
		if err != nil || len(tasks) != 1 {
			t.Errorf("beside a checkout that stopped before its request %d, a checkout of the queue returned %d tasks and %v "+
				"after %v", k, len(tasks), err, time.Since(start))
		}
	})
}
