package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dbq-go/dbq"
)

// A Mux is a Handler that calls the handler of each task's kind. Register all handlers before the worker runs. A task
// without a matching handler is parked in ERROR with the reason, unless there is a handler for "", which also gets
// tasks without a kind.
type Mux struct {
	kinds map[string]muxed
}

type muxed struct {
	handler Handler
	limits  Limits
}

var _ Limiter = (*Mux)(nil)

// NewMux returns a Mux without handlers. So is the zero Mux.
func NewMux() *Mux { return new(Mux) }

// Handle registers the handler of a kind, with at most one Limits for tasks of this kind. It panics if the kind already
// has a handler or h is nil.
func (m *Mux) Handle(kind string, h Handler, limits ...Limits) {
	if _, taken := m.kinds[kind]; taken || h == nil || len(limits) > 1 {
		panic(fmt.Sprintf("worker: Mux.Handle of kind %q: the kind is taken, the handler is nil, "+
			"or there is more than one Limits", kind))
	}
	if m.kinds == nil {
		m.kinds = map[string]muxed{}
	}
	k := muxed{handler: h}
	if len(limits) > 0 {
		k.limits = limits[0]
	}
	m.kinds[kind] = k
}

// HandleFunc is Handle for a function.
func (m *Mux) HandleFunc(kind string, f func(ctx context.Context, t dbq.Task) dbq.Outcome, limits ...Limits) {
	m.Handle(kind, HandlerFunc(f), limits...)
}

// errKind is why a task of an unknown kind is parked.
var errKind = errors.New("worker: no handler for the kind")

func (m *Mux) find(kind string) (muxed, bool) {
	k, ok := m.kinds[kind]
	if !ok {
		k, ok = m.kinds[""]
	}
	return k, ok
}

// HandleTask calls the handler of the task's kind.
func (m *Mux) HandleTask(ctx context.Context, t dbq.Task) dbq.Outcome {
	k, ok := m.find(t.Kind)
	if !ok {
		kinds := slices.Sorted(maps.Keys(m.kinds))
		return dbq.Parked(fmt.Errorf("%w %q, only for %s", errKind, t.Kind, strings.Join(kinds, ", ")))
	}
	return k.handler.HandleTask(ctx, t)
}

// Limits are those of the task's kind.
func (m *Mux) Limits(t dbq.Task) Limits {
	k, _ := m.find(t.Kind)
	return k.limits
}

// Handle registers a function for a kind of typed tasks. Its error is treated as by Func. A task whose payload cannot
// be decoded is parked in ERROR with the reason and without a call of the function: retrying would not help, and an
// operator can correct the program and reenqueue the task. Limits are as in Mux.Handle.
func Handle[T any](m *Mux, k dbq.Kind[T], f func(ctx context.Context, t dbq.Task, v T) error, limits ...Limits) {
	HandleOutcome(m, k, func(ctx context.Context, t dbq.Task, v T) dbq.Outcome {
		return dbq.OutcomeOf(f(ctx, t, v))
	}, limits...)
}

// HandleOutcome is Handle for a function that returns an Outcome, such as dbq.Completed with a result.
func HandleOutcome[T any](m *Mux, k dbq.Kind[T], f func(ctx context.Context, t dbq.Task, v T) dbq.Outcome,
	limits ...Limits) {
	m.HandleFunc(k.Name, func(ctx context.Context, t dbq.Task) dbq.Outcome {
		v, err := k.Decode(t)
		if err != nil {
			return dbq.Parked(err)
		}
		return f(ctx, t, v)
	}, limits...)
}
