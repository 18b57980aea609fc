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
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/internal/wire"
)

// checkout is a request for tasks.
type checkout struct {
	InQueue
	Body wire.Checkout
}

// checkedOut is the response to a checkout.
type checkedOut struct {
	Body CheckedOutBody
}

// CheckedOutBody is its body.
type CheckedOutBody struct {
	Tasks []wire.LeasedTask `json:"tasks" nullable:"false"`
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
	d, _, err := a.open(ctx, auth.Work, in.Database, in.Queue)
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
	} else if p := requestOf(ctx).reservation.resize(sizeOf(tasks)); p != nil {
		err = p
	}
	if err != nil {
		release(d.client.Queue(in.Queue), tasks)
		return nil, err
	}
	var out checkedOut
	out.Body.Tasks = make([]wire.LeasedTask, len(tasks))
	now := time.Now()
	for i, t := range tasks {
		lease := held{t.Lease, in.Body.Worker, now}
		out.Body.Tasks[i] = wire.LeasedTask{
			Task: wire.TaskOf(t), Lease: sign(key, lease, now), Waited: duration.Seconds(t.Waited),
		}
	}
	received = tasks
	d.started(in.Queue, tasks)
	return &out, nil
}

// lease checks tasks out, and waits for them if the caller wants to.
func (a *API) lease(ctx context.Context, d *database, q *dbq.Queue, in *checkout) ([]dbq.Task, error) {
	lease := duration.FromSeconds(in.Body.LeaseSeconds)
	if in.Body.Wait <= 0 {
		return q.Checkout(ctx, in.Body.Max, lease)
	}
	d.listen.Do(func() { d.listener = q.Consumer() })
	consumer := q.Consumer()
	defer consumer.Close()
	waiting, cancel := a.waitAtMost(ctx, time.Duration(in.Body.Wait))
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
		LeaseSeconds float64          `json:"lease_seconds,omitempty" default:"30"`
		Leases       []wire.Extension `json:"leases" minItems:"1" maxItems:"10000" nullable:"false"`
	}
}

// extended is the response to it.
type extended struct {
	Body struct {
		Leases []wire.Extended `json:"leases" nullable:"false"`
	}
}

func (a *API) extend(ctx context.Context, in *extend) (*extended, error) {
	d, _, err := a.open(ctx, auth.Work, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	var out extended
	out.Body.Leases = make([]wire.Extended, len(in.Body.Leases))
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
		l.Progress = in.Body.Leases[i].Bytes()
		leases, at = append(leases, l.Lease), append(at, i)
	}
	renewed, _, err := d.client.Queue(in.Queue).ExtendMany(ctx, leases, duration.FromSeconds(in.Body.LeaseSeconds))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	for n, l := range leases { // the renewed ones are in the same order
		i := at[n]
		if len(renewed) == 0 || renewed[0].TaskID != l.TaskID || renewed[0].Fence != l.Fence {
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
		Settlements []wire.Settlement `json:"settlements" minItems:"1" maxItems:"10000" nullable:"false"`
	}
}

// settled is the response to it.
type settled struct {
	Body struct {
		Settled []wire.Settled `json:"settled" nullable:"false"`
	}
}

func (a *API) settle(ctx context.Context, in *settle) (*settled, error) {
	d, _, err := a.open(ctx, auth.Work, in.Database, in.Queue)
	if err != nil {
		return nil, err
	}
	var out settled
	given := in.Body.Settlements
	out.Body.Settled = make([]wire.Settled, len(given))
	read, err := a.readLeases(ctx, d, in.Queue, len(given), func(i int) string { return given[i].Lease })
	if err != nil {
		return nil, err
	}
	var ss []dbq.Settlement
	var at []int
	for i, l := range read.leases {
		outcome, p := given[i].Of()
		if p != nil { // the request itself is wrong: nothing is settled
			return nil, p.In("settlements", i)
		}
		if read.problems[i] != nil {
			out.Body.Settled[i].Problem = read.problems[i]
			continue
		}
		l.Progress = given[i].Bytes()
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
		out.Body.Settled[i].State = &s.State
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
