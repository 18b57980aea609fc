// Package maintenance does the work that a database needs besides single tasks: it cleans queues, advances the
// workflows of clients that have crashed, samples queues, and adds statistics up. Workers do this for their queues, and
// servers of the HTTP API for all queues. Elections assign each duty to a member.
package maintenance

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/dbq-go/dbq/internal/core"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// CleanEvery is how often one member removes the tasks and attempts of a queue whose retention has passed. It is a
// variable, so that tests need not wait.
var CleanEvery = time.Minute

const (
	// cleanTimeout limits one cleaning.
	cleanTimeout = time.Minute
	// sampleLease is how long a dead sampler keeps others from sampling.
	sampleLease = 150 * time.Second
	// sampleTimeout limits each of the sampler's steps, so that all of them end within the minute.
	sampleTimeout = 20 * time.Second
)

const day = 24 * time.Hour

// DefaultRetention is the retention of a queue whose settings and workers set none. What needs an operator stays for a
// month.
var DefaultRetention = store.Retention{Completed: day, Poison: 30 * day, Cancelled: 7 * day, Parked: 30 * day,
	Attempts: 7 * day}

// Member is a candidate in the elections of those who do maintenance.
type Member struct {
	Core *core.Core
	Name string // unique for each run of a worker or a server
}

// Cleaned describes the results of Clean.
type Cleaned struct {
	store.Cleaned
	Led        bool // this member is the one that cleans
	Unfinished bool // time has run out; the next call continues there
}

// Clean is store.Clean, if this member leads in cleaning the queue, for at most a minute. On an error, Cleaned counts
// the removals so far.
func (m Member) Clean(ctx context.Context, queue string, keep store.Retention, h store.History) (Cleaned, error) {
	return m.clean(ctx, queue, func(ctx context.Context) (store.Cleaned, error) {
		return m.Core.Store.Clean(ctx, queue, keep, h)
	})
}

func (m Member) clean(ctx context.Context, queue string, clean func(context.Context) (store.Cleaned, error)) (
	done Cleaned, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	if done.Led, err = m.Core.Control.TryLead(ctx, "clean "+queue, m.Name, 3*CleanEvery); err != nil || !done.Led {
		return done, err
	}
	done.Cleaned, err = clean(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		done.Unfinished = true
		return done, nil
	}
	return done, m.Core.Wrap("clean", queue, uuid.Nil, err)
}

// Sample samples the queues and adds statistics up, if this member is the one that does. A failed sample does not keep
// statistics from being added up.
func (m Member) Sample(ctx context.Context) error {
	within := func(f func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
		defer cancel()
		return f(ctx)
	}
	var now int64
	leads := false
	without := map[string]bool{}
	err := within(func(ctx context.Context) (err error) {
		if leads, err = m.Core.Control.TryLead(ctx, "statistics", m.Name, sampleLease); leads && err == nil {
			now, err = m.Core.Store.ReadNow(ctx)
		}
		return err
	})
	if err != nil || !leads {
		return err
	}
	sampled := within(func(ctx context.Context) (err error) {
		if without, err = m.Core.Control.WithoutStatistics(ctx); err != nil {
			return err
		}
		ended := time.UnixMicro(now).Add(-time.Minute / 2).Truncate(time.Minute)
		return m.Core.Store.Sample(ctx, ended.UnixMicro(), func(queue string) bool { return without[queue] })
	})
	added := within(func(ctx context.Context) error { return m.Core.Store.RollUp(ctx, now) })
	return m.Core.Wrap("sample statistics", "", uuid.Nil, cmp.Or(sampled, added))
}

// Jittered returns a duration between three and five quarters of d, so that members do not act in step.
func Jittered(d time.Duration) time.Duration { return d*3/4 + rand.N(d/2) }

// sleep waits, and returns false if ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool { return store.Sleep(ctx, d) == nil }
