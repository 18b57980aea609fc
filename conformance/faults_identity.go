package conformance

import (
	"context"
	"fmt"

	"github.com/dbq-go/dbq"
	"github.com/google/uuid"
)

// identityFaults lose requests and answers where somebody else's task, move or name could be taken for the caller's own.
func identityFaults() []Case {
	return []Case{
		{Name: "CutCheckoutOfTwoClientsWithOneName", once: true, run: cutCheckoutOfTwins,
			Law: "A checkout whose connection is lost never returns a task that another client of the same name holds."},
	}
}

// cutCheckoutOfTwins lets one client take a task by its first checkout, and cuts the first checkout of another client of its name.
func cutCheckoutOfTwins(t *T) {
	p, dsn := t.throughProxy()
	name := dbq.WithName("one name for both")
	cuts := 0
	for _, answer := range []bool{false, true} {
		for k := 1; k <= maxRequests; k++ {
			queue := fmt.Sprintf("fault %d", subjects.Add(1))
			holder := t.Open(name)
			t.enqueueMany(holder.Queue(queue), 3, nil)
			held := map[uuid.UUID]bool{}
			for _, task := range t.checkout(holder.Queue(queue), 2, long) {
				held[task.ID] = true
			}
			twin := t.OpenDSN(dsn, name)
			twin.DB().SetMaxOpenConns(1)
			ctx, cancel := context.WithTimeout(t.ctx, patienceOfCall)
			r := rule{atAsk: k, answer: answer}
			p.set(r)
			tasks, err := twin.Queue(queue).Checkout(ctx, 2, long)
			fired := p.heal()
			cancel()
			twin.Close()
			holder.Close()
			if !fired {
				break // the call has fewer requests
			}
			cuts++
			for _, task := range tasks {
				if held[task.ID] {
					t.Errorf("cut at %v: the checkout returned task %s under fence %d, which the other client holds (error %v)", r, task.ID, task.Fence, err)
				}
			}
		}
	}
	if cuts == 0 {
		t.Errorf("the checkout made no request that could be cut")
	}
}
