package api

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/internal/wire"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// operate is a request to apply an operator's event to a task.
type operate struct {
	OneTask
	Event state.Event `path:"event"`
	Body  struct {
		Reason string          `json:"reason,omitempty"`
		Result json.RawMessage `json:"result,omitempty"`
	}
}

// operated is its response.
type operated struct {
	Body struct {
		State dbq.State `json:"state"`
	}
}

// actionOf returns the action that an event requires of a caller.
func actionOf(event state.Event) auth.Action {
	if event == admin.Purge || event == admin.Finish {
		return auth.Delete
	}
	return auth.Operate
}

func (a *API) operate(ctx context.Context, in *operate) (*operated, error) {
	d, t, _, err := a.task(ctx, actionOf(in.Event), in.OneTask)
	if err != nil {
		return nil, err
	}
	result, problem := wire.BytesOfAny("result", in.Body.Result, nil)
	if problem != nil {
		return nil, problem
	}
	err = d.admin.Operate(ctx, in.Event, t.ID, admin.Reason(in.Body.Reason), admin.Result(result))
	if err != nil {
		return nil, err
	}
	var out operated
	to, _ := state.Find(in.Event, state.Operator)
	out.Body.State = to.To
	return &out, nil
}

// operateMany is a request to apply an operator's event to the tasks that a filter selects.
type operateMany struct {
	Database string      `path:"database"`
	Event    state.Event `path:"event"`
	Body     struct {
		Filter Filter    `json:"filter"`
		Limit  int       `json:"limit" minimum:"1"`
		After  uuid.UUID `json:"after,omitzero"`
		DryRun bool      `json:"dry_run,omitempty"`
		Reason string    `json:"reason,omitempty"`
	}
}

// Filter selects tasks; see admin.Filter. An empty field is refused: a caller that has lost a value would select all.
type Filter struct {
	Queue         string   `json:"queue,omitempty" query:"queue" minLength:"1"`
	States        []string `json:"states,omitempty" query:"state" nullable:"false" minItems:"1" maxItems:"5"`
	Kind          string   `json:"kind,omitempty" query:"kind" minLength:"1"`
	Key           string   `json:"key,omitempty" query:"key" minLength:"1"`
	Reference     string   `json:"reference,omitempty" query:"reference" minLength:"1"`
	Workflow      string   `json:"workflow,omitempty" query:"workflow" format:"uuid"`
	Holder        string   `json:"holder,omitempty" query:"holder" minLength:"1"`
	Parked        bool     `json:"parked,omitempty" query:"parked"`
	Cancelled     bool     `json:"cancelled,omitempty" query:"cancelled"`
	NotCancelled  bool     `json:"not_cancelled,omitempty" query:"not_cancelled"`
	InStateFor    float64  `json:"in_state_for_seconds,omitempty" query:"in_state_for_seconds" minimum:"0"`
	EnteredWithin float64  `json:"entered_within_seconds,omitempty" query:"entered_within_seconds" exclusiveMinimum:"0"`
}

// filter returns the filter of the Go API. at is its place in the request.
func (f Filter) filter(at string, limit int) (admin.Filter, error) {
	out := admin.Filter{
		Queue: f.Queue, Kind: f.Kind, Key: f.Key, Reference: f.Reference, Holder: f.Holder, ParkedOnly: f.Parked,
		CancelledOnly: f.Cancelled, NotCancelled: f.NotCancelled, InStateFor: duration.FromSeconds(f.InStateFor),
		EnteredWithin: duration.FromSeconds(f.EnteredWithin), Limit: limit,
	}
	for _, name := range f.States {
		s, err := state.Parse(name)
		if err != nil {
			return out, wire.BadRequest.Problem(wire.At(at+"states", "it is not the name of a state"))
		}
		out.States = append(out.States, s)
	}
	if f.EnteredWithin > 0 { // a time that rounds to 0 would select all
		out.EnteredWithin = max(out.EnteredWithin, time.Microsecond)
	}
	if f.Workflow == "" {
		return out, nil
	}
	var err error
	if out.Workflow, err = uuid.Parse(f.Workflow); err != nil || out.Workflow == uuid.Nil {
		err = wire.BadRequest.Problem(wire.At(at+"workflow", "it is not the id of a workflow"))
	}
	return out, err
}

// operatedMany is the response to it.
type operatedMany struct {
	Body struct {
		Changed int       `json:"changed"`
		Next    uuid.UUID `json:"next,omitzero"` // after of the request for the rest; zero if there is none
		DryRun  bool      `json:"dry_run,omitempty"`
	}
}

func (a *API) operateMany(ctx context.Context, in *operateMany) (*operatedMany, error) {
	d, _, err := a.open(ctx, actionOf(in.Event), in.Database, in.Body.Filter.Queue)
	if err != nil {
		return nil, err
	}
	f, err := in.Body.Filter.filter("body.filter.", in.Body.Limit)
	if err != nil {
		return nil, err
	}
	f.After = in.Body.After
	opts := []admin.Option{admin.Reason(in.Body.Reason)}
	if in.Body.DryRun {
		opts = append(opts, admin.DryRun())
	}
	done, err := d.admin.OperateMany(ctx, in.Event, f, opts...)
	if err != nil && done.Changed > 0 {
		done, err = a.partly(ctx, f, done, err)
	}
	if err != nil {
		return nil, err
	}
	var out operatedMany
	if out.Body.Changed, out.Body.DryRun = done.Changed, in.Body.DryRun; done.More {
		out.Body.Next = done.Last
	}
	return &out, nil
}

// partly returns the result of a call that failed after changing some tasks. A problem would say that nothing was
// changed, so the request for the rest gets the problem.
func (a *API) partly(ctx context.Context, f admin.Filter, done admin.Operated, err error) (admin.Operated, error) {
	if errors.Is(err, dbq.ErrMayHaveHappened) {
		return done, err
	}
	a.logFailure(ctx, problemOf(err), err)
	if done.Last == f.After { // the last tasks come first: there is no rest to ask for
		return done, dbq.ErrMayHaveHappened
	}
	done.More = true
	return done, nil
}

// listedWorkers is the response with the workers of a database.
type listedWorkers struct {
	Body struct {
		Workers []admin.WorkerInfo `json:"workers" nullable:"false"`
	}
}

func (a *API) listWorkers(ctx context.Context, in *oneDatabase) (out *listedWorkers, err error) {
	out = &listedWorkers{}
	out.Body.Workers, err = listed(ctx, a, in,
		func(d *database) ([]admin.WorkerInfo, error) { return d.admin.Workers(ctx) },
		func(w admin.WorkerInfo) string { return w.Queue })
	return out, err
}

// commandWorker is a request to send a worker a command.
type commandWorker struct {
	Database string `path:"database"`
	Body     struct {
		Worker  string `json:"worker"`
		Command string `json:"command" enum:"pause,resume,stop"`
	}
}

func (a *API) commandWorker(ctx context.Context, in *commandWorker) (*struct{}, error) {
	d, p, err := a.anyQueue(ctx, auth.Configure, in.Database)
	if err != nil {
		return nil, err
	}
	workers, err := d.admin.Workers(ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range workers {
		if w.ID == in.Body.Worker && p.May(auth.Configure, in.Database, w.Queue) {
			return nil, d.admin.CommandWorker(ctx, w.ID, dbq.Command(in.Body.Command))
		}
	}
	return nil, dbq.ErrNotFound
}

// oneDatabase is the path of a request about a database.
type oneDatabase struct {
	Database string `path:"database"`
}
