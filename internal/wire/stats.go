package wire

import (
	"time"

	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/duration"
)

// Stats counts the tasks of one queue.
type Stats struct {
	admin.QueueStats
	OldestDue duration.Seconds `json:"oldest_due_seconds"`
}

// StatsOf returns the numbers of a queue as they are sent.
func StatsOf(q admin.QueueStats) Stats { return Stats{q, duration.Seconds(q.OldestDue)} }

// Verdict is why the tasks of a queue wait. See admin.Verdict.
type Verdict struct {
	admin.Verdict
	OldestDueSeconds duration.Seconds `json:"oldest_due_seconds"`
	NextStartSeconds duration.Seconds `json:"next_start_seconds,omitempty"`
	NextDueSeconds   duration.Seconds `json:"next_due_seconds,omitempty"`
	DrainSeconds     duration.Seconds `json:"drain_seconds,omitempty"`
}

// VerdictOf returns a verdict on a queue as the API describes it.
func VerdictOf(v admin.Verdict) Verdict {
	return Verdict{v, duration.Seconds(v.OldestDue), duration.Seconds(v.NextStart),
		duration.Seconds(v.NextDue), duration.Seconds(v.Drain)}
}

// Percentiles are percentiles of durations, in seconds.
type Percentiles struct {
	P50 duration.Seconds `json:"p50"`
	P95 duration.Seconds `json:"p95"`
	P99 duration.Seconds `json:"p99"`
}

// Point has the statistics of a queue for a period of time. See admin.Point.
type Point struct {
	At               time.Time         `json:"at"`
	Started          int64             `json:"started"`
	Completed        int64             `json:"completed"`
	Failed           int64             `json:"failed"`
	Poisoned         int64             `json:"poisoned"`
	Released         int64             `json:"released"`
	LatencySeconds   Percentiles       `json:"latency_seconds"`
	RunTimeSeconds   Percentiles       `json:"run_time_seconds"`
	Samples          int64             `json:"samples"` // without any, the following are null
	Enqueued         *int64            `json:"enqueued" nullable:"true"`
	Created          *int64            `json:"created" nullable:"true"`
	Processing       *int64            `json:"processing" nullable:"true"`
	Error            *int64            `json:"error" nullable:"true"`
	Poison           *int64            `json:"poison" nullable:"true"`
	Due              *int64            `json:"due" nullable:"true"`
	Parked           *int64            `json:"parked" nullable:"true"`
	OldestDueSeconds *duration.Seconds `json:"oldest_due_seconds" nullable:"true"`
}

// PointOf returns a point as the API describes it.
func PointOf(p admin.Point) Point {
	percentiles := func(of admin.Percentiles) Percentiles {
		return Percentiles{duration.Seconds(of.P50), duration.Seconds(of.P95), duration.Seconds(of.P99)}
	}
	out := Point{
		At: p.At, Started: p.Started, Completed: p.Completed, Failed: p.Failed, Poisoned: p.Poisoned,
		Released: p.Released, LatencySeconds: percentiles(p.Latency), RunTimeSeconds: percentiles(p.RunTime),
		Samples: p.Samples,
	}
	if p.Samples > 0 {
		oldest := duration.Seconds(p.OldestDue)
		out.Enqueued, out.Created, out.Processing, out.Error = &p.Enqueued, &p.Created, &p.Processing, &p.Error
		out.Poison, out.Due, out.Parked, out.OldestDueSeconds = &p.Poison, &p.Due, &p.Parked, &oldest
	}
	return out
}
