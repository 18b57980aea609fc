package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/disclosure"
	"github.com/dbq-go/dbq/internal/wire"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// maxSteps is the largest number of steps of a workflow that is enqueued or read over HTTP, and maxNeeds the largest
// number of needs of all its steps. They fit a fan-out of as many steps that are gathered, and stop no writer for long:
// the rows of a million needs take SQLite's only writer 10 seconds.
const (
	maxSteps = 10_000
	maxNeeds = 2 * maxSteps
)

// gotWorkflow is the response with a workflow.
type gotWorkflow struct{ Body struct{ workflow.Info } }

// OneWorkflow is the path of a request about a workflow, and how many of its steps are read.
type OneWorkflow struct {
	OneTask
	Limit int `query:"limit" minimum:"1" maximum:"10000" default:"1000"`
}

// workflow reads a workflow. Of a workflow, a caller may see all or nothing.
func (a *API) workflow(ctx context.Context, in OneWorkflow) (workflow.Info, error) {
	d, p, err := a.anyQueue(ctx, auth.Read, in.Database)
	if err != nil {
		return workflow.Info{}, err
	}
	info, err := workflow.Get(ctx, d.client, in.ID, in.Limit)
	if err != nil {
		return info, err
	}
	err = d.seenBy(p).Workflow(info, in.Limit)
	if errors.Is(err, disclosure.ErrPart) {
		err = wire.BadRequest.Problem(wire.At("query.limit", "it is below the number of the workflow's steps"))
	}
	return info, err
}

func (a *API) readWorkflow(ctx context.Context, in *OneWorkflow) (*gotWorkflow, error) {
	info, err := a.workflow(ctx, *in)
	return &gotWorkflow{struct{ workflow.Info }{info}}, err
}

// drawnWorkflow is the response with a drawing of a workflow.
type drawnWorkflow struct {
	ContentType string `header:"Content-Type" hidden:"true"`
	Body        []byte
}

func (a *API) drawWorkflow(ctx context.Context, in *OneWorkflow) (*drawnWorkflow, error) {
	info, err := a.workflow(ctx, *in)
	if err != nil {
		return nil, err
	}
	text := info.Mermaid()
	if info.Cut {
		text += "%% There are more steps or needs than this drawing has.\n"
	}
	return &drawnWorkflow{"text/plain; charset=utf-8", []byte(text)}, nil
}

// NewStep is a step of a workflow to enqueue.
type NewStep struct {
	wire.TaskContent
	Name      string    `json:"name"`
	Queue     string    `json:"queue"`
	Needs     []string  `json:"needs,omitempty" nullable:"false" maxItems:"10000"`
	OnFailure string    `json:"on_failure,omitempty" enum:"cancel,wait,ignore"`
	Reference string    `json:"reference,omitempty"`
	RunAt     time.Time `json:"run_at,omitzero"`
}

// enqueueWorkflow is a request to enqueue a workflow.
type enqueueWorkflow struct {
	Database string `path:"database"`
	Key      string `header:"Idempotency-Key"`
	Body     struct {
		Steps []NewStep `json:"steps" minItems:"1" maxItems:"10000" nullable:"false"`
	}
}

// EnqueuedStep is the task of a step.
type EnqueuedStep struct {
	Name   string    `json:"name"`
	TaskID uuid.UUID `json:"task_id"`
}

// enqueuedWorkflow is the response: 201 if the workflow was added, and 200 if it had been added before.
type enqueuedWorkflow struct {
	Status int
	Body   struct {
		ID        uuid.UUID      `json:"id"`
		Duplicate bool           `json:"duplicate,omitempty"`
		Steps     []EnqueuedStep `json:"steps" nullable:"false"`
	}
}

func (a *API) enqueueWorkflow(ctx context.Context, in *enqueueWorkflow) (*enqueuedWorkflow, error) {
	d, p, err := a.anyQueue(ctx, auth.Enqueue, in.Database)
	if err != nil {
		return nil, err
	}
	steps, needs := make([]workflow.Step, len(in.Body.Steps)), 0
	for i, s := range in.Body.Steps {
		if needs += len(s.Needs); needs > maxNeeds {
			return nil, wire.BadRequest.Problem(
				wire.At("body.steps", fmt.Sprintf("all steps have more than %d needs", maxNeeds)))
		}
		if !p.May(auth.Enqueue, in.Database, s.Queue) {
			refused := wire.At("body.queue", "the caller may not enqueue into this queue")
			return nil, wire.Forbidden.Problem(refused).In("steps", i)
		}
		t, problem := s.TaskContent.Task()
		if t.Reference, t.RunAt = s.Reference, s.RunAt; problem == nil && in.Key != "" {
			problem = setReference(&t, fmt.Sprintf("%s/%d", in.Key, i))
		}
		if problem != nil {
			return nil, problem.In("steps", i)
		}
		steps[i] = workflow.Step{
			Name: s.Name, Queue: s.Queue, Task: t, Needs: s.Needs, OnFailure: workflow.OnFailure(s.OnFailure),
		}
	}
	w, err := workflow.Enqueue(ctx, d.client, steps)
	if errors.Is(err, dbq.ErrDuplicate) {
		return d.enqueuedBefore(ctx, p, steps, err)
	}
	if err != nil {
		return nil, err
	}
	out := enqueuedWorkflow{Status: http.StatusCreated}
	out.Body.ID, out.Body.Steps = w.ID, make([]EnqueuedStep, len(steps))
	for i, s := range steps {
		out.Body.Steps[i] = EnqueuedStep{s.Name, w.TaskIDs[i]}
	}
	return &out, nil
}

