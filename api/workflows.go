package api

import (
	"context"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
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

// readWorkflow is a request to read a workflow.
type readWorkflow struct {
	OneTask
	Limit int `query:"limit" minimum:"1" maximum:"10000" default:"1000"`
}

func (a *API) readWorkflow(ctx context.Context, in *readWorkflow) (*gotWorkflow, error) {
	d, p, err := a.anyQueue(ctx, auth.Read, in.Database)
	if err != nil {
		return nil, err
	}
	id, err := uuid.Parse(in.ID)
	if err != nil {
		return nil, badRequest.problem(Field{"path.id", "it is not a UUID"})
	}
	info, err := workflow.Get(ctx, d.client, id, in.Limit)
	if err != nil {
		return nil, err
	}
	if info.Cut && len(p.Queues) > 0 { // steps that are left out may be in other queues
		return nil, badRequest.problem(Field{"query.limit", "it is below the number of the workflow's steps"})
	}
	var out gotWorkflow
	out.Body.ID, out.Body.Cut = info.ID.String(), info.Cut
	out.Body.Steps, out.Body.Needs = []Step{}, []Need{}
	for _, s := range info.Steps {
		if !p.May(auth.Read, in.Database, s.Queue) { // of a workflow, a caller may see all or nothing
			return nil, dbq.ErrNotFound
		}
		out.Body.Steps = append(out.Body.Steps,
			Step{s.Task.String(), s.Name, s.Queue, stateName(s.State), s.Cancelled, s.WaitsFor})
	}
	for _, n := range info.Needs {
		out.Body.Needs = append(out.Body.Needs, Need{n.Parent.String(), n.Child.String(), string(n.OnFailure), n.Met})
	}
	return &out, nil
}
