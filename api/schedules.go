package api

import (
	"context"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/schedule"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// Schedule is a schedule and its status.
type Schedule struct {
	Name          string    `json:"name"`
	Queue         string    `json:"queue"`
	Kind          string    `json:"kind,omitempty"`
	Cron          string    `json:"cron,omitempty"`
	Zone          string    `json:"zone,omitempty"`
	EverySeconds  float64   `json:"every_seconds,omitempty"`
	At            time.Time `json:"at,omitzero"`
	CatchUp       int       `json:"catch_up,omitempty"`
	NoOverlap     bool      `json:"no_overlap,omitempty"`
	JitterSeconds float64   `json:"jitter_seconds,omitempty"`
	Owner         string    `json:"owner,omitempty"`
	Next          time.Time `json:"next,omitzero"`
	Last          time.Time `json:"last,omitzero"`
	LastTask      string    `json:"last_task,omitempty"`
	Skipped       string    `json:"skipped,omitempty"`
	Paused        bool      `json:"paused,omitempty"`
	Since         time.Time `json:"since,omitzero"`
	By            string    `json:"by,omitempty"`
	Reason        string    `json:"reason,omitempty"`
	Updated       time.Time `json:"updated"`
}

// listedSchedules is the response with the schedules of a database.
type listedSchedules struct {
	Body struct {
		Schedules []Schedule `json:"schedules" nullable:"false"`
	}
}

func (a *API) listSchedules(ctx context.Context, in *oneDatabase) (*listedSchedules, error) {
	d, p, err := a.anyQueue(ctx, auth.Read, in.Database)
	if err != nil {
		return nil, err
	}
	infos, err := schedule.New(d.client).List(ctx)
	if err != nil {
		return nil, err
	}
	var out listedSchedules
	out.Body.Schedules = []Schedule{}
	for _, s := range infos {
		if !p.May(auth.Read, in.Database, s.Queue) {
			continue
		}
		view := Schedule{
			Name: s.Name, Queue: s.Queue, Kind: s.Task.Kind, Cron: s.Cron, Zone: s.Zone, EverySeconds: inSeconds(s.Every),
			At: s.At, CatchUp: s.CatchUp, NoOverlap: s.NoOverlap, JitterSeconds: inSeconds(s.Jitter), Owner: s.Owner,
			Next: s.Next, Last: s.Last, Skipped: s.Problem, Paused: s.Paused, Since: s.Since, By: s.By, Reason: s.Reason,
			Updated: s.Updated,
		}
		if s.LastTask != uuid.Nil {
			view.LastTask = s.LastTask.String()
		}
		out.Body.Schedules = append(out.Body.Schedules, view)
	}
	return &out, nil
}

// changeSchedule is a request to change a schedule.
type changeSchedule struct {
	Database string `path:"database"`
	Schedule string `path:"schedule"`
	Change   string `path:"change" enum:"pause,resume,run,delete"`
	Body     struct {
		Reason string `json:"reason,omitempty"`
	}
}

// changedSchedule is its response.
type changedSchedule struct {
	Body struct {
		Task string `json:"task,omitempty"`
	}
}

func (a *API) changeSchedule(ctx context.Context, in *changeSchedule) (*changedSchedule, error) {
	action := map[string]auth.Action{
		"pause": auth.Operate, "resume": auth.Operate, "run": auth.Operate, "delete": auth.Configure,
	}[in.Change]
	d, p, err := a.anyQueue(ctx, action, in.Database)
	if err != nil {
		return nil, err
	}
	schedules := schedule.New(d.client)
	s, err := schedules.Get(ctx, in.Schedule)
	if err == nil && !p.May(action, in.Database, s.Queue) {
		err = dbq.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	var out changedSchedule
	switch in.Change {
	case "pause":
		err = schedules.Pause(ctx, s.Name, schedule.By(p.Name), schedule.Reason(in.Body.Reason))
	case "resume":
		err = schedules.Resume(ctx, s.Name)
	case "delete":
		err = schedules.Delete(ctx, s.Name)
	case "run":
		var id uuid.UUID
		id, err = schedules.RunNow(ctx, s.Name)
		out.Body.Task = id.String()
	}
	if err != nil {
		return nil, err
	}
	return &out, nil
}

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
