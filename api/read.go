package api

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
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
	p.Queues = nil // a caller may know the database of its queues
	for name, d := range a.databases {
		if p.May(auth.Read, name, "") {
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
	Database string `path:"database"`
	ID       string `path:"id" format:"uuid"`
}

// gotTask is the response with a task.
type gotTask struct {
	Body Task
}

// task reads a task that the caller may do something with. One of another queue does not exist for the caller.
func (a *API) task(ctx context.Context, action auth.Action, in OneTask) (*database, dbq.Task, auth.Principal, error) {
	d, p, err := a.anyQueue(ctx, action, in.Database)
	if err != nil {
		return nil, dbq.Task{}, p, err
	}
	id, err := uuid.Parse(in.ID)
	if err != nil {
		return nil, dbq.Task{}, p, badRequest.problem(Field{"path.id", "it is not a UUID"})
	}
	t, err := d.client.Get(ctx, id)
	if err == nil && !p.May(action, in.Database, t.Queue) {
		err = dbq.ErrNotFound
	}
	return d, t, p, err
}

func (a *API) get(ctx context.Context, in *OneTask) (*gotTask, error) {
	d, t, p, err := a.task(ctx, auth.Read, *in)
	if err != nil {
		return nil, err
	}
	shown, err := d.show(ctx, t, p)
	return &gotTask{shown}, err
}

// show returns a task with its payload as a caller may see it, if there is room for it.
func (d *database) show(ctx context.Context, t dbq.Task, p auth.Principal) (Task, error) {
	if full := requestOf(ctx).memory.hold(escapedBytes * int64(len(t.Payload))); full != nil {
		return Task{}, full
	}
	return d.view(t, p), nil
}

// waitTask is a request to wait for the end of a task.
type waitTask struct {
	OneTask
	WaitSeconds float64 `query:"wait_seconds" default:"30" minimum:"0"`
}

// waited is its response.
type waited struct {
	Body struct {
		Ended bool `json:"ended"`
		Task  Task `json:"task"`
	}
}

func (a *API) wait(ctx context.Context, in *waitTask) (*waited, error) {
	d, t, p, err := a.task(ctx, auth.Read, in.OneTask)
	if err != nil {
		return nil, err
	}
	if !t.Ended() {
		waiting, cancel := a.waitAtMost(ctx, in.WaitSeconds)
		defer cancel()
		now, err := d.client.Wait(waiting, t.ID)
		if err != nil && !(waiting.Err() != nil && isContext(err)) {
			return nil, err
		}
		if now.ID != uuid.Nil {
			t = now
		}
		if !p.May(auth.Read, in.Database, t.Queue) { // the id is that of another task by now
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
		Attempts []Attempt `json:"attempts" nullable:"false"`
	}
}

func (a *API) attempts(ctx context.Context, in *OneTask) (*gotAttempts, error) {
	d, t, p, err := a.task(ctx, auth.Read, *in)
	removed := errors.Is(err, dbq.ErrNotFound) && t.ID == uuid.Nil && d != nil
	if err != nil && !removed {
		return nil, err
	}
	id, err := uuid.Parse(in.ID)
	if err != nil {
		return nil, err
	}
	as, err := d.admin.Attempts(ctx, id)
	if err != nil {
		return nil, err
	}
	var out gotAttempts
	out.Body.Attempts = []Attempt{}
	for _, at := range d.seenBy(p).Attempts(as) {
		out.Body.Attempts = append(out.Body.Attempts, Attempt{
			Attempt: at.Attempt, Fence: at.Fence, Outcome: string(at.Outcome), Taken: at.Taken, Ended: at.Ended,
			Worker: at.Worker, Error: at.Error,
		})
	}
	if removed && len(out.Body.Attempts) == 0 {
		return nil, dbq.ErrNotFound
	}
	return &out, nil
}

// listTasks is a request for a page of tasks.
type listTasks struct {
	Database             string   `path:"database"`
	Queue                string   `query:"queue"`
	States               []string `query:"state" maxItems:"5"`
	Kind                 string   `query:"kind"`
	Key                  string   `query:"key"`
	Reference            string   `query:"reference"`
	Workflow             string   `query:"workflow" format:"uuid"`
	Holder               string   `query:"holder"`
	Parked               bool     `query:"parked"`
	Cancelled            bool     `query:"cancelled"`
	NotCancelled         bool     `query:"not_cancelled"`
	InStateForSeconds    float64  `query:"in_state_for_seconds" minimum:"0"`
	EnteredWithinSeconds float64  `query:"entered_within_seconds" exclusiveMinimum:"0"`
	Order                string   `query:"order" enum:"newest,oldest" default:"newest"`
	After                string   `query:"after" format:"uuid"`
	Limit                int      `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Archived             bool     `query:"archived"`
}

// listedTasks is its response.
type listedTasks struct {
	Body struct {
		Tasks []Task `json:"tasks" nullable:"false"`
		Next  string `json:"next,omitempty"`
	}
}

func (a *API) list(ctx context.Context, in *listTasks) (*listedTasks, error) {
	d, p, err := a.open(ctx, auth.Read, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	f, err := Filter{
		in.Queue, in.States, in.Kind, in.Key, in.Reference, in.Workflow, in.Holder, in.Parked, in.Cancelled,
		in.NotCancelled, in.InStateForSeconds, in.EnteredWithinSeconds,
	}.filter("query.", in.Limit)
	if err != nil {
		return nil, err
	}
	after, err := parseID("query.after", in.After)
	if err != nil {
		return nil, err
	}
	f.NewestFirst = in.Order == "newest"
	read := d.admin.List
	if in.Archived {
		read, f.NewestFirst = d.admin.Archived, false // the archive is read in the order of its index
	}
	if f.NewestFirst {
		f.Before = after
	} else {
		f.After = after
	}
	tasks, err := read(ctx, f)
	if err != nil {
		return nil, err
	}
	var out listedTasks
	out.Body.Tasks = make([]Task, len(tasks))
	for i, t := range tasks {
		out.Body.Tasks[i] = d.view(t, p)
	}
	if len(tasks) == in.Limit {
		out.Body.Next = tasks[len(tasks)-1].ID.String()
	}
	return &out, nil
}

// parseID reads an id that may be left out.
func parseID(field, text string) (uuid.UUID, error) {
	if text == "" {
		return uuid.Nil, nil
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return id, badRequest.problem(Field{field, "it is not a UUID"})
	}
	return id, nil
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
		Queues []Stats `json:"queues" nullable:"false"`
	}
}

func (a *API) stats(ctx context.Context, in *readStats) (*gotStats, error) {
	p, _ := auth.FromContext(ctx)
	may := p
	if in.Queue == "" { // a caller sees its own queues of all
		may.Queues = nil
	}
	if !may.May(auth.Read, in.Database, in.Queue) {
		return nil, forbidden.problem()
	}
	d := a.databases[in.Database]
	if d == nil {
		return nil, noDatabase.problem()
	}
	var counted []admin.QueueStats
	var err error
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
	out.Body.Queues = []Stats{}
	for _, q := range counted {
		if !p.May(auth.Read, in.Database, q.Queue) {
			continue
		}
		s := Stats{
			Queue: q.Queue, Count: map[string]int64{}, Due: q.Due, Parked: q.Parked, Cancelled: q.Cancelled,
			OldestDueSeconds: inSeconds(q.OldestDue),
		}
		for st, n := range q.Count {
			s.Count[st.String()] = n
		}
		for _, st := range q.AtLeast {
			s.AtLeast = append(s.AtLeast, st.String())
		}
		out.Body.Queues = append(out.Body.Queues, s)
	}
	return &out, nil
}
