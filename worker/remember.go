package worker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/errs"
)

// Do runs a step of a handler once: it calls f and remembers what f returns with the task, under a name. If a later
// attempt of the task comes to the same step, after a failure, a release, a crash or a deploy, Do returns the
// remembered value instead of calling f.
//
//	receipt, err := worker.Do(ctx, "charge", func(ctx context.Context) (Receipt, error) { return pay(ctx, order) })
//
// When Do returns without an error, the value is stored. If f fails, nothing is remembered. If the value cannot be
// stored within the length of a lease, Do returns dbq.ErrUnavailable: on SQLite also while the handler has a
// transaction of Client.DB open. If the process dies between f's work and the moment when the value is stored, the
// next attempt calls f again: make f idempotent, for example by an idempotency key made of the task's id and the
// step's name.
//
// A step is known by its name alone. After a change of the code, a new name is a new step, a name that is no longer
// used is ignored, and a value that does not fit its new type fails the attempt. The values are encoded as JSON. All
// those of a task together may take about dbq.MaxProgress bytes: keep what is larger in tables of your own, and
// remember its key: Do returns dbq.ErrProgress if f has returned too much. They are the task's progress, so that
// operators see them, and they end with the task. Therefore a handler that remembers values cannot call SetProgress.
//
// ctx is the handler's, or derived from it; in a BatchHandler, that of ForTask. Inside a TxHandler there is nothing to
// remember, because its work is committed at once or not at all: Do returns ErrConfig there. The goroutines of a
// handler may call Do at the same time for steps of different names.
func Do[T any](ctx context.Context, name string, f func(ctx context.Context) (T, error)) (T, error) {
	v, ok, err := Recall[T](ctx, name)
	if ok {
		return v, stored(ctx) // an earlier call may have returned before it was
	}
	if err == nil {
		v, err = f(ctx)
	}
	if err != nil {
		return v, err
	}
	return v, Remember(ctx, name, v)
}

// Sleep ends the attempt and lets the task wait for d, by the database's clock, without a worker and without counting
// the attempt. The handler must return the error of Sleep, which is a dbq.Released. The attempt after that comes to
// the same Sleep again, which then returns nil.
//
//	if err := worker.Sleep(ctx, "until the reminder", 24*time.Hour); err != nil {
//		return err
//	}
//
// name is that of a step, as for Do: what is remembered under it is when the sleep ends. If the task is handed out
// earlier, Sleep lets it wait for the rest. d is 0 to dbq.MaxDelay.
func Sleep(ctx context.Context, name string, d time.Duration) error {
	if err := bounds.Delay(d); err != nil {
		return err
	}
	l, err := remembering(ctx)
	if err != nil {
		return err
	}
	// When it was checked out, and the time since: in milliseconds, as on SQLite, so that the task is not due before end.
	now := l.task.Updated.Add(time.Since(l.received)).Truncate(time.Millisecond)
	end, slept, err := Recall[time.Time](ctx, name)
	if err == nil && !slept {
		end = now.Add(d)
		err = l.remember(name, end) // stored with the release
	}
	if left := end.Sub(now); err == nil && left > 0 {
		return dbq.Released(left)
	}
	return err
}

// Remember stores a value with the task under a name, in place of an earlier one. Recall returns it, in this attempt
// and in later ones: for example how far a loop has come. When Remember returns nil, the value is stored. See Do for
// what applies to both.
func Remember[T any](ctx context.Context, name string, v T) error {
	l, err := remembering(ctx)
	if err == nil {
		err = l.remember(name, v)
	}
	if err != nil {
		return err
	}
	return stored(ctx)
}

// stored waits until the database has what is remembered.
func stored(ctx context.Context) error {
	l, err := remembering(ctx)
	if err != nil {
		return err
	}
	return l.in.saved(ctx, l)
}

