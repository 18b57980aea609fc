package api

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/schedule"
	"github.com/google/uuid"
)

// Schedule is a schedule and its status. Lists leave the payload and the headers out.
type Schedule struct {
	Name          string            `json:"name"`
	Queue         string            `json:"queue"`
	Kind          string            `json:"kind,omitempty"`
	Hidden        bool              `json:"hidden,omitempty"`
	Redacted      bool              `json:"redacted,omitempty"`
	Payload       *string           `json:"payload,omitempty"`
	PayloadBase64 []byte            `json:"payload_base64,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
	Key           string            `json:"key,omitempty"`
	Priority      int               `json:"priority,omitempty"`
	DelaySeconds  float64           `json:"delay_seconds,omitempty"`
	MaxAttempts   int               `json:"max_attempts,omitempty"`
	Cron          string            `json:"cron,omitempty"`
	Zone          string            `json:"zone,omitempty"`
	EverySeconds  float64           `json:"every_seconds,omitempty"`
	At            time.Time         `json:"at,omitzero"`
	CatchUp       int               `json:"catch_up,omitempty"`
	NoOverlap     bool              `json:"no_overlap,omitempty"`
	JitterSeconds float64           `json:"jitter_seconds,omitempty"`
	Owner         string            `json:"owner,omitempty"`
	Next          time.Time         `json:"next,omitzero"`
	Last          time.Time         `json:"last,omitzero"`
	LastTask      string            `json:"last_task,omitempty"`
	Skipped       string            `json:"skipped,omitempty"`
	Paused        bool              `json:"paused,omitempty"`
	Since         time.Time         `json:"since,omitzero"`
	By            string            `json:"by,omitempty"`
	Reason        string            `json:"reason,omitempty"`
	Updated       time.Time         `json:"updated"`
	Revision      string            `json:"revision"`
}

// scheduleOf returns a schedule as lists show it.
func scheduleOf(s schedule.Info) Schedule {
	out := Schedule{
		Name: s.Name, Queue: s.Queue, Kind: s.Task.Kind, Key: s.Task.Key, Priority: s.Task.Priority,
		DelaySeconds: inSeconds(s.Task.Delay), MaxAttempts: s.Task.MaxAttempts, Cron: s.Cron, Zone: s.Zone,
		EverySeconds: inSeconds(s.Every), At: s.At, CatchUp: s.CatchUp, NoOverlap: s.NoOverlap,
		JitterSeconds: inSeconds(s.Jitter), Owner: s.Owner, Next: s.Next, Last: s.Last, Skipped: s.Problem,
		Paused: s.Paused, Since: s.Since, By: s.By, Reason: s.Reason, Updated: s.Updated, Revision: s.Revision,
	}
	if s.LastTask != uuid.Nil {
		out.LastTask = s.LastTask.String()
	}
	return out
}

// taskOf returns the task of a schedule in the form to which redactions apply.
func taskOf(s schedule.Info) dbq.Task {
	return dbq.Task{Queue: s.Queue, Kind: s.Task.Kind, Payload: s.Task.Payload, Headers: s.Task.Headers}
}

// schedule returns a schedule as a caller may see it, with its payload and headers.
func (d *database) schedule(s schedule.Info, p auth.Principal) Schedule {
	out := scheduleOf(s)
	if out.Hidden = !p.Payloads; out.Hidden {
		return out
	}
	t := taskOf(s)
	out.Redacted = d.seenBy(p).Task(&t)
	out.Payload, out.PayloadBase64 = textOrBase64(t.Payload)
	out.Headers = t.Headers
	return out
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
	infos, err := d.schedules.List(ctx)
	if err != nil {
		return nil, err
	}
	var out listedSchedules
	out.Body.Schedules = []Schedule{}
	for _, s := range infos {
		if p.May(auth.Read, in.Database, s.Queue) {
			out.Body.Schedules = append(out.Body.Schedules, scheduleOf(s))
		}
	}
	return &out, nil
}

// OneSchedule is the path of a request about a schedule.
type OneSchedule struct {
	Database string `path:"database"`
	Schedule string `path:"schedule"`
}

// gotSchedule is the response with a schedule.
type gotSchedule struct {
	Body Schedule
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

func (a *API) readSchedule(ctx context.Context, in *OneSchedule) (*gotSchedule, error) {
	d, s, p, err := a.schedule(ctx, auth.Read, *in)
	if err != nil {
		return nil, err
	}
	return &gotSchedule{d.schedule(s, p)}, nil
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
		Task string `json:"task,omitempty"`
	}
}

func (a *API) changeSchedule(ctx context.Context, in *changeSchedule) (*changedSchedule, error) {
	action := map[string]auth.Action{
		"pause": auth.Operate, "resume": auth.Operate, "run": auth.Operate, "delete": auth.Configure,
	}[in.Change]
	d, s, p, err := a.schedule(ctx, action, in.OneSchedule)
	if err != nil {
		return nil, err
	}
	var out changedSchedule
	noted := []schedule.Option{schedule.Reason(in.Body.Reason)}
	if p.Name != "" { // an embedder's authenticator may leave it empty
		noted = append(noted, schedule.By(p.Name))
	}
	switch in.Change {
	case "pause":
		err = d.schedules.Pause(ctx, s.Name, noted...)
	case "resume":
		err = d.schedules.Resume(ctx, s.Name, noted...)
	case "delete":
		err = d.schedules.Delete(ctx, s.Name, noted...)
	case "run":
		var id uuid.UUID
		id, err = d.schedules.RunNow(ctx, s.Name, noted...)
		out.Body.Task = id.String()
	}
	if err != nil {
		return nil, err
	}
	return &out, nil
}
