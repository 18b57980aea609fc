package api

import (
	"context"
	"time"

	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
)

// Percentiles are percentiles of durations, in seconds.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// Point has the statistics of a queue for a period of time. See admin.Point.
type Point struct {
	At               time.Time   `json:"at"`
	Started          int64       `json:"started"`
	Completed        int64       `json:"completed"`
	Failed           int64       `json:"failed"`
	Poisoned         int64       `json:"poisoned"`
	Released         int64       `json:"released"`
	LatencySeconds   Percentiles `json:"latency_seconds"`
	RunTimeSeconds   Percentiles `json:"run_time_seconds"`
	Samples          int64       `json:"samples"` // without any, the following are null
	Enqueued         *int64      `json:"enqueued" nullable:"true"`
	Created          *int64      `json:"created" nullable:"true"`
	Processing       *int64      `json:"processing" nullable:"true"`
	Error            *int64      `json:"error" nullable:"true"`
	Poison           *int64      `json:"poison" nullable:"true"`
	Due              *int64      `json:"due" nullable:"true"`
	Parked           *int64      `json:"parked" nullable:"true"`
	OldestDueSeconds *float64    `json:"oldest_due_seconds" nullable:"true"`
}

// PointOf returns a point as the API describes it.
func PointOf(p admin.Point) Point {
	percentiles := func(of admin.Percentiles) Percentiles {
		return Percentiles{inSeconds(of.P50), inSeconds(of.P95), inSeconds(of.P99)}
	}
	out := Point{
		At: p.At, Started: p.Started, Completed: p.Completed, Failed: p.Failed, Poisoned: p.Poisoned,
		Released: p.Released, LatencySeconds: percentiles(p.Latency), RunTimeSeconds: percentiles(p.RunTime),
		Samples: p.Samples,
	}
	if p.Samples > 0 {
		oldest := inSeconds(p.OldestDue)
		out.Enqueued, out.Created, out.Processing, out.Error = &p.Enqueued, &p.Created, &p.Processing, &p.Error
		out.Poison, out.Due, out.Parked, out.OldestDueSeconds = &p.Poison, &p.Due, &p.Parked, &oldest
	}
	return out
}

// Series has the points of one queue, in order.
type Series struct {
	Queue  string  `json:"queue"`
	Points []Point `json:"points" nullable:"false"`
}

// readSeries is a request for the statistics of queues over time.
type readSeries struct {
	Database    string    `path:"database"`
	Queue       string    `query:"queue"`
	From        time.Time `query:"from"`
	To          time.Time `query:"to"`
	StepSeconds int64     `query:"step_seconds" minimum:"60" maximum:"315360000" multipleOf:"60"`
}

// gotSeries is its response.
type gotSeries struct {
	Body struct {
		Queues []Series `json:"queues" nullable:"false"`
	}
}

func (a *API) series(ctx context.Context, in *readSeries) (*gotSeries, error) {
	read := a.anyQueue // a caller sees its own queues of all
	if in.Queue != "" {
		read = func(ctx context.Context, action auth.Action, name string) (*database, auth.Principal, error) {
			return a.open(ctx, action, name, in.Queue)
		}
	}
	d, p, err := read(ctx, auth.Read, in.Database)
	if err != nil {
		return nil, err
	}
	if in.To.IsZero() {
		if in.To, err = d.client.Now(ctx); err != nil {
			return nil, err
		}
	}
	if in.From.IsZero() {
		in.From = in.To.Add(-time.Hour)
	}
	if !in.From.Before(in.To) {
		return nil, badRequest.problem(Field{"query.from", "it is not before to"})
	}
	queues, step := make([]admin.QueueSeries, 1), time.Duration(in.StepSeconds)*time.Second
	switch {
	case in.Queue != "":
		queues[0].Queue = in.Queue
		queues[0].Points, err = d.admin.Series(ctx, in.Queue, in.From, in.To, step)
	case len(p.Queues) > 0:
		queues, err = d.admin.SeriesOf(ctx, p.Queues, in.From, in.To, step)
	default:
		queues, err = d.admin.SeriesOfAll(ctx, in.From, in.To, step)
	}
	if err != nil {
		return nil, err
	}
	var out gotSeries
	out.Body.Queues = []Series{}
	for _, q := range queues {
		s := Series{q.Queue, make([]Point, len(q.Points))}
		for i, point := range q.Points {
			s.Points[i] = PointOf(point)
		}
		out.Body.Queues = append(out.Body.Queues, s)
	}
	return &out, nil
}
