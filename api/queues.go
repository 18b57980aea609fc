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

// UnmarshalJSON refuses what no T has.
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

func (a *API) listQueues(ctx context.Context, in *oneDatabase) (*listedQueues, error) {
	d, p, err := a.anyQueue(ctx, auth.Read, in.Database)
	if err != nil {
		return nil, err
	}
	queues, err := d.admin.Queues(ctx)
	if err != nil {
		return nil, err
	}
	var out listedQueues
	out.Body.Queues = []admin.QueueInfo{}
	for _, q := range queues {
		if p.May(auth.Read, in.Database, q.Queue) {
			out.Body.Queues = append(out.Body.Queues, q)
		}
	}
	return &out, nil
}

// pauseQueue is a request to pause or resume a queue.
type pauseQueue struct {
	InQueue
	Body struct {
		Reason string `json:"reason,omitempty"`
	}
}

func (a *API) pause(ctx context.Context, in *pauseQueue) (*struct{}, error) {
	d, p, err := a.open(ctx, auth.Operate, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	return nil, d.admin.PauseQueue(ctx, in.Queue, by(p, in.Body.Reason)...)
}

func (a *API) resume(ctx context.Context, in *pauseQueue) (*struct{}, error) {
	d, p, err := a.open(ctx, auth.Operate, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	return nil, d.admin.ResumeQueue(ctx, in.Queue, by(p, in.Body.Reason)...)
}

// configureQueue is a request to change the settings of a queue.
type configureQueue struct {
	InQueue
	Body patch[admin.QueueSettings]
}

// gotSettings is the response with the settings of a queue.
type gotSettings struct{ Body admin.QueueSettings }

func (a *API) readSettings(ctx context.Context, in *InQueue) (*gotSettings, error) {
	d, _, err := a.open(ctx, auth.Read, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	s, err := d.admin.QueueSettings(ctx, in.Queue)
	return &gotSettings{s}, err
}

func (a *API) configure(ctx context.Context, in *configureQueue) (*gotSettings, error) {
	d, p, err := a.open(ctx, auth.Configure, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	var now admin.QueueSettings
	if in.Body.apply(&now); now.DeadLetter != "" && !p.May(auth.Enqueue, in.Database, now.DeadLetter) {
		return nil, wire.Forbidden.Problem()
	}
	err = d.admin.ConfigureQueue(ctx, in.Queue, func(s *admin.QueueSettings) { in.Body.apply(s); now = *s })
	return &gotSettings{now}, err
}

// configureLimits is a request to change the limits of a queue.
type configureLimits struct {
	InQueue
	Body patch[admin.QueueLimits]
}

// gotLimits is the response with the limits of a queue.
type gotLimits struct{ Body admin.QueueLimits }

func (a *API) readLimits(ctx context.Context, in *InQueue) (*gotLimits, error) {
	d, _, err := a.open(ctx, auth.Read, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	l, err := d.admin.QueueLimits(ctx, in.Queue)
	return &gotLimits{l}, err
}

func (a *API) limit(ctx context.Context, in *configureLimits) (*gotLimits, error) {
	d, _, err := a.open(ctx, auth.Configure, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	var now admin.QueueLimits
	err = d.admin.ConfigureLimits(ctx, in.Queue, func(l *admin.QueueLimits) { in.Body.apply(l); now = *l })
	return &gotLimits{now}, err
}
