package worker

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/dbq-go/dbq"
)

// A Mux is a Handler that calls the handler of each task's kind, as http.ServeMux does for paths. Register all handlers
// before the worker runs. A handler for "" gets the tasks of all other kinds, and those without a kind.
//
// If there is no handler for a task's kind, its outcome is a failure with ErrNoHandler. A worker then releases the
// task, for a second at first and for up to 10 minutes later, and the attempt does not count: in a rolling deploy, a
// worker of the new version takes it. To park such tasks instead, register a handler for "" that returns dbq.Parked.
type Mux struct {
	kinds map[string]muxed
}

type muxed struct {
	handler Handler
	policy  Policy
	queue   string // of the Kind, for Serve
	tx      bool   // registered by HandleTx
}

var _ PolicyHandler = (*Mux)(nil)

// NewMux returns an empty Mux. The zero Mux is also empty and ready to use.
func NewMux() *Mux { return new(Mux) }

// Handle registers the handler of a kind. It panics if the kind already has a handler or h is nil.
func (m *Mux) Handle(kind string, h Handler) {
	f, isFunc := h.(HandlerFunc)
	if _, taken := m.kinds[kind]; taken || h == nil || isFunc && f == nil {
		panic(fmt.Sprintf("worker: Mux.Handle: kind %q already has a handler, or the handler is nil", kind))
	}
	if m.kinds == nil {
		m.kinds = map[string]muxed{}
	}
	m.kinds[kind] = muxed{handler: h}
}

// SetPolicy sets the policy of a kind's tasks. It panics if the kind has no handler yet.
func (m *Mux) SetPolicy(kind string, l Policy) {
	k, ok := m.kinds[kind]
	if !ok {
		panic(fmt.Sprintf("worker: Mux.SetPolicy: kind %q has no handler; register it first", kind))
	}
	k.policy = l
	m.kinds[kind] = k
}

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
		return dbq.Failed(&noHandlerError{t.Kind, slices.Sorted(maps.Keys(m.kinds))})
	}
	return k.handler.HandleTask(ctx, t)
}

// Policy returns the policy of the task's kind.
func (m *Mux) Policy(t dbq.Task) Policy {
	k, _ := m.find(t.Kind)
	return k.policy
}

// Handle registers a function for the tasks of a kind. As with Func, nil completes the task, and an error fails the
// attempt or is an Outcome. If the payload cannot be decoded, the task is parked in ERROR with the reason, and the
// function is not called: retrying would not help, and an operator can reenqueue the task after the program is
// corrected. Like Mux.Handle, it panics if the kind already has a handler, and also if it has no Name.
//
//	mux := worker.NewMux()
//	worker.Handle(mux, SendMail, func(ctx context.Context, t dbq.Task, m Mail) error { ... })
func Handle[T any](m *Mux, k dbq.Kind[T], f func(ctx context.Context, t dbq.Task, v T) error) {
	handle(m, k, false, func(ctx context.Context, t dbq.Task, v T) dbq.Outcome { return dbq.OutcomeOf(f(ctx, t, v)) })
}

// handle is Handle for a function that returns an outcome. tx says that it needs a transaction.
func handle[T any](m *Mux, k dbq.Kind[T], tx bool, f func(ctx context.Context, t dbq.Task, v T) dbq.Outcome) {
	if k.Name == "" {
		panic("worker: a dbq.Kind without a Name cannot have a handler")
	}
	m.Handle(k.Name, HandlerFunc(func(ctx context.Context, t dbq.Task) dbq.Outcome {
		v, err := k.Decode(t)
		if err != nil {
			return dbq.Parked(err)
		}
		return f(ctx, t, v)
	}))
	registered := m.kinds[k.Name]
	registered.queue, registered.tx = k.Queue, tx
	m.kinds[k.Name] = registered
}

// HandleResult is Handle for a function that returns a result, which is stored with the completed task as JSON. In a
// workflow, the steps that need the task read it with workflow.Result. If the result is longer than dbq.MaxResult or
// cannot be encoded, the task is still completed, because the function has done its work. A mark is stored instead of
// the result or of its end, and the worker logs it.
func HandleResult[T, R any](m *Mux, k dbq.Kind[T], f func(ctx context.Context, t dbq.Task, v T) (R, error)) {
	handle(m, k, false, func(ctx context.Context, t dbq.Task, v T) dbq.Outcome {
		r, err := f(ctx, t, v)
		return resultOf(ctx, &t, r, err)
	})
}

// resultOf returns the outcome of a function that returns a result.
func resultOf(ctx context.Context, t *dbq.Task, r any, err error) dbq.Outcome {
	if err != nil {
		return dbq.OutcomeOf(err)
	}
	result, err := json.Marshal(r)
	if err != nil {
		if e := envOf(ctx); e != nil {
			e.logResult(t, err.Error())
		}
		result = []byte("[no result: " + err.Error() + "]")
	}
	return dbq.Completed(result)
}

// HandleTx is Handle for a function that does its work in the transaction that completes the task; see TxHandler. The
// payload is decoded before the transaction begins. A Worker on a queue of package client refuses a Mux with such
// a kind.
func HandleTx[T any](m *Mux, k dbq.Kind[T], f func(ctx context.Context, tx *sql.Tx, t dbq.Task, v T) error) {
	handleTx(m, k, func(ctx context.Context, tx *sql.Tx, t dbq.Task, v T) dbq.Outcome {
		return dbq.OutcomeOf(f(ctx, tx, t, v))
	})
}

// HandleTxResult is HandleTx for a function that returns a result, as HandleResult is to Handle. The result is stored
// in the transaction.
func HandleTxResult[T, R any](
	m *Mux, k dbq.Kind[T], f func(ctx context.Context, tx *sql.Tx, t dbq.Task, v T) (R, error),
) {
	handleTx(m, k, func(ctx context.Context, tx *sql.Tx, t dbq.Task, v T) dbq.Outcome {
		r, err := f(ctx, tx, t, v)
		return resultOf(ctx, &t, r, err)
	})
}

// handleTx is HandleTx for a function that returns an outcome.
func handleTx[T any](m *Mux, k dbq.Kind[T], f func(ctx context.Context, tx *sql.Tx, t dbq.Task, v T) dbq.Outcome) {
	handle(m, k, true, func(ctx context.Context, t dbq.Task, v T) dbq.Outcome {
		h := TxHandler{Func: func(ctx context.Context, tx *sql.Tx, t dbq.Task) dbq.Outcome { return f(ctx, tx, t, v) }}
		return h.HandleTask(ctx, t)
	})
}

// txKinds returns the kinds whose handlers need a Worker with access to the database.
func (m *Mux) txKinds() []string {
	var out []string
	for kind, k := range m.kinds {
		if k.tx || needsTx(k.handler) {
			out = append(out, kind)
		}
	}
	slices.Sort(out)
	return out
}

// needsTx reports whether a handler completes tasks in a transaction: a TxHandler, or a Mux with one.
func needsTx(h Handler) bool {
	switch h := h.(type) {
	case TxHandler, *TxHandler:
		return true
	case *Mux:
		return len(h.txKinds()) > 0
	}
	return false
}
