package worker

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

const (
	// advanceEvery is how often a worker that has tasks of workflows searches for changes that a crashed client has left.
	advanceEvery = time.Second
	// advanceFor is how long it does so after the last such task. Otherwise it searches as often as it cleans.
	advanceFor = 10 * time.Minute
	// advanceTimeout bounds one search and the changes that follow. The next search continues there.
	advanceTimeout = time.Minute
)

// advancer advances the workflows of clients that crashed between the end of a task and what follows from it. Usually
// the call that ends the task does that.
type advancer struct {
	*env
	seen   atomic.Int64  // when the worker last had a task of a workflow, in nanoseconds
	active chan struct{} // signals the first one
}

func newAdvancer(e *env) *advancer { return &advancer{env: e, active: make(chan struct{}, 1)} }

// notice notes whether there are tasks of workflows among those that were leased.
func (a *advancer) notice(tasks []dbq.Task) {
	for i := range tasks {
		if store.InWorkflow(tasks[i].ID) {
			if a.seen.Swap(time.Now().UnixNano()) == 0 {
				a.active <- struct{}{}
			}
			return
		}
	}
}

// run advances until ctx ends.
func (a *advancer) run(ctx context.Context) {
	parts := access.Of(a.cfg.Queue.Client())
	for {
		call, cancel := context.WithTimeout(ctx, advanceTimeout)
		err := parts.ResumeWorkflows(call, advanceEvery)
		cancel()
		if ctx.Err() == nil {
			a.health.report(opAdvance, parts.Wrap("resume workflows", "", uuid.Nil, err))
		}
		every := cleanEvery
		if time.Since(time.Unix(0, a.seen.Load())) < advanceFor {
			every = advanceEvery
		}
		select {
		case <-ctx.Done():
			return
		case <-a.active:
		case <-time.After(every*3/4 + rand.N(every/2)):
		}
	}
}
