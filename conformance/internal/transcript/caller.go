package transcript

import (
	"context"
	"errors"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// A Caller makes calls on a queue and records them under a worker's name. Its methods may be called from several
// goroutines.
type Caller struct {
	Name  string
	Queue *dbq.Queue
	rec   *Recorder
}

// Caller returns a caller of a queue that records in r.
func (r *Recorder) Caller(name string, q *dbq.Queue) *Caller { return &Caller{name, q, r} }

// Enqueue gives the tasks their ids before the call, so that a call without an answer is known by its tasks, too.
func (w *Caller) Enqueue(ctx context.Context, ts []dbq.NewTask) ([]dbq.Enqueued, error) {
	begun := make([]Record, len(ts))
	for i := range ts {
		if ts[i].ID == uuid.Nil {
			ts[i].ID = dbq.NewID()
		}
		begun[i] = Record{Worker: w.Name, Event: state.Enqueue, TaskID: ts[i].ID}
	}
	seqs := w.rec.begin(begun...)
	out, err := w.Queue.EnqueueMany(ctx, ts)
	w.rec.end(seqs, func(i int, r *Record) {
		r.Answer = answerOf(err)
		if err == nil && out[i].Duplicate {
			r.Answer = Refused
		}
	})
	return out, err
}

// Checkout records each task that it returns.
func (w *Caller) Checkout(ctx context.Context, n int, lease time.Duration) ([]dbq.Task, error) {
	seqs := w.rec.begin(Record{Worker: w.Name, Event: state.Checkout})
	ts, err := w.Queue.Checkout(ctx, n, lease)
	seqs = w.rec.split(seqs[0], len(ts))
	w.rec.end(seqs, func(i int, r *Record) {
		if len(ts) == 0 {
			r.Answer = answerOf(err)
			if err == nil {
				r.Answer = Refused // nothing was there
			}
			return
		}
		r.Answer, r.TaskID, r.Fence, r.Attempt = Happened, ts[i].ID, ts[i].Lease.Fence, ts[i].Attempt
		r.Until = w.rec.at(ts[i].Lease.Until)
	})
	return ts, err
}

// Extend renews leases by one call.
func (w *Caller) Extend(ctx context.Context, ls []dbq.Lease, d time.Duration) (renewed, gone []dbq.Lease, err error) {
	begun := make([]Record, len(ls))
	for i, l := range ls {
		begun[i] = Record{Worker: w.Name, Event: state.Extend, TaskID: l.TaskID, Fence: l.Fence}
	}
	seqs := w.rec.begin(begun...)
	renewed, gone, err = w.Queue.ExtendMany(ctx, ls, d)
	until := map[uuid.UUID]int64{}
	for _, l := range renewed {
		until[l.TaskID] = w.rec.at(l.Until)
	}
	w.rec.end(seqs, func(i int, r *Record) {
		r.Answer = answerOf(err)
		if err != nil {
			return
		}
		if r.Until = until[r.TaskID]; r.Until == 0 {
			r.Answer = Lost
		}
	})
	return renewed, gone, err
}

// Settle ends attempts; remove says that all of them are Deleted. It repeats settlements whose tasks other transactions
// had locked.
func (w *Caller) Settle(ctx context.Context, remove bool, ss ...dbq.Settlement) ([]dbq.Settled, error) {
	begun := make([]Record, len(ss))
	for i, s := range ss {
		begun[i] = Record{Worker: w.Name, Event: s.Outcome.Event(), Remove: remove, TaskID: s.Lease.TaskID,
			Fence: s.Lease.Fence}
	}
	seqs := w.rec.begin(begun...)
	out, err := SettleUnlocked(ctx, w.Queue, ss)
	w.rec.end(seqs, func(i int, r *Record) {
		if r.Answer = answerOf(err); err == nil {
			r.Answer = answerOf(out[i].Err)
		}
	})
	return out, err
}

// Operate is an operator's event on one task.
func (w *Caller) Operate(ctx context.Context, e state.Event, id uuid.UUID) error {
	seqs := w.rec.begin(Record{Worker: w.Name, Event: e, TaskID: id})
	err := admin.New(w.Queue.Client()).Operate(ctx, e, id)
	w.rec.end(seqs, func(_ int, r *Record) { r.Answer = answerOf(err) })
	return err
}

// OperateMany is an operator's event on the tasks that a filter selects. It is recorded as a call about unknown tasks,
// since its answer does not name those that it changed.
func (w *Caller) OperateMany(ctx context.Context, e state.Event, f admin.Filter) (int, error) {
	seqs := w.rec.begin(Record{Worker: w.Name, Event: e})
	done, err := admin.New(w.Queue.Client()).OperateMany(ctx, e, f)
	w.rec.end(seqs, func(_ int, r *Record) {
		r.Answer = Maybe
		if done.Changed == 0 && err == nil {
			r.Answer = Refused // it changed none
		}
	})
	return done.Changed, err
}

// SettleUnlocked settles, and repeats settlements whose tasks other transactions had locked, until ctx ends.
func SettleUnlocked(ctx context.Context, q *dbq.Queue, ss []dbq.Settlement) ([]dbq.Settled, error) {
	all, err := q.SettleMany(ctx, ss)
	for pause := time.Millisecond; err == nil; pause = min(2*pause, 50*time.Millisecond) {
		var locked []int
		var again []dbq.Settlement
		for i, o := range all {
			if errors.Is(o.Err, dbq.ErrLocked) {
				locked, again = append(locked, i), append(again, ss[i])
			}
		}
		if len(locked) == 0 {
			break
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return all, ctx.Err()
		}
		var out []dbq.Settled
		if out, err = q.SettleMany(ctx, again); err == nil {
			for k, i := range locked {
				all[i] = out[k]
			}
		}
	}
	return all, err
}
