package bridge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

// Enqueuer adds forwarded tasks to a queue elsewhere: ToQueue or ToURL.
type Enqueuer interface {
	// Enqueue adds all tasks. If it returns an error, it has added none, or possibly all. It is safe to repeat: a task
	// whose ID was added within Unique.Window is reported as a duplicate with that ID, even if it has been removed
	// since. An error that matches dbq.ErrInvalid means that one of the tasks will never be accepted. An error that
	// matches dbq.ErrUnavailable, dbq.ErrConflict, dbq.ErrMayHaveHappened or dbq.ErrDenied concerns all tasks and uses
	// no attempts.
	Enqueue(ctx context.Context, ts []dbq.NewTask) ([]dbq.Enqueued, error)
}

// ToQueue returns an Enqueuer for a queue of another client, or another queue of the same one.
func ToQueue(q *dbq.Queue) Enqueuer { return toQueue{q} }

type toQueue struct{ *dbq.Queue }

func (to toQueue) Enqueue(ctx context.Context, ts []dbq.NewTask) ([]dbq.Enqueued, error) {
	return to.EnqueueMany(ctx, ts)
}

// ForwarderConfig configures a Forwarder. To is required. For every other field, zero means the documented default.
type ForwarderConfig struct {
	// To gets the tasks.
	To Enqueuer
	// Window is how long the far side recognizes a task that is forwarded again. A task that would be forwarded again
	// later than nine tenths of it after the first time is parked instead. It must not be longer than the Window of the
	// Receiver. The default is 7 days. Each task costs a row of dbq_unique_key at the far side for this time and a day.
	Window time.Duration
	// Rejected is the action for a task that the far side refuses, because its payload is too large, or because the far
	// queue has another task with its reference. It also applies to a task that was forwarded MaxHops times. It is
	// Park, the default, or Poison.
	Rejected Action
	// MaxFailures is after how many failed calls in a row the circuit breaker opens, as for Endpoint. The default is 3.
	MaxFailures int
	// Pause is how long it stays open. The default is 10 seconds.
	Pause time.Duration
	// Logger gets a line when the circuit breaker opens. The default is slog.Default.
	Logger *slog.Logger
}

// Forwarder moves the tasks of a queue to a queue of another database. Call Worker to get a worker that does this.
//
// A task is forwarded when it is due. It keeps its kind, payload, key, reference, priority, headers and limit of
// attempts, and has the header HopsHeader in addition. At the far side it has an id of its own, which follows from the
// near one, and is due at once. The near task is then completed; its result is {"id":"…","duplicate":false} with the
// far id. It does not wait for the far task.
//
// Each task is added to the far queue exactly once, through crashes of either side and lost responses, as long as
// Window has not passed. While the far side is not available, tasks are released without using an attempt.
type Forwarder struct {
	cfg     ForwarderConfig
	breaker *breaker
	now     func() time.Time
}

