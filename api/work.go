package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/access"
)

// checkout is a request for tasks.
type checkout struct {
	InQueue
	Body struct {
		Max          int     `json:"max,omitempty" default:"1" minimum:"1"`
		LeaseSeconds float64 `json:"lease_seconds,omitempty" default:"30"`
		WaitSeconds  float64 `json:"wait_seconds,omitempty" minimum:"0"`
		Worker       string  `json:"worker,omitempty"`
	}
}

// LeasedTask is a task with the lease of its new holder.
type LeasedTask struct {
	Task
	Lease         string  `json:"lease"`
	WaitedSeconds float64 `json:"waited_seconds"`
}

// checkedOut is the response to a checkout.
type checkedOut struct {
	Body CheckedOutBody
}

// CheckedOutBody is its body.
type CheckedOutBody struct {
	Tasks []LeasedTask `json:"tasks" nullable:"false"`
}

// write writes the body task by task: as text, payloads may be six times as long.
func (b CheckedOutBody) write(w io.Writer) {
	before := `{"tasks":[`
	for _, t := range b.Tasks {
		text, err := json.Marshal(t)
		if err != nil {
			panic(fmt.Errorf("the task cannot be encoded: %w", err))
		}
		_, _ = io.WriteString(w, before) // the caller may be gone
		_, _ = w.Write(text)
		before = ","
	}
	if len(b.Tasks) == 0 {
		_, _ = io.WriteString(w, before)
	}
	_, _ = io.WriteString(w, "]}\n")
}

func (a *API) checkout(ctx context.Context, in *checkout) (*checkedOut, error) {
	d, p, err := a.open(ctx, auth.Work, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	key, err := d.leases.load(ctx, d.client)
	if err != nil {
		return nil, err
	}
	q := access.ForRemote(d.client.Queue(in.Queue), in.Body.Worker, d.exhausted)
	listed := d.workers.checksOut(in.Queue, in.Body.Worker)
	var received []dbq.Task
	defer func() { listed(received) }()
	tasks, err := a.lease(ctx, d, q, in)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil { // no one receives the response
		err = ctx.Err()
	} else if p := requestOf(ctx).memory.hold(sizeOf(tasks)); p != nil {
		err = p
	}
	if err != nil {
		release(d.client.Queue(in.Queue), tasks)
		return nil, err
	}
	var out checkedOut
	out.Body.Tasks = make([]LeasedTask, len(tasks))
	p.Payloads = true // the work needs them
	now := time.Now()
	for i, t := range tasks {
		lease := held{t.Lease, in.Body.Worker, now}
		out.Body.Tasks[i] = LeasedTask{view(t, p), sign(key, lease, now), inSeconds(t.Waited)}
	}
	received = tasks
	d.started(in.Queue, tasks)
	return &out, nil
}

// lease checks tasks out, and waits for them if the caller wants to.
func (a *API) lease(ctx context.Context, d *database, q *dbq.Queue, in *checkout) ([]dbq.Task, error) {
	lease := seconds(in.Body.LeaseSeconds)
	if in.Body.WaitSeconds <= 0 {
		return q.Checkout(ctx, in.Body.Max, lease)
	}
	d.listen.Do(func() { d.listener = q.Consumer() })
	consumer := q.Consumer()
	defer consumer.Close()
	waiting, cancel := a.waitAtMost(ctx, in.Body.WaitSeconds)
	defer cancel()
	tasks, err := consumer.Checkout(waiting, in.Body.Max, lease)
	if waiting.Err() != nil && isContext(err) {
		return tasks, nil
	}
	return tasks, err
}

// release returns tasks to their queue whose response no one receives. If it fails, their leases expire.
func release(q *dbq.Queue, tasks []dbq.Task) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ss := make([]dbq.Settlement, len(tasks))
	for i, t := range tasks {
		ss[i] = dbq.Settlement{Lease: t.Lease, Outcome: dbq.Released(0)}
	}
	_, _ = q.SettleMany(ctx, ss)
}

// extend is a request to extend leases.
type extend struct {
	InQueue
	Body struct {
		LeaseSeconds float64     `json:"lease_seconds,omitempty" default:"30"`
		Leases       []Extension `json:"leases" minItems:"1" maxItems:"10000" nullable:"false"`
	}
}

// Extension is a lease to extend.
type Extension struct {
	Lease          string  `json:"lease"`
	Progress       *string `json:"progress,omitempty"`
	ProgressBase64 []byte  `json:"progress_base64,omitempty"`
}

