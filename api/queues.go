package api

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/wire"
)

// patch is a body that changes the fields of a T that it has.
type patch[T any] struct{ body []byte }

// UnmarshalJSON refuses fields that no T has.
func (p *patch[T]) UnmarshalJSON(b []byte) error {
	var v T
	p.body = bytes.Clone(b)
	return json.Unmarshal(b, &v)
}

func (p patch[T]) apply(to *T) {
	_ = json.Unmarshal(p.body, to) // it has been read before
}

// listedQueues is the response with such queues.
type listedQueues struct {
	Body struct {
		Queues []admin.QueueInfo `json:"queues" nullable:"false"`
	}
}

func (a *API) listQueues(ctx context.Context, in *oneDatabase) (out *listedQueues, err error) {
	out = &listedQueues{}
	out.Body.Queues, err = listed(ctx, a, in,
		func(d *database) ([]admin.QueueInfo, error) { return d.admin.Queues(ctx) },
		func(q admin.QueueInfo) string { return q.Queue })
	return out, err
}

// pauseQueue is a request to pause or resume a queue.
type pauseQueue struct {
	InQueue
	Body struct {
		Reason string `json:"reason,omitempty"`
	}
}

// pause returns the handler that pauses or resumes a queue.
func (a *API) pause(change func(*admin.Admin, context.Context, string, ...admin.Option) error) (
	handler func(context.Context, *pauseQueue) (*struct{}, error)) {
	return func(ctx context.Context, in *pauseQueue) (*struct{}, error) {
		d, _, err := a.open(ctx, auth.Operate, in.Database, in.Queue)
		if err != nil {
			return nil, err
		}
		return nil, change(d.admin, ctx, in.Queue, admin.Reason(in.Body.Reason))
	}
}

// reading returns the handler that reads the settings or the limits of a queue.
func reading[T any](a *API, read func(*admin.Admin, context.Context, string) (T, error)) (
	handler func(context.Context, *InQueue) (*got[T], error)) {
	return func(ctx context.Context, in *InQueue) (*got[T], error) {
		d, _, err := a.open(ctx, auth.Read, in.Database, in.Queue)
		if err != nil {
			return nil, err
		}
		now, err := read(d.admin, ctx, in.Queue)
		return &got[T]{now}, err
	}
}

// why reads why the tasks of a queue wait.
func why(ops *admin.Admin, ctx context.Context, queue string) (wire.Verdict, error) {
	v, err := ops.Why(ctx, queue)
	return wire.VerdictOf(v), err
}

// configureQueue is a request to change the settings or the limits of a queue.
type configureQueue[T any] struct {
	InQueue
	Body patch[T]
}

// configuring returns the handler that changes the settings or the limits of a queue.
func configuring[T any](
	a *API, configure func(*admin.Admin, context.Context, string, func(*T), ...admin.Option) error,
) (handler func(context.Context, *configureQueue[T]) (*got[T], error)) {
	return func(ctx context.Context, in *configureQueue[T]) (*got[T], error) {
		d, _, err := a.open(ctx, auth.Configure, in.Database, in.Queue)
		if err != nil {
			return nil, err
		}
		var now T
		err = configure(d.admin, ctx, in.Queue, func(stored *T) { in.Body.apply(stored); now = *stored })
		return &got[T]{now}, err
	}
}

// configure changes the settings of a queue. Its notices carry errors into another queue.
func (a *API) configure(ctx context.Context, in *configureQueue[admin.QueueSettings]) (
	*got[admin.QueueSettings], error) {
	var next admin.QueueSettings
	in.Body.apply(&next)
	if p, _ := auth.FromContext(ctx); next.DeadLetter != "" && !p.May(auth.Enqueue, in.Database, next.DeadLetter) {
		return nil, wire.Forbidden.Problem()
	}
	return configuring(a, (*admin.Admin).ConfigureQueue)(ctx, in)
}

// resetLimits sets the limits that a program has declared.
func (a *API) resetLimits(ctx context.Context, in *InQueue) (*got[admin.QueueLimits], error) {
	d, _, err := a.open(ctx, auth.Configure, in.Database, in.Queue)
	if err == nil {
		err = d.admin.ResetLimits(ctx, in.Queue)
	}
	if err != nil {
		return nil, err
	}
	now, err := d.admin.QueueLimits(ctx, in.Queue)
	return &got[admin.QueueLimits]{now}, err
}
