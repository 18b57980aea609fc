package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/visible"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// maxSteps is the largest number of steps of a workflow that is enqueued or read over HTTP, and maxNeeds that of the
// needs of all its steps. They fit a fan-out of as many steps that are gathered, and stop no writer for long: the rows
// of a million needs take SQLite's only writer 10 seconds.
const (
	maxSteps = 10_000
	maxNeeds = 2 * maxSteps
)

// Step is a step of a workflow as it is now.
type Step struct {
	Task      string `json:"task"`
	Name      string `json:"name"`
	Queue     string `json:"queue"`
	State     string `json:"state"`
	Cancelled bool   `json:"cancelled,omitempty"`
	WaitsFor  int    `json:"waits_for,omitempty"`
}

// Need is an edge of a workflow.
type Need struct {
	Parent    string `json:"parent"`
	Child     string `json:"child"`
	OnFailure string `json:"on_failure"`
	Met       bool   `json:"met"`
}

// gotWorkflow is the response with a workflow.
type gotWorkflow struct {
	Body struct {
		ID    string `json:"id"`
		Steps []Step `json:"steps" nullable:"false"`
		Needs []Need `json:"needs" nullable:"false"`
		Cut   bool   `json:"cut,omitempty"`
	}
}

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
	id, err := uuid.Parse(in.ID)
	if err != nil {
		return workflow.Info{}, badRequest.problem(Field{"path.id", "it is not a UUID"})
	}
	info, err := workflow.Get(ctx, d.client, id, in.Limit)
	if err != nil {
		return info, err
	}
	err = d.seenBy(p).Workflow(info, in.Limit)
	if errors.Is(err, visible.ErrPart) {
		err = badRequest.problem(Field{"query.limit", "it is below the number of the workflow's steps"})
	}
	return info, err
}

func (a *API) readWorkflow(ctx context.Context, in *OneWorkflow) (*gotWorkflow, error) {
	info, err := a.workflow(ctx, *in)
	if err != nil {
		return nil, err
	}
	var out gotWorkflow
	out.Body.ID, out.Body.Cut = info.ID.String(), info.Cut
	out.Body.Steps, out.Body.Needs = []Step{}, []Need{}
	for _, s := range info.Steps {
		out.Body.Steps = append(out.Body.Steps,
			Step{s.Task.String(), s.Name, s.Queue, stateName(s.State), s.Cancelled, s.WaitsFor})
	}
	for _, n := range info.Needs {
		out.Body.Needs = append(out.Body.Needs, Need{n.Parent.String(), n.Child.String(), string(n.OnFailure), n.Met})
	}
	return &out, nil
}

// drawWorkflow is a request for a drawing of a workflow.
type drawWorkflow struct {
	OneWorkflow
	Format string `query:"format" enum:"mermaid,dot" default:"mermaid"`
}

// drawnWorkflow is its response.
type drawnWorkflow struct {
	ContentType string `header:"Content-Type" hidden:"true"`
	Body        []byte
}

// The media types of drawings.
const (
	mermaidText = "text/plain"
	dotText     = "text/vnd.graphviz"
)

func (a *API) drawWorkflow(ctx context.Context, in *drawWorkflow) (*drawnWorkflow, error) {
	info, err := a.workflow(ctx, in.OneWorkflow)
	if err != nil {
		return nil, err
	}
	media, text, comment := mermaidText, info.Mermaid(), "%%"
	if in.Format == "dot" {
		media, text, comment = dotText, info.DOT(), "//"
	}
	if info.Cut {
		text += comment + " There are more steps or needs than this drawing has.\n"
	}
	return &drawnWorkflow{media + "; charset=utf-8", []byte(text)}, nil
}

// NewStep is a step of a workflow to enqueue.
type NewStep struct {
	TaskContent
	Name      string     `json:"name"`
	Queue     string     `json:"queue"`
	Needs     []string   `json:"needs,omitempty" nullable:"false" maxItems:"10000"`
	OnFailure string     `json:"on_failure,omitempty" enum:"cancel,wait,ignore"`
	Reference string     `json:"reference,omitempty"`
	RunAt     *time.Time `json:"run_at,omitempty"`
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
	Name string `json:"name"`
	Task string `json:"task"`
}

