package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

const (
	maxRuns     = 5  // tasks of RunNow that NoOverlap remembers
	maxRunTries = 20 // of RunNow, while other clients change the same schedule
)

// RunNow enqueues the schedule's task immediately, even if the schedule is paused or the task of an earlier time has
// not ended, and returns the task's id. It does not change the schedule's times, but if the schedule has NoOverlap,
// times are skipped until the task has ended. If the outcome is unknown, RunNow returns dbq.ErrMayHaveHappened, with
// the task's id in dbq.Error.
func (s *Schedules) RunNow(ctx context.Context, name string, opts ...Option) (id uuid.UUID, err error) {
	p, err := s.withOptions(ctx, opts)
	if err != nil {
		return uuid.Nil, s.wrap("run schedule", "", err)
	}
	defer s.poke() // the record has changed while this process's own Run may have been firing it
	for range maxRunTries {
		id, err = s.runNow(ctx, name, p)
		if !errors.Is(err, store.ErrKVChanged) {
			return id, err
		}
	}
	return uuid.Nil, s.wrap("run schedule", "",
		fmt.Errorf("%w: other clients keep changing the schedule %q; try again", dbq.ErrConflict, name))
}

// runNow is RunNow. If another client changes the schedule meanwhile, it does nothing and returns store.ErrKVChanged.
func (s *Schedules) runNow(ctx context.Context, name string, p pause) (uuid.UUID, error) {
	failed := func(err error) (uuid.UUID, error) { return uuid.Nil, s.wrap("run schedule", "", err) }
	r, v, err := s.read(ctx, name)
	if err != nil {
		return failed(err)
	}
	d := v.schedule(name)
	if d.NoOverlap && len(v.Runs) >= maxRuns { // keep those that count
		if v.Runs, err = s.unfinished(ctx, v.Runs); err != nil {
			return failed(err)
		}
	}
	v.Runs = v.Runs[max(0, len(v.Runs)-maxRuns+1):]
	t := d.taskFor(nowOf(r))
	t.Reference, t.Delay = "", d.Task.Delay // it is not one of the schedule's times
	if ctx, err = s.audited(ctx, "run schedule", auditOf(p, d.Queue, name)); err != nil {
		return failed(err)
	}
	ctx = store.WithKVSwap(ctx, store.KVSwap{Old: r, Value: func(task uuid.UUID) (string, time.Duration, error) {
		after := v
		after.Runs = append(slices.Clip(v.Runs), task)
		return after.encode(nowOf(r))
	}})
	return s.client.Queue(d.Queue).Enqueue(ctx, t)
}

// overlap returns the reason for which NoOverlap skips a time, or "". It removes from v.Runs those that have ended.
func (s *Schedules) overlap(ctx context.Context, v *value) (reason string, err error) {
	if v.LastTaskID != nil {
		busy, err := s.unfinished(ctx, []uuid.UUID{*v.LastTaskID})
		if err != nil {
			return "", err
		}
		if len(busy) > 0 {
			return "the task of an earlier time has not ended", nil
		}
	}
	if v.Runs, err = s.unfinished(ctx, v.Runs); err != nil || len(v.Runs) == 0 {
		return "", err
	}
	return fmt.Sprintf("the task %s, which was run by hand, has not ended", v.Runs[0]), nil
}

// unfinished returns the tasks among ids that exist and have not ended.
func (s *Schedules) unfinished(ctx context.Context, ids []uuid.UUID) (out []uuid.UUID, err error) {
	for _, id := range ids {
		t, err := s.client.Get(ctx, id)
		switch {
		case errors.Is(err, dbq.ErrNotFound):
		case err != nil:
			return nil, err
		case !t.Ended():
			out = append(out, id)
		}
	}
	return out, nil
}