// stepField returns the field that an error of package workflow names, without its value.
func stepField(err error, k wire.Kind) wire.Field {
	var failed *workflow.StepError
	if !errors.As(err, &failed) {
		return wire.Field{}
	}
	f := map[string][2]string{
		"Name":      {".name", fmt.Sprintf("it has 1 to %d characters, and no other step has it", workflow.MaxName)},
		"Queue":     {".queue", ""},
		"Needs":     {".needs", "they are the names of other steps, each once, and without a cycle"},
		"OnFailure": {".on_failure", "it is cancel, wait or ignore"},
	}[failed.Field]
	return wire.At(fmt.Sprintf("body.steps[%d]%s", failed.Step, f[0]), cmp.Or(f[1], k.Title))
}

// enqueuedBefore returns the workflow that an earlier request with the same steps has added, if the task that a
// duplicate is about belongs to it. Otherwise it returns the error.
func (d *database) enqueuedBefore(ctx context.Context, p auth.Principal, steps []workflow.Step, duplicate error) (
	*enqueuedWorkflow, error) {
	var failed *dbq.Error
	if !errors.As(duplicate, &failed) || failed.TaskID == uuid.Nil {
		return nil, duplicate
	}
	t, err := d.client.Get(ctx, failed.TaskID)
	if err != nil {
		return nil, duplicate
	}
	id, name, err := workflow.Of(ctx, d.client, t.ID)
	if err != nil || !slices.ContainsFunc(steps, func(s workflow.Step) bool {
		return s.Name == name && s.Queue == t.Queue && s.Task.Reference == t.Reference
	}) {
		return nil, duplicate
	}
	info, err := workflow.Get(ctx, d.client, id, maxSteps)
	if err != nil || d.seenBy(p).Workflow(info, maxSteps) != nil {
		return nil, duplicate
	}
	out := enqueuedWorkflow{Status: http.StatusOK}
	out.Body.ID, out.Body.Duplicate, out.Body.Steps = id, true, []EnqueuedStep{}
	tasks := map[string]uuid.UUID{}
	for _, s := range info.Steps {
		tasks[s.Name] = s.TaskID
	}
	for _, s := range steps {
		if task, ok := tasks[s.Name]; ok { // the row of a step whose task was purged is gone
			out.Body.Steps = append(out.Body.Steps, EnqueuedStep{s.Name, task})
		}
	}
	return &out, nil
}

// changeWorkflow is a request to change a workflow as a whole.
type changeWorkflow struct {
	OneTask
	Change string `path:"change" enum:"cancel,retry"`
	Body   struct {
		Reason string `json:"reason,omitempty"`
	}
}

// changedWorkflow is its response.
type changedWorkflow struct {
	Body struct {
		Changed int `json:"changed"`
	}
}

func (a *API) changeWorkflow(ctx context.Context, in *changeWorkflow) (*changedWorkflow, error) {
	d, p, err := a.anyQueue(ctx, auth.Operate, in.Database)
	if err != nil {
		return nil, err
	}
	limit := 1 // enough to know that it exists
	if len(p.Queues) > 0 {
		limit = maxSteps
	}
	info, err := workflow.Get(ctx, d.client, in.ID, limit)
	if err == nil {
		err = d.seenBy(p).Workflow(info, limit)
	}
	if errors.Is(err, disclosure.ErrPart) {
		err = wire.Forbidden.Problem()
	}
	if err != nil {
		return nil, err
	}
	change := map[string]func(context.Context, *dbq.Client, uuid.UUID, ...admin.Option) (int, error){
		"cancel": workflow.Cancel, "retry": workflow.Retry,
	}[in.Change]
	var out changedWorkflow
	out.Body.Changed, err = change(ctx, d.client, in.ID, admin.Reason(in.Body.Reason))
	return &out, err
}

// signalWorkflow is a request to end the wait of a step.
type signalWorkflow struct {
	OneTask
	Body struct {
		Step  string          `json:"step" minLength:"1" maxLength:"200"`
		Value json.RawMessage `json:"value,omitempty"`
	}
}

// signalWorkflow needs only the queue of the step: what signals it may know nothing about the rest of the workflow.
func (a *API) signalWorkflow(ctx context.Context, in *signalWorkflow) (*operated, error) {
	d, p, err := a.anyQueue(ctx, auth.Work, in.Database)
	if err != nil {
		return nil, err
	}
	step, err := workflow.Find(ctx, d.client, in.ID, in.Body.Step)
	if err == nil && !p.May(auth.Work, in.Database, step.Queue) {
		err = dbq.ErrNotFound
	}
	if err == nil {
		err = workflow.Signal(ctx, d.client, in.ID, step.Name, in.Body.Value)
	}
	if err != nil {
		return nil, err
	}
	var out operated
	out.Body.State = dbq.StateCompleted
	return &out, nil
}
