package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/wire"
)

// InQueue is the path of a request about a queue.
type InQueue struct {
	Database string `path:"database"`
	Queue    string `path:"queue"`
}

// enqueueOne is a request to enqueue a task.
type enqueueOne struct {
	InQueue
	Key  string `header:"Idempotency-Key"`
	Body wire.NewTask
}

// enqueuedOne is its response: 201 if a task was added, and 200 if not.
type enqueuedOne struct {
	Status int
	Body   dbq.Enqueued
}

func (a *API) enqueue(ctx context.Context, in *enqueueOne) (*enqueuedOne, error) {
	d, _, err := a.open(ctx, auth.Enqueue, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	t, p := in.Body.Task()
	if p == nil && in.Key != "" {
		p = setReference(&t, in.Key)
	}
	if p != nil {
		return nil, p
	}
	out, err := d.client.Queue(in.Queue).EnqueueMany(ctx, []dbq.NewTask{t})
	if err != nil {
		return nil, err
	}
	response := &enqueuedOne{Status: http.StatusCreated, Body: out[0]}
	if out[0].Duplicate || out[0].Replaced || out[0].Debounced {
		response.Status = http.StatusOK
	}
	return response, nil
}

// enqueueMany is a request to enqueue tasks in one transaction.
type enqueueMany struct {
	InQueue
	Key  string `header:"Idempotency-Key"`
	Body struct {
		Tasks []wire.NewTask `json:"tasks" minItems:"1" maxItems:"100000" nullable:"false"`
	}
}

// enqueuedMany is its response.
type enqueuedMany struct {
	Body struct {
		Tasks []dbq.Enqueued `json:"tasks" nullable:"false"`
	}
}

func (a *API) enqueueMany(ctx context.Context, in *enqueueMany) (*enqueuedMany, error) {
	d, _, err := a.open(ctx, auth.Enqueue, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	tasks := make([]dbq.NewTask, len(in.Body.Tasks))
	for i, t := range in.Body.Tasks {
		var p *wire.Problem
		if tasks[i], p = t.Task(); p == nil && in.Key != "" {
			p = setReference(&tasks[i], fmt.Sprintf("%s/%d", in.Key, i))
		}
		if p != nil {
			return nil, p.In("tasks", i)
		}
	}
	done, err := d.client.Queue(in.Queue).EnqueueMany(ctx, tasks)
	if err != nil {
		return nil, err
	}
	var out enqueuedMany
	out.Body.Tasks = done
	return &out, nil
}

// setReference makes an Idempotency-Key the reference of a task. A repeated request then finds the task.
func setReference(t *dbq.NewTask, key string) *wire.Problem {
	if t.Reference != "" && t.Reference != key {
		return wire.BadRequest.Problem(wire.At("body.reference", "give a reference or an Idempotency-Key, not both"))
	}
	t.Reference = key
	return nil
}
