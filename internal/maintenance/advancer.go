package maintenance

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq/internal/core"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

const (
	// advanceEvery is how often a process that has tasks of workflows searches for changes that a crashed client has
	// left.
	advanceEvery = time.Second
	// advanceFor is how long it does so after the last such task. Otherwise it searches as often as it cleans.
	advanceFor = 10 * time.Minute
	// advanceTimeout bounds one search and the changes that follow. The next search continues there.
	advanceTimeout = time.Minute
)

// Advancer advances the workflows of clients that crashed after the end of a task and before they advanced them.
// Usually the call that ends the task does that.
type Advancer struct {
	core   *core.Core
	seen   atomic.Int64  // when the process last had a task of a workflow, in nanoseconds
	active chan struct{} // signals the first one
}

// NewAdvancer returns an Advancer, which does nothing until Run is called.
func NewAdvancer(c *core.Core) *Advancer { return &Advancer{core: c, active: make(chan struct{}, 1)} }

// Notice records that a task was leased, in case it is one of a workflow, and reports whether it is.
func (a *Advancer) Notice(task uuid.UUID) bool {
	if !store.InWorkflow(task) {
		return false
	}
	if a.seen.Swap(time.Now().UnixNano()) == 0 {
		a.active <- struct{}{}
	}
	return true
}

// Run advances until ctx ends, and reports how each search has ended.
func (a *Advancer) Run(ctx context.Context, report func(error)) {
	for {
		call, cancel := context.WithTimeout(ctx, advanceTimeout)
		err := a.core.ResumeWorkflows(call, advanceEvery)
		cancel()
		if ctx.Err() == nil {
			report(a.core.Wrap("resume workflows", "", uuid.Nil, err))
		}
		every := CleanEvery
		if time.Since(time.Unix(0, a.seen.Load())) < advanceFor {
			every = advanceEvery
		}
		select {
		case <-ctx.Done():
			return
		case <-a.active:
		case <-time.After(Jittered(every)):
		}
	}
}
