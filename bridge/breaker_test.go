package bridge_test

import (
	"context"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/bridge"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
)

// panicking fails, then panics, then works.
type panicking struct {
	bridge.Enqueuer
	calls int
}

func (p *panicking) Enqueue(ctx context.Context, ts []dbq.NewTask) ([]dbq.Enqueued, error) {
	switch p.calls++; p.calls {
	case 1:
		return nil, dbq.ErrUnavailable
	case 2:
		panic("planted")
	}
	return p.Enqueuer.Enqueue(ctx, ts)
}

// TestBreakerClosesAfterAPanic makes the trial of an open breaker panic.
func TestBreakerClosesAfterAPanic(t *testing.T) {
	t.Parallel()
	near, far := dbqtest.New(t), dbqtest.New(t)
	f := newForwarder(t, bridge.ForwarderConfig{
		To: &panicking{Enqueuer: bridge.ToQueue(far.Queue("in"))}, MaxFailures: 1, Pause: 50 * time.Millisecond,
	})
	_, err := near.Queue("out").Enqueue(t.Context(), dbq.NewTask{})
	check.OK(t, err)
	for range 6 { // each time, the breaker may try again
		near.Run(f.Worker(near.Queue("out")))
		time.Sleep(100 * time.Millisecond)
		near.Advance(time.Hour)
	}
	near.WantTasks("out", dbq.StateCompleted, 1)
	far.WantTasks("in", dbq.StateCreated, 1)
}