// Recall returns the value that is remembered with the task under a name; ok is false if there is none.
func Recall[T any](ctx context.Context, name string) (v T, ok bool, err error) {
	l, err := remembering(ctx)
	if err == nil {
		err = bounds.Text(name, 1, maxStepName, dbq.ErrInvalid, "name of a step")
	}
	if err != nil {
		return v, false, err
	}
	l.in.mu.Lock()
	all, err := l.remembered()
	l.in.mu.Unlock()
	raw, ok := all[name]
	if err != nil || !ok {
		return v, false, err
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, false, fmt.Errorf("worker: what is remembered of step %q does not fit its type any more: %w", name, err)
	}
	return v, true, nil
}

// maxStepName limits the names of steps, in characters.
const maxStepName = 100

// rememberedPrefix begins the progress of a task with remembered values, which are {"remembered":{NAME:VALUE,...}}.
const rememberedPrefix = `{"remembered":`

type rememberedValues struct {
	Values map[string]json.RawMessage `json:"remembered"`
}

// remembering returns the task that a handler's context is about, if values can be remembered with it.
func remembering(ctx context.Context) (*leased, error) {
	l, err := reporting(ctx)
	if err != nil {
		return nil, err
	}
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	if l.invocation != nil && l.invocation.inTx {
		return nil, fmt.Errorf("%w: a TxHandler has one step, its transaction, and can remember no others", ErrConfig)
	}
	return l, nil
}

// reported returns the progress of the task in this attempt or, before that, in an earlier one. The caller holds
// leases.mu.
func (l *leased) reported() []byte {
	if l.progress != nil {
		return l.progress
	}
	return l.task.Progress
}

// remembered returns the remembered values of the task. The caller holds leases.mu.
func (l *leased) remembered() (map[string]json.RawMessage, error) {
	var r rememberedValues
	p := l.reported()
	if len(p) > 0 && (!bytes.HasPrefix(p, []byte(rememberedPrefix)) || json.Unmarshal(p, &r) != nil) {
		return nil, fmt.Errorf(
			"%w: the task has progress of SetProgress: a handler either remembers values or sets progress", ErrConfig)
	}
	return r.Values, nil
}

// remember adds a value to the task's progress, which the next renewal or the outcome stores.
func (l *leased) remember(name string, v any) error {
	raw, err := json.Marshal(v) // before the lock: it may be code of the program
	if err != nil {
		return fmt.Errorf("worker: the value of step %q cannot be remembered: %w", name, err)
	}
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	p, err := l.with(name, raw)
	if err == nil {
		l.progress, l.unsaved = p, true
	}
	return err
}

// with returns the task's progress with a value. The caller holds leases.mu.
func (l *leased) with(name string, v json.RawMessage) ([]byte, error) {
	if err := bounds.Text(name, 1, maxStepName, dbq.ErrInvalid, "name of a step"); err != nil {
		return nil, err
	}
	values, err := l.remembered()
	if err != nil {
		return nil, err
	}
	if values == nil {
		values = map[string]json.RawMessage{}
	}
	values[name] = v
	p, err := json.Marshal(rememberedValues{values})
	if err == nil && len(p) > bounds.MaxProgress {
		err = &errs.InvalidError{Of: dbq.ErrProgress, Text: fmt.Sprintf(
			"worker: with step %q, the task would remember %d bytes, and %d are allowed: keep what is large in a table of "+
				"your own, and remember its key", name, len(p), bounds.MaxProgress)}
	}
	return p, err
}

// errNotStored is the error of a value that no renewal could store.
var errNotStored = fmt.Errorf("worker: a remembered value could not be stored within the length of a lease (%w)",
	dbq.ErrUnavailable)

// saved waits until a renewal has stored the progress of a task, for at most the length of a lease: a transaction of
// the handler may keep SQLite's writer, and the database may be away.
func (s *leases) saved(ctx context.Context, l *leased) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.settings().lease, errNotStored)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stored.Broadcast()
	})
	defer stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for l.unsaved {
		switch {
		case l.state != running || l.invocation == nil: // it is lost, or the handler was given up
			return cmp.Or(l.lostBy, dbq.ErrLeaseLost)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		s.renewSoon()
		s.stored.Wait()
	}
	return nil
}
