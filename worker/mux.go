package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dbq-go/dbq"
)

// Mux is a Handler that hands each task to the handler of its kind. Fill it before the worker runs. A task of a kind that it does not have
// is parked in ERROR with that reason, unless there is a handler for "", which also gets tasks without a kind.
type Mux struct {
	kinds map[string]muxed
}

type muxed struct {
	handler Handler
	limits  Limits
}

var _ Limiter = (*Mux)(nil)

// On registers the handler of a kind. At most one Limits may be given, which hold for this kind. It panics on a kind that is taken and
// on a nil handler, which are mistakes in a program, not in its input.
func (m *Mux) On(kind string, h Handler, limits ...Limits) {
	if _, taken := m.kinds[kind]; taken || h == nil || len(limits) > 1 {
		panic(fmt.Sprintf("worker: Mux.On of kind %q: the kind is taken, the handler is nil, or there is more than one Limits", kind))
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

// errKind is why a task of an unknown kind is parked.
var errKind = errors.New("worker: no handler for the kind")

func (m *Mux) find(kind string) (muxed, bool) {
	k, ok := m.kinds[kind]
	if !ok {
		k, ok = m.kinds[""]
	}
	return k, ok
}

// Handle calls the handler of the task's kind.
func (m *Mux) Handle(ctx context.Context, t dbq.Task) ([]byte, error) {
	k, ok := m.find(t.Kind)
	if !ok {
		kinds := make([]string, 0, len(m.kinds))
		for kind := range m.kinds {
			kinds = append(kinds, kind)
		}
		slices.Sort(kinds)
		return nil, Park(fmt.Errorf("%w %q, only for %s", errKind, t.Kind, strings.Join(kinds, ", ")))
	}
	return k.handler.Handle(ctx, t)
}

// Limits are those of the task's kind.
func (m *Mux) Limits(t dbq.Task) Limits {
	k, _ := m.find(t.Kind)
	return k.limits
}

// Handle registers a function for a kind of typed tasks. A payload that cannot be decoded is parked in ERROR with the reason, without a
// call of the function: no repetition would help, and an operator may correct the program and reenqueue. Limits are as in Mux.On.
func Handle[T any](m *Mux, k dbq.Kind[T], f func(ctx context.Context, t dbq.Task, v T) error, limits ...Limits) {
	HandleResult(m, k, func(ctx context.Context, t dbq.Task, v T) ([]byte, error) { return nil, f(ctx, t, v) }, limits...)
}

// HandleResult is Handle for a function that returns a result to keep.
func HandleResult[T any](m *Mux, k dbq.Kind[T], f func(ctx context.Context, t dbq.Task, v T) ([]byte, error), limits ...Limits) {
	m.On(k.Name, Typed(k, f), limits...)
}

// Typed makes a function for typed tasks a Handler, for a worker whose queue has tasks of one kind only.
func Typed[T any](k dbq.Kind[T], f func(ctx context.Context, t dbq.Task, v T) ([]byte, error)) Handler {
	return HandlerFunc(func(ctx context.Context, t dbq.Task) ([]byte, error) {
		v, err := k.Decode(t)
		if err != nil {
			return nil, Park(err)
		}
		return f(ctx, t, v)
	})
}
