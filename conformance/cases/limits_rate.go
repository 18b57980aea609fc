package cases

import (
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
)

func limitRate(t *test) {
	const burst, per = 5, 40 * time.Millisecond
	c, q := t.limited(admin.QueueLimits{Rate: admin.Rate{Starts: 1, Per: per, Burst: burst}})
	t.enqueueMany(q, 40, func(_ int, nt *dbq.NewTask) { nt.MaxAttempts = 1000 })
	clients := []*dbq.Queue{q, t.open().Queue(q.Name())}
	var starts []time.Time
	begin := t.now(c)
	for i := 0; t.now(c).Sub(begin) < 25*per; i++ {
		tasks := t.checkout(clients[i%2], 3, []time.Duration{long, 10 * time.Millisecond}[i%2])
		for k, task := range tasks {
			starts = append(starts, t.get(c, task.ID).Updated)
			if k == 0 && i%3 == 0 {
				err := clients[i%2].Settle(t.ctx, task.Lease, dbq.RetryIn(0, errBoom))
				if i%2 == 0 { // the lease of the other may have expired
					t.must(err)
				}
			}
		}
	}
	slices.SortFunc(starts, time.Time.Compare)
	for i := range starts {
		for k := i; k < len(starts); k++ {
			if most := burst + int((starts[k].Sub(starts[i])+c.Info().Server.Precision)/per) + 1; k-i+1 > most {
				t.Fatalf("%d tasks started in %v; the rate is one in %v, with a burst of %d", k-i+1,
					starts[k].Sub(starts[i]), per, burst)
			}
		}
	}
	if len(starts) < burst {
		t.Errorf("%d tasks started in %v, want the burst of %d at least", len(starts), 25*per, burst)
	}
}

func limitRateGoesOn(t *test) {
	const n, per = 12, 50 * time.Millisecond
	_, q := t.limited(admin.QueueLimits{Rate: admin.Rate{Starts: 1, Per: per, Burst: 1}})
	t.enqueueMany(q, n, nil)
	consumer := q.Consumer()
	defer consumer.Close()
	begin := time.Now()
	for range n {
		tasks, err := consumer.Checkout(t.ctx, 1, long)
		t.must(err)
		t.must(q.Complete(t.ctx, tasks[0].Lease, nil))
	}
	took := time.Since(begin)
	if took < (n-2)*per || took > defaultPatience/2 {
		t.Errorf("%d tasks took %v at one in %v", n, took, per)
	}
}

func limitRateCounts(t *test) {
	rate := admin.Rate{Starts: 1, Per: long, Burst: 4}
	_, q := t.limited(admin.QueueLimits{Rate: rate})
	t.enqueueMany(q, 9, nil)
	for _, task := range t.checkout(q, 2, short) {
		t.awaitExpiry(q.Client(), task.ID)
	}
	other := t.open().Queue(q.Name())
	takenOver := 0
	t.eventually("the tasks are taken over", func() bool {
		for _, task := range t.checkout(other, 2, long) {
			if task.TakenOver != nil {
				takenOver++
			}
		}
		return takenOver == 2
	})
	t.wantNone("after two starts and two takeovers", q)

	_, q = t.limited(admin.QueueLimits{Rate: rate})
	t.enqueueMany(q, 1, nil)
	for range rate.Burst {
		t.must(q.Settle(t.ctx, t.takeEventually(q, 1, long)[0].Lease, dbq.RetryIn(0, errBoom)))
	}
	t.wantNone("after a start and three retries", q)
}
