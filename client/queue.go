package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/wire"
	"github.com/google/uuid"
)

// checkQueueName refuses a name that no path can have, in addition to those that dbq refuses.
func checkQueueName(name string) error {
	if err := bounds.QueueName(name); err != nil {
		return err
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("%w: the HTTP API cannot address a name with the part %q", dbq.ErrQueueName, part)
		}
	}
	return nil
}

// Enqueue adds a task and returns its id. If the reference or the unique key is taken, it returns dbq.ErrDuplicate and
// the existing task's id. Invalid input is dbq.ErrInvalid.
//
// The call is repeated for Config.RetryFor, and adds no task twice: a task without an ID gets one, by which the
// database recognizes it for as long as the task exists. dbq.ErrMayHaveHappened means that the server may have added
// the task but its response was lost; dbq.Error.TaskID is the id, with which the call can be repeated.
//
// A task of a dbq.Kind is made by Kind.Task.
func (q *Queue) Enqueue(ctx context.Context, t dbq.NewTask) (uuid.UUID, error) {
	if t.ID == uuid.Nil {
		t.ID = dbq.NewID()
		out, err := q.enqueue(ctx, []dbq.NewTask{t}, true)
		return q.enqueuedOne(t.ID, out, err)
	}
	out, err := q.enqueue(ctx, []dbq.NewTask{t}, false)
	return q.enqueuedOne(t.ID, out, err)
}

func (q *Queue) enqueuedOne(id uuid.UUID, out []dbq.Enqueued, err error) (uuid.UUID, error) {
	if err != nil {
		var outer *dbq.Error
		if errors.As(err, &outer) && mayHaveHappened(err) {
			outer.TaskID = id
		}
		return uuid.Nil, err
	}
	if out[0].Duplicate {
		return out[0].ID, &dbq.Error{Op: "enqueue", Queue: q.name, TaskID: out[0].ID, Err: dbq.ErrDuplicate}
	}
	return out[0].ID, nil
}

// EnqueueMany adds up to dbq.MaxBulk tasks in one transaction: all of them or, on an error, none. It returns the
// outcome of each task, in the order given; a task that already exists is reported as a duplicate. With no tasks it
// does nothing. It is repeated as Enqueue is. The server limits the size of a request, by default to 16 MiB.
func (q *Queue) EnqueueMany(ctx context.Context, ts []dbq.NewTask) ([]dbq.Enqueued, error) {
	return q.enqueue(ctx, ts, false)
}

// enqueue is EnqueueMany. If ownIDs is set, the ids of the tasks were made for this call.
func (q *Queue) enqueue(ctx context.Context, ts []dbq.NewTask, ownIDs bool) ([]dbq.Enqueued, error) {
	path, err := q.path("tasks/batch")
	if err == nil {
		err = bounds.Bulk(len(ts))
	}
	if err != nil || len(ts) == 0 {
		return nil, wrap("enqueue", q.name, uuid.Nil, err)
	}
	var in struct {
		Tasks []wire.NewTask `json:"tasks"`
	}
	in.Tasks = make([]wire.NewTask, len(ts))
	for i := range ts {
		if err = access.Check(ts[i]); err != nil && len(ts) > 1 {
			err = fmt.Errorf("task %d of %d: %w", i+1, len(ts), err)
		}
		if err != nil {
			return nil, wrap("enqueue", q.name, uuid.Nil, err)
		}
		if in.Tasks[i] = wire.NewTaskOf(ts[i]); in.Tasks[i].ID == uuid.Nil {
			in.Tasks[i].ID = dbq.NewID()
		}
	}
	var out []dbq.Enqueued
	err = q.client.repeat(ctx, "enqueue", func(ctx context.Context, tries int) error {
		var response struct {
			Tasks []dbq.Enqueued `json:"tasks"`
		}
		if err := q.client.call(ctx, path, in, &response); err != nil {
			return err
		}
		if len(response.Tasks) != len(ts) {
			return &lostError{http.MethodPost, "the response does not have an entry for each task", nil}
		}
		out = response.Tasks
		for i, e := range out {
			// An earlier try, whose response was lost, has added it.
			if own := ownIDs || ts[i].ID == uuid.Nil; tries > 0 && own && e.ID == in.Tasks[i].ID {
				out[i] = dbq.Enqueued{ID: e.ID}
			}
		}
		return nil
	})
	if err != nil {
		return nil, wrap("enqueue", q.name, uuid.Nil, err)
	}
	return out, nil
}

// Get reads one task with its payload. It returns dbq.ErrNotFound if the task does not exist, or if the caller may not
// read its queue. To callers without the right to see payloads, the server hides the payload, headers, result and
// progress, and the redactions of the server apply.
func (c *Client) Get(ctx context.Context, id uuid.UUID) (dbq.Task, error) {
	var t wire.Task
	err := c.repeat(ctx, "get", func(ctx context.Context, _ int) error {
		return c.call(ctx, "/tasks/"+id.String(), nil, &t)
	})
	if err != nil {
		return dbq.Task{}, wrap("get", "", id, err)
	}
	return t.Stored(), nil
}

// pollWait is how long one request of Wait lets the server wait.
const pollWait = 20 * time.Second

// Wait returns the task once it has ended: COMPLETED (with its result), POISON, or parked in ERROR. The server waits
// for that, and Wait repeats its request until ctx ends. It then returns the task as it was last, and ctx's error. If
// the task does not exist, or is removed before Wait sees its end, Wait returns dbq.ErrNotFound.
func (c *Client) Wait(ctx context.Context, id uuid.UUID) (dbq.Task, error) {
	var last dbq.Task
	var pace pacer
	path := fmt.Sprintf("/tasks/%s/wait?wait_seconds=%g", id, pollWait.Seconds())
	for {
		begin := time.Now()
		var response struct {
			Ended bool      `json:"ended"`
			Task  wire.Task `json:"task"`
		}
		err := c.repeat(ctx, "wait", func(ctx context.Context, _ int) error { return c.call(ctx, path, nil, &response) })
		if err == nil {
			last = response.Task.Stored()
		}
		if err == nil && !response.Ended && !pace.wait(ctx, begin, nil) {
			err = ctx.Err()
		}
		if err != nil || response.Ended {
			return last, wrap("wait", "", id, err)
		}
	}
}

// pacer keeps requests apart that return early and empty, as from a server that is stopping.
type pacer struct{ least time.Duration }

// The shortest time from one empty response to the next request, which grows.
const (
	firstPace = 50 * time.Millisecond
	maxPace   = time.Second
)

// wait waits until enough time has passed since begin, or something is received from soon. It returns false if ctx has
// ended.
func (p *pacer) wait(ctx context.Context, begin time.Time, soon <-chan struct{}) bool {
	p.least = min(max(2*p.least, firstPace), maxPace)
	if rest := p.least - time.Since(begin); rest > 0 {
		select {
		case <-ctx.Done():
		case <-soon:
		case <-time.After(rest):
		}
	} else {
		p.reset()
	}
	return ctx.Err() == nil
}

func (p *pacer) reset() { p.least = 0 }
