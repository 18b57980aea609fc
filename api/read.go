package api

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/internal/wire"
	"github.com/google/uuid"
)

// Database describes one database of the API.
type Database struct {
	Name     string `json:"name"`
	Product  string `json:"product"`
	Strategy string `json:"strategy"`
}

// listedDatabases is the response to GET /v1/databases.
type listedDatabases struct {
	Body struct {
		Databases []Database `json:"databases" nullable:"false"`
	}
}

func (a *API) listDatabases(ctx context.Context, _ *struct{}) (*listedDatabases, error) {
	p, _ := auth.FromContext(ctx)
	var out listedDatabases
	out.Body.Databases = []Database{}
	for name, d := range a.databases {
		if p.MaySome(auth.Read, name) {
			info := d.client.Info()
			out.Body.Databases = append(out.Body.Databases,
				Database{name, info.Server.Product + " " + info.Server.Version, string(info.Strategy)})
		}
	}
	slices.SortFunc(out.Body.Databases, func(x, y Database) int { return strings.Compare(x.Name, y.Name) })
	return &out, nil
}

// OneTask is the path of a request about a task.
type OneTask struct {
	Database string    `path:"database"`
	ID       uuid.UUID `path:"id"`
}

// got is a response with one value.
type got[T any] struct{ Body T }

// task reads a task that the caller may do something with. One of another queue does not exist for the caller.
func (a *API) task(ctx context.Context, action auth.Action, in OneTask) (*database, dbq.Task, auth.Principal, error) {
	d, p, err := a.anyQueue(ctx, action, in.Database)
	if err != nil {
		return nil, dbq.Task{}, p, err
	}
	t, err := d.client.Get(ctx, in.ID)
	if err == nil && !p.May(action, in.Database, t.Queue) {
		err = dbq.ErrNotFound
	}
	return d, t, p, err
}

func (a *API) get(ctx context.Context, in *OneTask) (*got[wire.Task], error) {
	d, t, p, err := a.task(ctx, auth.Read, *in)
	if err != nil {
		return nil, err
	}
	shown, err := d.show(ctx, t, p)
	return &got[wire.Task]{shown}, err
}

// show returns a task with its payload as a caller may see it, if there is room for it.
func (d *database) show(ctx context.Context, t dbq.Task, p auth.Principal) (wire.Task, error) {
	if full := requestOf(ctx).reservation.resize(escapedBytes * int64(len(t.Payload))); full != nil {
		return wire.Task{}, full
	}
	return d.view(t, p), nil
}

// view returns a task as a caller that reads it may see it.
func (d *database) view(t dbq.Task, p auth.Principal) wire.Task {
	redacted := d.seenBy(p).Task(&t)
	out := wire.TaskOf(t)
	out.Hidden, out.Redacted = !p.Payloads, redacted
	return out
}

// waitTask is a request to wait for the end of a task.
type waitTask struct {
	OneTask
	WaitSeconds float64 `query:"wait_seconds" default:"30" minimum:"0"`
}

// waited is its response.
type waited struct {
	Body struct {
		Ended bool      `json:"ended"`
		Task  wire.Task `json:"task"`
	}
}

func (a *API) wait(ctx context.Context, in *waitTask) (*waited, error) {
	d, t, p, err := a.task(ctx, auth.Read, in.OneTask)
	if err != nil {
		return nil, err
	}
	if !t.Ended() {
		waiting, cancel := a.waitAtMost(ctx, duration.FromSeconds(in.WaitSeconds))
		defer cancel()
		now, err := d.client.Wait(waiting, t.ID)
		if err != nil && !(waiting.Err() != nil && isContext(err)) {
			return nil, err
		}
		if now.ID != uuid.Nil {
			t = now
		}
		if !p.May(auth.Read, in.Database, t.Queue) { // by now another task has the id
			return nil, dbq.ErrNotFound
		}
	}
	var out waited
	out.Body.Ended = t.Ended()
	out.Body.Task, err = d.show(ctx, t, p)
	return &out, err
}

// gotAttempts is the response with the ended attempts of a task.
type gotAttempts struct {
	Body struct {
		Attempts []dbq.Attempt `json:"attempts" nullable:"false"`
	}
}

func (a *API) attempts(ctx context.Context, in *OneTask) (*gotAttempts, error) {
	d, t, p, err := a.task(ctx, auth.Read, *in)
	removed := errors.Is(err, dbq.ErrNotFound) && t.ID == uuid.Nil && d != nil
	if err != nil && !removed {
		return nil, err
	}
	as, err := d.admin.Attempts(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	var out gotAttempts
	out.Body.Attempts = append([]dbq.Attempt{}, d.seenBy(p).Attempts(as)...)
	if removed && len(out.Body.Attempts) == 0 {
		return nil, dbq.ErrNotFound
	}
	return &out, nil
}

// listTasks is a request for a page of tasks.
type listTasks struct {
	Database string `path:"database"`
	Filter
	Order    string    `query:"order" enum:"newest,oldest" default:"newest"`
	After    uuid.UUID `query:"after"`
	Limit    int       `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Archived bool      `query:"archived"`
}

// listedTasks is its response.
type listedTasks struct {
	Body struct {
		Tasks []wire.Task `json:"tasks" nullable:"false"`
		Next  uuid.UUID   `json:"next,omitzero"`
	}
}

func (a *API) list(ctx context.Context, in *listTasks) (*listedTasks, error) {
	d, p, err := a.open(ctx, auth.Read, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	f, err := in.Filter.filter("query.", in.Limit)
	if err != nil {
		return nil, err
	}
	f.NewestFirst = in.Order == "newest"
	read := d.admin.List
	if in.Archived {
		read, f.NewestFirst = d.admin.Archived, false // the archive is read in the order of its index
	}
	if f.NewestFirst {
		f.Before = in.After
	} else {
		f.After = in.After
	}
	page, err := read(ctx, f)
	if err != nil {
		return nil, err
	}
	var out listedTasks
	out.Body.Tasks = make([]wire.Task, len(page.Tasks))
	for i, t := range page.Tasks {
		out.Body.Tasks[i] = d.view(t, p)
	}
	out.Body.Next = page.Next
	return &out, nil
}

// readStats is a request for the counts of queues.
type readStats struct {
	Database string `path:"database"`
	Queue    string `query:"queue"`
	CountTo  int    `query:"count_to" minimum:"1" maximum:"1000000" default:"10000"`
}

// gotStats is its response.
type gotStats struct {
	Body struct {
		Queues []wire.Stats `json:"queues" nullable:"false"`
	}
}

func (a *API) stats(ctx context.Context, in *readStats) (*gotStats, error) {
	d, p, err := a.filtered(ctx, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	var counted []admin.QueueStats
	if in.Queue == "" {
		counted, err = d.admin.Stats(ctx, admin.CountUpTo(in.CountTo))
	} else {
		counted = make([]admin.QueueStats, 1)
		counted[0], err = d.admin.StatsOf(ctx, in.Queue, admin.CountUpTo(in.CountTo))
	}
	if err != nil {
		return nil, err
	}
	var out gotStats
	out.Body.Queues = []wire.Stats{}
	for _, q := range counted {
		if p.May(auth.Read, in.Database, q.Queue) {
			out.Body.Queues = append(out.Body.Queues, wire.StatsOf(q))
		}
	}
	return &out, nil
}
