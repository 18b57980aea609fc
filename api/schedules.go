package api

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/wire"
	"github.com/dbq-go/dbq/schedule"
	"github.com/google/uuid"
)

// taskOf returns the task of a schedule in the form to which redactions apply.
func taskOf(s schedule.Info) dbq.Task {
	return dbq.Task{Queue: s.Queue, Kind: s.Task.Kind, Payload: s.Task.Payload, Headers: s.Task.Headers}
}

// schedule returns a schedule as a caller may see it, with its payload and headers.
func (d *database) schedule(s schedule.Info, p auth.Principal) wire.Schedule {
	t := taskOf(s)
	redacted := d.seenBy(p).Task(&t)
	s.Task.Payload, s.Task.Headers = t.Payload, t.Headers
	out := wire.ScheduleOf(s)
	out.Hidden, out.Redacted = !p.Payloads, redacted
	return out
}

// listedSchedules is the response with the schedules of a database.
type listedSchedules struct {
	Body struct {
		Schedules []wire.Schedule `json:"schedules" nullable:"false"`
	}
}

func (a *API) listSchedules(ctx context.Context, in *oneDatabase) (out *listedSchedules, err error) {
	out = &listedSchedules{}
	out.Body.Schedules, err = listed(ctx, a, in, func(d *database) (list []wire.Schedule, err error) {
		infos, err := d.schedules.List(ctx)
		for _, s := range infos {
			s.Task.Payload, s.Task.Headers = nil, nil // lists have none
			list = append(list, wire.ScheduleOf(s))
		}
		return list, err
	}, func(s wire.Schedule) string { return s.Queue })
	return out, err
}

// OneSchedule is the path of a request about a schedule.
type OneSchedule struct {
	Database string `path:"database"`
	Schedule string `path:"schedule"`
}

// schedule reads a schedule with which the caller may do something. One of another queue does not exist for the caller.
func (a *API) schedule(ctx context.Context, action auth.Action, in OneSchedule) (
	*database, schedule.Info, auth.Principal, error) {
	d, p, err := a.anyQueue(ctx, action, in.Database)
	if err != nil {
		return nil, schedule.Info{}, p, err
	}
	if !utf8.ValidString(in.Schedule) || strings.Contains(in.Schedule, "\x00") { // which some databases refuse
		return nil, schedule.Info{}, p, dbq.ErrNotFound
	}
	s, err := d.schedules.Get(ctx, in.Schedule)
	if err == nil && !p.May(action, in.Database, s.Queue) {
		err = dbq.ErrNotFound
	}
	return d, s, p, err
}

func (a *API) readSchedule(ctx context.Context, in *OneSchedule) (*got[wire.Schedule], error) {
	d, s, p, err := a.schedule(ctx, auth.Read, *in)
	if err != nil {
		return nil, err
	}
	return &got[wire.Schedule]{d.schedule(s, p)}, nil
}

// changeSchedule is a request to change a schedule.
type changeSchedule struct {
	OneSchedule
	Change string `path:"change" enum:"pause,resume,run,delete"`
	Body   struct {
		Reason string `json:"reason,omitempty"`
	}
}

// changedSchedule is its response.
type changedSchedule struct {
	Body struct {
		TaskID uuid.UUID `json:"task_id,omitzero"`
	}
}

func (a *API) changeSchedule(ctx context.Context, in *changeSchedule) (*changedSchedule, error) {
	action := map[string]auth.Action{
		"pause": auth.Operate, "resume": auth.Operate, "run": auth.Operate, "delete": auth.Configure,
	}[in.Change]
	d, s, _, err := a.schedule(ctx, action, in.OneSchedule)
	if err != nil {
		return nil, err
	}
	var out changedSchedule
	why := schedule.Reason(in.Body.Reason)
	switch in.Change {
	case "pause":
		err = d.schedules.Pause(ctx, s.Name, why)
	case "resume":
		err = d.schedules.Resume(ctx, s.Name, why)
	case "delete":
		err = d.schedules.Delete(ctx, s.Name, why)
	case "run":
		out.Body.TaskID, err = d.schedules.RunNow(ctx, s.Name, why)
	}
	if err != nil {
		return nil, err
	}
	return &out, nil
}
