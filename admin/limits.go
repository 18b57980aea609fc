package admin

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/store"
)

// QueueLimits are the limits of a queue, which apply to all of its workers together. A zero field means no limit.
// docs/limits.md describes what counts and what limits cost. Their JSON is that of the HTTP API. It leaves a zero field
// out, and reading it changes only the fields that it has; 0 starts remove a rate.
type QueueLimits struct {
	// Leased limits the tasks in PROCESSING: those that run, and those that a worker has leased ahead.
	Leased int
	// Rate bounds the starts. A retry and a takeover are starts, too.
	Rate Rate
	// PerKey serves the keys of the tasks in turn, so that a key with many tasks does not delay the others. Tasks without
	// a key take their turn together. It is implied by KeyLeased, KeyRate and Order.
	PerKey bool
	// KeyLeased limits the tasks of each key in PROCESSING. Tasks without a key have no such limit.
	KeyLeased int
	// KeyRate bounds the starts of each key. A retry and a takeover are starts, too. Tasks without a key have no such
	// limit.
	KeyRate Rate
	// Order starts the tasks of each key one after the other, in the order of their ids. It implies PerKey and a KeyLeased
	// of 1. Tasks without a key have no order.
	Order KeyOrder
}

// KeyOrder is how the tasks of a key follow one another: each starts when all earlier ones have ended. A task that is
// delayed, or waits for a retry, keeps the later ones waiting.
type KeyOrder string

// The orders of a key. A task in POISON, unless it was cancelled, and a parked task wait for an operator: OrderBlock
// starts no later task of the key meanwhile, and OrderSkip does. If an operator reenqueues a task that was skipped,
// it is the next of its key.
const (
	OrderNone  KeyOrder = ""
	OrderBlock KeyOrder = "block"
	OrderSkip  KeyOrder = "skip"
)

// Rate limits how many tasks start: on average Starts in each Per, and up to Burst of them at once. In any time d, at
// most Burst + d * Starts / Per tasks start.
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
// fields are both applied. It can call change several times. Every checkout that begins after ConfigureLimits returns
// observes the new limits. Lowering a limit does not stop running tasks: no task starts until enough have ended. If
// the queue had no limits, a checkout that began earlier can still exceed them. The zero value removes all limits.
// For invalid limits, ConfigureLimits returns dbq.ErrOption and changes nothing.
func (a *Admin) ConfigureLimits(
	ctx context.Context, queue string, change func(*QueueLimits), opts ...Option,
) error {
	err := bounds.QueueName(queue)
	if err == nil {
		ctx, _, err = a.audited(ctx, opts, store.Audit{Action: "limit queue", Queue: queue})
	}
	if err == nil {
		err = a.store.SetLimits(ctx, queue, func(stored store.Limits) (store.Limits, error) {
			l := limitsOf(stored)
			change(&l)
			next := l.stored()
			if next == stored && next != (store.Limits{}) { // none may be some that cannot be read
				return next, errUnchanged
			}
			return next, nil
		})
	}
	if errors.Is(err, errUnchanged) {
		return nil
	}
	if err == nil {
		a.core.Wake.WakeControl(queue)
		a.core.Wake.WakeTasks(queue, dbq.MaxCheckout)
	}
	return a.wrap("configure limits", queue, err)
}

// errUnchanged ends the transaction of a change that changes nothing: nothing is written, and the audit has no entry.
var errUnchanged = errors.New("nothing changes")

func limitsOf(l store.Limits) QueueLimits {
	return QueueLimits{Leased: l.Leased, Rate: Rate(l.Rate), PerKey: l.PerKey, KeyLeased: l.KeyLeased,
		KeyRate: Rate(l.KeyRate), Order: KeyOrder(l.Order)}
}

func (l QueueLimits) stored() store.Limits {
	return store.Limits{
		Leased: l.Leased, Rate: store.Rate(l.Rate),
		PerKey:    l.PerKey || l.KeyLeased > 0 || l.KeyRate != Rate{} || l.Order != OrderNone,
		KeyLeased: l.KeyLeased, KeyRate: store.Rate(l.KeyRate), Order: store.Order(l.Order),
	}
}

// MarshalJSON writes the limits as the HTTP API does.
func (l QueueLimits) MarshalJSON() ([]byte, error) { return json.Marshal(l.stored().Fields()) }

// UnmarshalJSON changes the limits that b has.
func (l *QueueLimits) UnmarshalJSON(b []byte) error {
	was, fields := l.stored(), l.stored().Fields()
	err := json.Unmarshal(b, &fields)
	now := fields.Limits()
	for _, r := range []struct{ now, was *store.Rate }{{&now.Rate, &was.Rate}, {&now.KeyRate, &was.KeyRate}} {
		if r.now.Starts == 0 && r.now.Per == r.was.Per && r.now.Burst == r.was.Burst {
			*r.now = store.Rate{}
		}
	}
	*l = limitsOf(now)
	return err
}