// enqueuedWorkflow is the response: 201 if the workflow was added, and 200 if it had been added before.
type enqueuedWorkflow struct {
	Status int
	Body   struct {
		ID        string         `json:"id"`
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
			return nil, badRequest.problem(Field{"body.steps", fmt.Sprintf("all steps have more than %d needs", maxNeeds)})
		}
		if !p.May(auth.Enqueue, in.Database, s.Queue) {
			return nil, forbidden.problem(Field{"body.queue", "the caller may not enqueue into this queue"}).in("steps", i)
		}
		t, problem := s.TaskContent.task()
		if t.Reference = s.Reference; problem == nil && in.Key != "" {
			problem = setReference(&t, fmt.Sprintf("%s/%d", in.Key, i))
		}
		if problem != nil {
			return nil, problem.in("steps", i)
		}
		if s.RunAt != nil {
			t.RunAt = *s.RunAt
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
	out.Body.ID, out.Body.Steps = w.ID.String(), make([]EnqueuedStep, len(steps))
	for i, s := range steps {
		out.Body.Steps[i] = EnqueuedStep{s.Name, w.Tasks[i].String()}
	}
	return &out, nil
}

// stepField returns the field that an error of package workflow names, without its value.
func stepField(err error, k kind) Field {
	var failed *workflow.StepError
	if !errors.As(err, &failed) {
		return Field{}
	}
	f := map[string]Field{
		"Name":      {".name", fmt.Sprintf("it has 1 to %d characters, and no other step has it", workflow.MaxName)},
		"Queue":     {".queue", ""},
		"Needs":     {".needs", "they are the names of other steps, each once, and without a cycle"},
		"OnFailure": {".on_failure", "it is cancel, wait or ignore"},
	}[failed.Field]
	return Field{fmt.Sprintf("body.steps[%d]%s", failed.Step, f.Location), cmp.Or(f.Message, k.Title)}
}

// enqueuedBefore returns the workflow that an earlier request with the same steps has added, if the task that a
// duplicate is about belongs to it. Otherwise it returns the error.
func (d *database) enqueuedBefore(ctx context.Context, p auth.Principal, steps []workflow.Step, duplicate error) (
	*enqueuedWorkflow, error) {
	var failed *dbq.Error
	if !errors.As(duplicate, &failed) || failed.Task == uuid.Nil {
		return nil, duplicate
	}
	t, err := d.client.Get(ctx, failed.Task)
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
	out.Body.ID, out.Body.Duplicate, out.Body.Steps = id.String(), true, []EnqueuedStep{}
	tasks := map[string]uuid.UUID{}
	for _, s := range info.Steps {
		tasks[s.Name] = s.Task
	}
	for _, s := range steps {
		if task, ok := tasks[s.Name]; ok { // the row of a step whose task was purged is gone
			out.Body.Steps = append(out.Body.Steps, EnqueuedStep{s.Name, task.String()})
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
	id, err := uuid.Parse(in.ID)
	if err != nil {
		return nil, badRequest.problem(Field{"path.id", "it is not a UUID"})
	}
	limit := 1 // enough to know that it exists
	if len(p.Queues) > 0 {
		limit = maxSteps
	}
	info, err := workflow.Get(ctx, d.client, id, limit)
	if err == nil {
		err = d.seenBy(p).Workflow(info, limit)
	}
	if errors.Is(err, visible.ErrPart) {
		err = forbidden.problem()
	}
	if err != nil {
		return nil, err
	}
	change := map[string]func(context.Context, *dbq.Client, uuid.UUID, ...admin.Option) (int, error){
		"cancel": workflow.Cancel, "retry": workflow.Retry,
	}[in.Change]
	var out changedWorkflow
	out.Body.Changed, err = change(ctx, d.client, id, by(p, in.Body.Reason)...)
	return &out, err
}