// extended is the response to it.
type extended struct {
	Body struct {
		Leases []Extended `json:"leases" nullable:"false"`
	}
}

// Extended is the outcome for one lease.
type Extended struct {
	Lease   string   `json:"lease,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
}

func (a *API) extend(ctx context.Context, in *extend) (*extended, error) {
	d, _, err := a.open(ctx, auth.Work, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	var out extended
	out.Body.Leases = make([]Extended, len(in.Body.Leases))
	read, err := a.readLeases(ctx, d, in.Queue, len(in.Body.Leases), func(i int) string { return in.Body.Leases[i].Lease })
	if err != nil {
		return nil, err
	}
	var leases []dbq.Lease
	var at []int
	for i, l := range read.leases {
		if read.problems[i] != nil {
			out.Body.Leases[i].Problem = read.problems[i]
			continue
		}
		e := in.Body.Leases[i]
		if l.Progress = e.ProgressBase64; e.Progress != nil {
			l.Progress = []byte(*e.Progress)
		}
		leases, at = append(leases, l.Lease), append(at, i)
	}
	renewed, _, err := d.client.Queue(in.Queue).ExtendMany(ctx, leases, seconds(in.Body.LeaseSeconds))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	for n, l := range leases { // the renewed ones are in the same order
		i := at[n]
		if len(renewed) == 0 || renewed[0].Task != l.Task || renewed[0].Fence != l.Fence {
			out.Body.Leases[i].Problem = problemOf(dbq.ErrLeaseLost)
			continue
		}
		read.leases[i].Lease = renewed[0]
		d.workers.extended(read.leases[i])
		out.Body.Leases[i].Lease = sign(read.key, read.leases[i], now)
		renewed = renewed[1:]
	}
	return &out, nil
}

// settle is a request to end attempts.
type settle struct {
	InQueue
	Body struct {
		Settlements []Settlement `json:"settlements" minItems:"1" maxItems:"10000" nullable:"false"`
	}
}

// settled is the response to it.
type settled struct {
	Body struct {
		Settled []Settled `json:"settled" nullable:"false"`
	}
}

// Settled is the outcome for one lease.
type Settled struct {
	State   string   `json:"state,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
}

func (a *API) settle(ctx context.Context, in *settle) (*settled, error) {
	d, _, err := a.open(ctx, auth.Work, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	var out settled
	given := in.Body.Settlements
	out.Body.Settled = make([]Settled, len(given))
	read, err := a.readLeases(ctx, d, in.Queue, len(given), func(i int) string { return given[i].Lease })
	if err != nil {
		return nil, err
	}
	var ss []dbq.Settlement
	var at []int
	for i, l := range read.leases {
		outcome, p := given[i].outcome()
		if p != nil { // the request itself is wrong: nothing is settled
			return nil, p.in("settlements", i)
		}
		if read.problems[i] != nil {
			out.Body.Settled[i].Problem = read.problems[i]
			continue
		}
		if l.Progress = given[i].ProgressBase64; given[i].Progress != nil {
			l.Progress = []byte(*given[i].Progress)
		}
		ss, at = append(ss, dbq.Settlement{Lease: l.Lease, Outcome: outcome}), append(at, i)
	}
	done, err := d.settle(ctx, in.Queue, ss)
	if err != nil {
		return nil, err
	}
	for n, s := range done {
		i := at[n]
		if s.Err != nil {
			out.Body.Settled[i].Problem = problemOf(s.Err)
			continue
		}
		out.Body.Settled[i].State = stateName(s.State)
		d.ended(read.leases[i], ss[n].Outcome, s.State)
	}
	return &out, nil
}

// settle settles. One task may wait for another transaction that has locked it; many do not wait for one another.
func (d *database) settle(ctx context.Context, queue string, ss []dbq.Settlement) ([]dbq.Settled, error) {
	q := d.client.Queue(queue)
	done, err := q.SettleMany(ctx, ss)
	if err != nil || len(ss) != 1 || !errors.Is(done[0].Err, dbq.ErrLocked) {
		return done, err
	}
	for pause := 20 * time.Millisecond; errors.Is(done[0].Err, dbq.ErrLocked) && err == nil; pause *= 2 {
		select {
		case <-ctx.Done():
			return done, nil
		case <-time.After(min(pause, time.Second)):
		}
		done, err = q.SettleMany(ctx, ss)
	}
	return done, err
}
