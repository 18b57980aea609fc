package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/store"
)

// QueueLimits are the limits of a queue, which apply to all of its workers together. A zero field means no limit.
// docs/limits.md describes what counts and what limits cost. Their JSON is that of the HTTP API. It leaves a zero field
// out, and reading it changes only the fields that it has; 0 starts remove a rate.
type QueueLimits struct {
	// Concurrency limits the tasks in PROCESSING: those that run, and those that a worker has leased ahead.
	Concurrency int
	// Rate bounds the starts. A retry and a takeover are starts, too.
	Rate Rate
	// PerKey serves the keys of the tasks in turn, so that a key with many tasks does not delay the others. Tasks
	// without a key take their turn together. It is implied by KeyConcurrency, KeyRate and Order.
	PerKey bool
	// KeyConcurrency limits the tasks of each key in PROCESSING. Tasks without a key have no such limit.
	KeyConcurrency int
	// KeyRate bounds the starts of each key. A retry and a takeover are starts, too. Tasks without a key have no such
	// limit.
	KeyRate Rate
	// Order starts the tasks of each key one after the other, in the order of their ids. It implies PerKey and a
	// KeyConcurrency of 1. Tasks without a key have no order.
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
	l, err := a.store.Limits(ctx, queue)
	return limitsOf(l.Limits), a.wrap("limits", queue, err)
}

// DeclaredLimits returns the limits of a queue that a program has declared, and whether any are.
func (a *Admin) DeclaredLimits(ctx context.Context, queue string) (l QueueLimits, declared bool, err error) {
	stored, err := a.store.Limits(ctx, queue)
	if stored.Declared == nil || err != nil {
		return l, false, a.wrap("limits", queue, err)
	}
	return limitsOf(*stored.Declared), true, nil
}

// ConfigureLimits changes the limits of a queue atomically, while its workers run: concurrent updates to different
// fields are both applied. It can call change several times. Every checkout that begins after ConfigureLimits returns
// observes the new limits. Lowering a limit does not stop running tasks: no task starts until enough have ended. If
// the queue had no limits, a checkout that began earlier can still exceed them. The zero value removes all limits.
// For invalid limits, ConfigureLimits returns dbq.ErrOption and changes nothing.
func (a *Admin) ConfigureLimits(
	ctx context.Context, queue string, change func(*QueueLimits), opts ...Option,
) error {
	return a.setLimits(ctx, "configure limits", queue, opts, func(q *store.QueueLimits) error {
		l := limitsOf(q.Limits)
		change(&l)
		next := l.stored()
		if next == q.Limits && next != (store.Limits{}) { // none may be some that cannot be read
			return errUnchanged
		}
		q.Limits, q.Changed = next, q.Declared == nil || next != *q.Declared
		return nil
	})
}

// DeclareLimits sets the limits of a queue that are defined in code: call it when the program starts. They are in force
// until an operator changes the limits to others by ConfigureLimits, also from the command line, the console or the
// HTTP API. The program needs the rights of an operator; see SECURITY.md.
// Then the operator's limits are, until ResetLimits. Limits that an operator has set before the first declaration stay
// too. If programs declare different limits, the last declaration counts. The zero value withdraws it.
func (a *Admin) DeclareLimits(ctx context.Context, queue string, l QueueLimits, opts ...Option) error {
	return a.setLimits(ctx, "declare limits", queue, opts, func(q *store.QueueLimits) error {
		next := l.stored()
		if q.Declared == nil && next == (store.Limits{}) || q.Declared != nil && *q.Declared == next {
			return errUnchanged
		}
		q.Changed = q.Changed || q.Declared == nil && q.Limits != store.Limits{}
		if q.Declared = &next; next == (store.Limits{}) {
			q.Declared = nil
		}
		if !q.Changed {
			q.Limits = next
		}
		return nil
	})
}

// ResetLimits replaces the limits of a queue by those that a program has declared. If none are declared, it returns
// dbq.ErrNotFound and changes nothing.
func (a *Admin) ResetLimits(ctx context.Context, queue string, opts ...Option) error {
	return a.setLimits(ctx, "reset limits", queue, opts, func(q *store.QueueLimits) error {
		if q.Declared == nil {
			return fmt.Errorf("%w: no program declares limits of the queue", dbq.ErrNotFound)
		}
		q.Limits, q.Changed = *q.Declared, false
		return nil
	})
}

func (a *Admin) setLimits(
	ctx context.Context, op, queue string, opts []Option, change func(*store.QueueLimits) error,
) error {
	err := bounds.QueueName(queue)
	if err == nil {
		ctx, _, err = a.audited(ctx, opts, store.Audit{Action: "limit queue", Queue: queue})
	}
	if err == nil {
		err = a.store.SetLimits(ctx, queue, change)
	}
	if errors.Is(err, errUnchanged) {
		return nil
	}
	if err == nil {
		a.core.Wake.WakeControl(queue)
		a.core.Wake.WakeTasks(queue, dbq.MaxCheckout)
	}
	return a.wrap(op, queue, err)
}

// errUnchanged ends the transaction of a change that changes nothing: nothing is written, and the audit has no entry.
var errUnchanged = errors.New("nothing changes")

func limitsOf(l store.Limits) QueueLimits {
	return QueueLimits{Concurrency: l.Concurrency, Rate: Rate(l.Rate), PerKey: l.PerKey, KeyConcurrency: l.KeyConcurrency,
		KeyRate: Rate(l.KeyRate), Order: KeyOrder(l.Order)}
}

func (l QueueLimits) stored() store.Limits {
	l.Rate.Per, l.KeyRate.Per = l.Rate.Per.Round(time.Microsecond), l.KeyRate.Per.Round(time.Microsecond) // as stored
	return store.Limits{
		Concurrency: l.Concurrency, Rate: store.Rate(l.Rate),
		PerKey:         l.PerKey || l.KeyConcurrency > 0 || l.KeyRate != Rate{} || l.Order != OrderNone,
		KeyConcurrency: l.KeyConcurrency, KeyRate: store.Rate(l.KeyRate), Order: store.Order(l.Order),
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
