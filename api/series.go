package api

import (
	"context"
	"time"

	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/wire"
)

// Series has the points of one queue, in order.
type Series struct {
	Queue  string       `json:"queue"`
	Points []wire.Point `json:"points" nullable:"false"`
}

// readSeries is a request for the statistics of queues over time.
type readSeries struct {
	Database      string    `path:"database"`
	Queue         string    `query:"queue"`
	From          time.Time `query:"from"`
	To            time.Time `query:"to"`
	PeriodSeconds int64     `query:"period_seconds" minimum:"60" maximum:"315360000" multipleOf:"60"`
}

// gotSeries is its response.
type gotSeries struct {
	Body struct {
		Queues []Series `json:"queues" nullable:"false"`
	}
}

func (a *API) series(ctx context.Context, in *readSeries) (*gotSeries, error) {
	d, p, err := a.filtered(ctx, in.Database, in.Queue)
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
		return nil, wire.BadRequest.Problem(wire.At("query.from", "it is not before to"))
	}
	queues, period := []admin.QueueSeries{{Queue: in.Queue}}, time.Duration(in.PeriodSeconds)*time.Second
	if in.Queue != "" {
		queues[0].Points, err = d.admin.Series(ctx, in.Queue, in.From, in.To, period)
	} else {
		queues, err = d.admin.SeriesOf(ctx, p.Queues, in.From, in.To, period) // without queues the caller sees all
	}
	if err != nil {
		return nil, err
	}
	var out gotSeries
	out.Body.Queues = []Series{}
	for _, q := range queues {
		s := Series{q.Queue, make([]wire.Point, len(q.Points))}
		for i, point := range q.Points {
			s.Points[i] = wire.PointOf(point)
		}
		out.Body.Queues = append(out.Body.Queues, s)
	}
	return &out, nil
}
