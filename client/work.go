package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/internal/invoke"
	"github.com/dbq-go/dbq/internal/wire"
	"github.com/google/uuid"
)

// Checkout leases up to n due tasks, as dbq.Queue.Checkout does. Each attempt counts from then on. The tasks of a
// response that is lost are handed out again when their leases expire; the error is then dbq.ErrMayHaveHappened.
//
// Checkout, ExtendMany and SettleMany send one request each: package worker repeats them.
func (q *Queue) Checkout(ctx context.Context, n int, lease time.Duration) ([]dbq.Task, error) {
	return q.checkout(ctx, "", n, lease, 0)
}

// Remote is for package worker.
func (q *Queue) Remote() invoke.Remote {
	return invoke.Remote{
		Checkout: q.checkoutFor,
		IsFinal:  func(err error) bool { return !isTransient(err) },
		Attrs:    []any{"server", q.client.host, "database", q.client.cfg.Database},
		Logger:   q.client.cfg.Logger,
	}
}

// checkoutFor is Checkout for a worker. The end of ctx does not interrupt it at once, because the server might just
// have leased a task. If the server requests a pause, checkoutFor makes it.
func (q *Queue) checkoutFor(ctx context.Context, worker string, n int, lease, wait time.Duration) ([]dbq.Task, error) {
	call, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(wait+time.Second, cancel) })()
	if q.single.Load() {
		n = 1
	}
	ts, err := q.checkout(call, worker, n, lease, wait)
	if errors.Is(err, errTooLarge) {
		q.single.Store(true)
	}
	var p *Problem
	if errors.As(err, &p) && p.RetryAfter > 0 {
		select {
		case <-time.After(p.RetryAfter):
		case <-ctx.Done():
		}
	}
	return ts, err
}

func (q *Queue) checkout(ctx context.Context, worker string, n int, lease, wait time.Duration) ([]dbq.Task, error) {
	in := wire.Checkout{Max: n, LeaseSeconds: lease.Seconds(), Wait: duration.Seconds(wait), Worker: worker}
	var out struct {
		Tasks []wire.LeasedTask `json:"tasks"`
	}
	if err := q.post(ctx, "checkout", wait+callTimeout, in, &out); err != nil {
		return nil, err
	}
	if len(out.Tasks) > n {
		return nil, q.wrap("checkout", &lostError{http.MethodPost, "the response has more tasks than requested", nil})
	}
	until := time.Now().Add(lease)
	ts := make([]dbq.Task, len(out.Tasks))
	for i := range out.Tasks {
		t := out.Tasks[i].Stored()
		t.Waited = max(time.Duration(out.Tasks[i].Waited), 0)
		t.Lease = dbq.Lease{TaskID: t.ID, Queue: t.Queue, Fence: t.Fence, Attempt: t.Attempt, Until: until,
			Token: out.Tasks[i].Lease}
		ts[i] = t
	}
	return ts, nil
}

// ExtendMany extends up to dbq.MaxBulk leases of Checkout, and stores their Progress, as dbq.Queue.ExtendMany does. A
// lease that is neither extended nor lost is in neither list.
func (q *Queue) ExtendMany(ctx context.Context, ls []dbq.Lease, d time.Duration) (
	renewed, lost []dbq.Lease, err error) {
	in := struct {
		LeaseSeconds float64          `json:"lease_seconds"`
		Leases       []wire.Extension `json:"leases"`
	}{d.Seconds(), make([]wire.Extension, len(ls))}
	for i := range ls {
		in.Leases[i] = wire.ExtensionOf(ls[i])
	}
	var out struct {
		Leases []wire.Extended `json:"leases"`
	}
	until := time.Now().Add(d)
	if err := q.postMany(ctx, "extend", len(ls), in, &out); err != nil || len(ls) == 0 {
		return nil, nil, err
	}
	if len(out.Leases) != len(ls) {
		return nil, nil, q.wrap("extend", errEntries)
	}
	for i, l := range ls {
		switch failed := taskError(out.Leases[i].Problem); {
		case errors.Is(failed, dbq.ErrLeaseLost):
			lost = append(lost, l)
		case failed == nil && out.Leases[i].Lease != "":
			l.Until, l.Token = until, out.Leases[i].Lease
			renewed = append(renewed, l)
		}
	}
	return renewed, lost, nil
}

// SettleMany ends the attempts of up to dbq.MaxBulk leases of Checkout, as dbq.Queue.SettleMany does. The Err of one
// that could not be settled is dbq.ErrLeaseLost, dbq.ErrLocked or another *Problem. If the whole request is refused,
// nothing is settled.
func (q *Queue) SettleMany(ctx context.Context, ss []dbq.Settlement) ([]dbq.Settled, error) {
	in := struct {
		Settlements []wire.Settlement `json:"settlements"`
	}{make([]wire.Settlement, len(ss))}
	for i := range ss {
		in.Settlements[i] = wire.SettlementOf(ss[i])
	}
	var out struct {
		Settled []wire.Settled `json:"settled"`
	}
	if err := q.postMany(ctx, "settle", len(ss), in, &out); err != nil || len(ss) == 0 {
		return nil, err
	}
	if len(out.Settled) != len(ss) {
		return nil, q.wrap("settle", errEntries)
	}
	settled := make([]dbq.Settled, len(ss))
	for i, s := range out.Settled {
		if settled[i].Err = taskError(s.Problem); s.State != nil {
			settled[i].State = *s.State
		}
	}
	return settled, nil
}

var errEntries = &lostError{http.MethodPost, "the response does not have an entry for each lease", nil}

// postMany is post about n leases.
func (q *Queue) postMany(ctx context.Context, what string, n int, in, out any) error {
	if err := bounds.Bulk(n); err != nil || n == 0 {
		return q.wrap(what, err)
	}
	return q.post(ctx, what, callTimeout, in, out)
}

// post sends a request about the queue.
func (q *Queue) post(ctx context.Context, what string, timeout time.Duration, in, out any) error {
	path, err := q.path(what)
	if err == nil {
		err = once(ctx, timeout, func(ctx context.Context) error { return q.client.call(ctx, path, in, out) })
	}
	return q.wrap(what, err)
}

func (q *Queue) wrap(op string, err error) error { return wrap(op, q.name, uuid.Nil, err) }
