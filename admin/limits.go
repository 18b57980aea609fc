package admin

import (
	"context"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/limits"
	"github.com/dbq-go/dbq/internal/store"
)

// QueueLimits are the limits of a queue, which hold for all of its workers together. A zero field is no limit.
// docs/limits.md describes what counts, and what they cost.
type QueueLimits struct {
	// Leased is the largest number of tasks in PROCESSING: those that run, and those that a worker has leased ahead.
	Leased int
	// Rate bounds the starts. A retry and a takeover are starts, too.
	Rate Rate
	// PerKey serves the keys of the tasks in turn, so that a key with many tasks does not delay the others. Tasks without
	// a key take their turn together. It is implied by KeyLeased.
	PerKey bool
	// KeyLeased is the largest number of tasks of one key in PROCESSING. Tasks without a key have no such limit.
	KeyLeased int
}

// Rate is a number of starts in a time, on average. Up to Burst of them may come at once: in any time d there are at
// most Burst + d * Starts / Per.
type Rate struct {
	Starts int
	Per    time.Duration
	Burst  int
}

// QueueLimits returns the limits of a queue, or the zero value if it has none.
func (a *Admin) QueueLimits(ctx context.Context, queue string) (QueueLimits, error) {
	l, _, err := a.store.Limits(ctx, queue)
	return limitsOf(l), a.wrap("limits", queue, err)
}

// ConfigureLimits changes the limits of a queue atomically, while its workers run: concurrent updates to different
// fields are both applied. It can call change several times. Every checkout that begins after ConfigureLimits has
// returned keeps the new limits. Lowering a limit stops no running task: none starts until enough have ended. If the
// queue had no limits, a checkout that began before can still exceed them. The zero value removes all limits. For
// invalid limits ConfigureLimits returns dbq.ErrOption and changes nothing.
func (a *Admin) ConfigureLimits(ctx context.Context, queue string, change func(*QueueLimits)) error {
	err := limits.QueueName(queue)
	if err == nil {
		err = a.store.SetLimits(ctx, queue, func(stored store.Limits) (store.Limits, error) {
			l := limitsOf(stored)
			change(&l)
			return l.stored(), nil
		})
	}
	if err == nil {
		a.core.Wake.WakeControl(queue)
		a.core.Wake.WakeTasks(queue, dbq.MaxCheckout)
	}
	return a.wrap("configure limits", queue, err)
}

func limitsOf(l store.Limits) QueueLimits {
	return QueueLimits{Leased: l.Leased, Rate: Rate(l.Rate), PerKey: l.PerKey, KeyLeased: l.KeyMax}
}

func (l QueueLimits) stored() store.Limits {
	perKey := l.PerKey || l.KeyLeased > 0
	return store.Limits{Leased: l.Leased, Rate: store.Rate(l.Rate), PerKey: perKey, KeyMax: l.KeyLeased}
}
