package admin

import (
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// Filter selects tasks for List, Archived and OperateMany. The zero value selects all tasks; each field restricts the
// selection. Calls return dbq.ErrInvalid for an invalid filter.
type Filter struct {
	Queue     string      // "" is every queue
	States    []dbq.State // empty is every state
	Kind      string      // "" is every kind
	Key       string      // "" is every key
	Reference string      // "" is every reference; with Queue it is at most one task
	// Workflow selects only the tasks of one workflow, by its id; see package workflow.
	Workflow uuid.UUID
	// Holder selects only tasks in PROCESSING whose lease this worker holds, by its id; see WorkerInfo.
	Holder string
	// ParkedOnly selects only parked tasks: in ERROR, and not retried by themselves.
	ParkedOnly bool
	// CancelledOnly selects only cancelled tasks, which are in POISON.
	CancelledOnly bool
	// NotCancelled leaves cancelled tasks out.
	NotCancelled bool
	// InStateFor selects only tasks that have been in their state for at least this long, by the database's clock.
	InStateFor time.Duration
	// EnteredWithin selects only tasks that came into their state at most this long ago.
	EnteredWithin time.Duration
	// EnteredSince selects only tasks that came into their state then or later, by the database's clock.
	EnteredSince time.Time
	// After selects only tasks with a higher id, and Before those with a lower id. Ids are ordered by creation.
	After  uuid.UUID
	Before uuid.UUID
	// NewestFirst lists by descending ids. It is for List only.
	NewestFirst bool
	// Limit is the maximum number of tasks in one call: 1 to dbq.MaxBulk or, with Workflow, to 200,000, the tasks of the
	// largest workflow. Zero means 100 for List and Archived; OperateMany requires a limit.
	Limit int
}

// From returns the filter of the tasks that follow an id in the order of the list.
func (f Filter) From(id uuid.UUID) Filter { return Filter(store.Filter(f).From(id)) }

// of returns the filter of the tasks to which an event is applied; see OperateMany.
func (f Filter) of(event state.Event) store.Filter {
	f.NotCancelled = f.NotCancelled || (event == Reenqueue || event == Finish) && !f.CancelledOnly
	return store.Filter(f)
}

const defaultPage = 100

var errNewestFirst = fmt.Errorf("%w: only List supports NewestFirst", dbq.ErrFilter)

func (f Filter) check() error {
	if f.Queue != "" {
		if err := bounds.QueueName(f.Queue); err != nil {
			return err
		}
	}
	if err := bounds.Text(f.Kind, 0, dbq.MaxKind, dbq.ErrKind, "kind"); err != nil {
		return err
	}
	if err := bounds.Text(f.Key, 0, dbq.MaxKey, dbq.ErrKey, "key"); err != nil {
		return err
	}
	if err := bounds.Text(f.Reference, 0, dbq.MaxReference, dbq.ErrReference, "reference"); err != nil {
		return err
	}
	if err := bounds.Text(f.Holder, 0, bounds.MaxReference, dbq.ErrFilter, "holder"); err != nil {
		return err
	}
	if f.InStateFor < 0 || f.EnteredWithin < 0 {
		return fmt.Errorf("%w: InStateFor is %v and EnteredWithin is %v, they must be at least 0", dbq.ErrFilter,
			f.InStateFor, f.EnteredWithin)
	}
	if f.CancelledOnly && f.NotCancelled {
		return fmt.Errorf("%w: CancelledOnly and NotCancelled exclude each other", dbq.ErrFilter)
	}
	if !f.EnteredSince.IsZero() && bounds.Time(f.EnteredSince) != nil {
		return fmt.Errorf("%w: EnteredSince is %v", dbq.ErrFilter, f.EnteredSince)
	}
	for _, s := range f.States {
		if !slices.Contains(state.All(), s) {
			return fmt.Errorf("%w: state %v", dbq.ErrFilter, s)
		}
	}
	if f.Workflow != uuid.Nil {
		return bounds.Count(f.Limit, bounds.MaxSteps)
	}
	return bounds.Count(f.Limit, dbq.MaxBulk)
}