// NewForwarder returns a Forwarder, or ErrConfig.
func NewForwarder(cfg ForwarderConfig) (*Forwarder, error) {
	cfg.Window, cfg.Rejected = cmp.Or(cfg.Window, DefaultWindow), cmp.Or(cfg.Rejected, Park)
	switch {
	case cfg.To == nil:
		return nil, invalid("To is missing")
	case cfg.Window < time.Minute || cfg.Window > dbq.MaxUniquePeriod || cfg.Window%time.Microsecond != 0:
		return nil, invalid("Window is %v; it must be 1m to %v in whole microseconds", cfg.Window, dbq.MaxUniquePeriod)
	case cfg.Rejected != Park && cfg.Rejected != Poison:
		return nil, invalid("Rejected must be %q or %q", Park, Poison)
	case cfg.MaxFailures < 0 || cfg.Pause < 0:
		return nil, invalid("MaxFailures and Pause must not be negative")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	b := newBreaker(cmp.Or(cfg.MaxFailures, 3), cmp.Or(cfg.Pause, 10*time.Second))
	return &Forwarder{cfg: cfg, breaker: b, now: time.Now}, nil
}

// Worker returns a worker that forwards the tasks of q. You can set its other fields before you run it, except
// Handler, BatchHandler and Switch: the circuit breaker uses Switch to pause the worker.
func (f *Forwarder) Worker(q *dbq.Queue) worker.Worker {
	return worker.Worker{
		Queue: q, Switch: &f.breaker.on, Concurrency: 4, BatchHandler: worker.BatchFunc(f.handle), BatchSize: maxTasks,
	}
}

// maxTasks and maxBytes bound the tasks of one call of the far side; a larger task is sent alone.
const (
	maxTasks = 100
	maxBytes = 1 << 20
)

func (f *Forwarder) handle(ctx context.Context, ts []dbq.Task) []dbq.Outcome {
	out := make([]dbq.Outcome, 0, len(ts))
	for len(ts) > 0 {
		n, bytes := 1, len(ts[0].Payload)
		for n < len(ts) && bytes+len(ts[n].Payload) <= maxBytes {
			bytes += len(ts[n].Payload)
			n++
		}
		out, ts = append(out, f.forward(ctx, ts[:n])...), ts[n:]
	}
	return out
}

// forward forwards tasks in one call.
func (f *Forwarder) forward(ctx context.Context, ts []dbq.Task) []dbq.Outcome {
	out := make([]dbq.Outcome, len(ts))
	if f.breaker.open() { // nothing is sent, so no window begins
		for i := range out {
			out[i] = dbq.Released(f.breaker.wait())
		}
		return out
	}
	var send []dbq.NewTask
	var of []int // the index in ts of each of send
	for i := range ts {
		if hopsOf(&ts[i]) >= MaxHops {
			out[i] = f.rejected(errLoop)
			continue
		}
		if err := f.remember(worker.ForTask(ctx, ts[i]), &ts[i]); err != nil {
			out[i] = dbq.Parked(err)
			continue
		}
		send, of = append(send, f.farTask(&ts[i])), append(of, i)
	}
	if len(send) == 0 {
		return out
	}
	added, err := f.enqueue(ctx, send)
	if err != nil && !isOutage(ctx, err) && len(send) > 1 { // it may be about one of them
		for _, i := range of {
			out[i] = f.forward(ctx, ts[i:i+1])[0]
		}
		return out
	}
	for k, i := range of {
		if err != nil {
			f.forget(worker.ForTask(ctx, ts[i]), &ts[i], err)
			out[i] = f.failed(ctx, err)
		} else {
			out[i] = f.forwarded(&ts[i], &send[k], added[k])
		}
	}
	return out
}

// enqueue adds tasks at the far side, unless the circuit breaker is open.
func (f *Forwarder) enqueue(ctx context.Context, send []dbq.NewTask) ([]dbq.Enqueued, error) {
	done, ended, err := f.breaker.allow()
	if err != nil {
		return nil, errPaused
	}
	defer ended()
	added, err := f.cfg.To.Enqueue(ctx, send)
	switch {
	case err == nil && len(added) != len(send):
		err = fmt.Errorf("bridge: the far side returned %d results for %d tasks", len(added), len(send))
		done(err)
	case err != nil && ctx.Err() != nil:
		done(errAborted)
	case errors.Is(err, dbq.ErrInvalid):
		done(nil)
	default:
		done(err)
	}
	if err != nil && f.breaker.on.Paused() {
		f.cfg.Logger.Error("bridge: far side not available", "pause", f.breaker.pause.String(), "error", err.Error())
	}
	return added, err
}

// failed returns the outcome of a task whose call failed. An error that is no outage may be about the task, so it
// uses an attempt: otherwise the task would be repeated forever.
func (f *Forwarder) failed(ctx context.Context, err error) dbq.Outcome {
	switch {
	case errors.Is(err, dbq.ErrInvalid):
		return f.rejected(err)
	case ctx.Err() == nil && isOutage(ctx, err):
		return dbq.Released(f.breaker.wait())
	}
	return dbq.Failed(err)
}

// isOutage reports whether an error means that the far side is not available, for any task.
func isOutage(ctx context.Context, err error) bool {
	if errors.Is(err, dbq.ErrInvalid) {
		return false
	}
	for _, outage := range []error{
		errPaused, errNotAvailable, dbq.ErrUnavailable, dbq.ErrConflict, dbq.ErrMayHaveHappened, dbq.ErrClosed,
		dbq.ErrDenied, dbq.ErrNotMigrated, context.DeadlineExceeded,
	} {
		if errors.Is(err, outage) {
			return true
		}
	}
	return ctx.Err() != nil
}

// rejected returns the outcome of a task that the far side will not accept.
func (f *Forwarder) rejected(err error) dbq.Outcome {
	if f.cfg.Rejected == Poison {
		return dbq.Poisoned(err)
	}
	return dbq.Parked(err)
}

// forwarded returns the outcome of a task that the far side has, or of which it has another one.
func (f *Forwarder) forwarded(t *dbq.Task, sent *dbq.NewTask, added dbq.Enqueued) dbq.Outcome {
	if added.ID != sent.ID {
		return f.rejected(fmt.Errorf("bridge: the far queue has another task with the reference %q: %s",
			t.Reference, added.ID))
	}
	result, err := json.Marshal(farTask{added.ID, added.Duplicate})
	if err != nil {
		return dbq.Failed(err)
	}
	return dbq.Completed(result)
}

// farTask has the known facts about a task at the far side.
type farTask struct {
	ID        uuid.UUID `json:"id"`
	Duplicate bool      `json:"duplicate"`
}

// farTask returns a task as it is added at the far side.
func (f *Forwarder) farTask(t *dbq.Task) dbq.NewTask {
	id := farID(t)
	return dbq.NewTask{
		ID: id, Kind: t.Kind, Payload: t.Payload, Reference: t.Reference, Key: t.Key, Priority: t.Priority,
		MaxAttempts: t.MaxAttempts, Headers: farHeaders(t), Unique: farKey(id, f.cfg.Window),
	}
}

// farKey is the rule by which the far side recognizes a task.
func farKey(id uuid.UUID, window time.Duration) *dbq.Unique {
	return &dbq.Unique{Key: "bridge:" + id.String(), Window: window}
}

// farID returns the id that a task has at the far side: a UUID of version 7 with the same time, and otherwise a hash,
// so that a task can be forwarded to another queue of its database, and back to one in which it had been. The content
// counts: if a unique enqueue replaces it while the task waits to be forwarded again, the far side gets the new one.
func farID(t *dbq.Task) uuid.UUID {
	content, err := json.Marshal([]any{t.ID, t.Queue, t.Kind, t.Key, t.Headers, t.Payload})
	if err != nil {
		panic(err) // texts and bytes are always encoded
	}
	hash := sha256.Sum256(content)
	id := t.ID
	copy(id[8:], hash[:8])
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return id
}

// forwardedSince is the progress of a task that is being forwarded.
type forwardedSince struct {
	Since time.Time `json:"forwarded_since"` // the far side may have it since then
	// TooLate is set when the task is parked because of its window. Its next attempt is an operator's decision.
	TooLate bool `json:"too_late,omitempty"`
}

// remember stores when a task was forwarded first, as its progress. It returns an error if the far side may have had
// the task, and may not recognize it.
func (f *Forwarder) remember(ctx context.Context, t *dbq.Task) error {
	now := f.now()
	p := forwardedSince{Since: since(t, now)}
	var err error
	if limit := f.cfg.Window - f.cfg.Window/10; now.Sub(p.Since) > limit {
		p.TooLate = true
		err = fmt.Errorf("bridge: the task may have been forwarded since %s, longer ago than the window allows: "+
			"reenqueue it to forward it again, or purge it if the far side had it", p.Since.UTC().Format(time.RFC3339))
	}
	progress, failed := json.Marshal(p)
	if failed == nil {
		failed = worker.SetProgress(ctx, progress)
	}
	return cmp.Or(err, failed)
}

// forget removes the record of remember at the first try, if the far side cannot have the task.
func (f *Forwarder) forget(ctx context.Context, t *dbq.Task, err error) {
	var dial *net.OpError
	unsent := errors.Is(err, errPaused) || errors.Is(err, dbq.ErrUnavailable) ||
		errors.As(err, &dial) && dial.Op == "dial"
	if now := f.now(); !unsent || errors.Is(err, dbq.ErrMayHaveHappened) || !since(t, now).Equal(now) {
		return
	}
	before := t.Progress
	if len(before) == 0 {
		before = []byte("{}")
	}
	_ = worker.SetProgress(ctx, before) // it is as valid as before
}

// since returns since when the far side may have a task.
func since(t *dbq.Task, now time.Time) time.Time {
	var p forwardedSince
	known := json.Unmarshal(t.Progress, &p) == nil && !p.Since.IsZero()
	last := t.TakenOver
	switch {
	case p.TooLate:
		return now
	case known:
		return p.Since
	case last == nil && t.Attempt <= 1 && t.Lapses == 0: // this is the first attempt
		return now
	case last != nil && last.Number == 1 && t.Lapses <= 1: // the first attempt crashed before it could store its progress
		return last.Taken
	}
	return t.Created // several crashed
}
