package admin

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/series"
	"github.com/dbq-go/dbq/internal/store"
)

// The maximum number of points of a series, of each queue of SeriesOf, and of all of them together.
const maxPoints, maxPointsOfEach, maxPointsOfAll = 10_000, 1_000, 100_000

// Percentiles of durations. Each is at most a quarter too high, or 64 microseconds, and never too low.
type Percentiles struct {
	P50, P95, P99 time.Duration
}

// Point has the statistics of a queue for a period of time. It has the counts that workers have reported;
// docs/statistics.md lists the events that they do not report.
type Point struct {
	At time.Time // when the period began, in UTC

	Started   int64 // attempts
	Completed int64 // tasks
	Failed    int64 // attempts that ended with an error
	Poisoned  int64 // tasks that workers moved to POISON
	Released  int64 // attempts that ended without an outcome
	// Latency is from when tasks were due until their attempts began, and RunTime is how long handlers took.
	Latency, RunTime Percentiles

	// Samples is how many minutes of the period were sampled, by one of all workers and servers. The following numbers
	// are from these minutes. They are unknown, and zero, if there is none.
	Samples int64
	// Enqueued is the number of tasks that were enqueued, an estimate if there were more than 50,000 of all queues in a
	// minute.
	Enqueued int64
	// Created and the fields beside it are the highest numbers of tasks that were sampled: by state, those that were
	// due and those that were parked. Each is at most 10,000, or less if more than 10 queues have tasks, which stands
	// for that many or more: see docs/statistics.md.
	Created, Processing, Error, Poison, Due, Parked int64
	// OldestDue is the highest lag that was sampled.
	OldestDue time.Duration
}

// QueueSeries has the points of one queue, in order.
type QueueSeries struct {
	Queue  string
	Points []Point
}

// Series returns the statistics of a queue over time: a point for each period from the one that includes from to the
// one before to, even where nothing was counted. A period is a multiple of a minute, and points begin at multiples of
// it since 1970 in UTC. A period of 0 is chosen to suit the time: whole minutes, hours or days, for about 60 points. A
// series has at most 10,000 points.
//
// Minutes are kept for two days, hours for 60 days and days for two years. Periods that are not whole hours are added
// up from minutes, and those that are not whole days from hours, so they have nothing from before. Workers report a
// minute soon after it has ended, or when they stop.
func (a *Admin) Series(ctx context.Context, queue string, from, to time.Time, period time.Duration) ([]Point, error) {
	err := bounds.QueueName(queue)
	var all store.Series
	if err == nil {
		all, period, err = a.series(ctx, queue, from, to, period, maxPoints)
	}
	if err != nil {
		return nil, a.wrap("series", queue, err)
	}
	return points(all.Periods, all.Samples, from, to, period), nil
}

// SeriesOf returns the series of each given queue in which anything was counted, by name. Without queues it returns the
// series of all queues. Each has at most 1,000 points, and all together at most 100,000. The cost does not grow with
// the number of tasks.
func (a *Admin) SeriesOf(ctx context.Context, queues []string, from, to time.Time, period time.Duration) (
	[]QueueSeries, error) {
	queues = slices.Clone(queues)
	slices.Sort(queues)
	queues = slices.Compact(queues)
	for _, queue := range queues {
		if err := bounds.QueueName(queue); err != nil {
			return nil, a.wrap("series", "", err)
		}
	}
	if len(queues) == 0 {
		queues = []string{""} // all
	}
	var out []QueueSeries
	total := 0
	for _, queue := range queues {
		read, period, err := a.series(ctx, queue, from, to, period, maxPointsOfEach)
		if err != nil {
			return nil, a.wrap("series", "", err)
		}
		for all, n := read.Periods, 0; len(all) > 0; all, n = all[n:], 0 {
			for n < len(all) && all[n].Queue == all[0].Queue {
				n++
			}
			q := QueueSeries{all[0].Queue, points(all[:n], read.Samples, from, to, period)}
			if total += len(q.Points); total > maxPointsOfAll {
				return nil, a.wrap("series", "", fmt.Errorf("%w: a series of more than %d points of all queues; "+
					"take one queue or a longer period", dbq.ErrOption, maxPointsOfAll))
			}
			out = append(out, q)
		}
	}
	return out, nil
}

// series returns the series of one queue, or of all if queue is empty, and the length of its periods.
func (a *Admin) series(ctx context.Context, queue string, from, to time.Time, period time.Duration, most int) (
	none store.Series, _ time.Duration, _ error) {
	if period == 0 {
		period = periodFor(to.Sub(from))
	}
	switch {
	case period < time.Minute || period%time.Minute != 0:
		return none, 0, fmt.Errorf("%w: a period of %v, it must be a multiple of a minute", dbq.ErrOption, period)
	case !from.Before(to) || from.Unix() < 0 || bounds.Time(to) != nil || to.Sub(from) == math.MaxInt64: // Sub's longest
		return none, 0, fmt.Errorf("%w: a series from %v to %v", dbq.ErrOption, from, to)
	case to.Sub(from)/period > time.Duration(most-2): // the first and the last period may be parts
		return none, 0, fmt.Errorf("%w: a series of more than %d points; take a longer period", dbq.ErrOption, most)
	}
	all, err := a.store.Series(ctx, queue, from, to, period)
	return all, period, err
}

// periodFor returns a period for about 60 points: whole minutes, hours or days.
func periodFor(over time.Duration) time.Duration {
	unit := time.Minute
	for _, longer := range []time.Duration{time.Hour, 24 * time.Hour} {
		if over > 48*longer {
			unit = longer
		}
	}
	return max((over/60+unit-1)/unit, 1) * unit
}

// points returns a point for each period. ps are in order, and samples are as in store.Series.
func points(ps []series.Period, samples map[int64]int64, from, to time.Time, period time.Duration) (out []Point) {
	length := period.Microseconds()
	for at := from.UnixMicro() / length * length; at < to.UnixMicro(); at += length {
		p := &series.Period{Since: at}
		if len(ps) > 0 && ps[0].Since == at {
			p, ps = &ps[0], ps[1:]
		}
		out = append(out, point(p, samples[at]))
	}
	return out
}

func point(p *series.Period, samples int64) Point {
	percentiles := func(h series.Histogram) Percentiles {
		return Percentiles{h.Percentile(50), h.Percentile(95), h.Percentile(99)}
	}
	return Point{
		At: time.UnixMicro(p.Since).UTC(), Started: p.Started, Completed: p.Completed, Failed: p.Failed,
		Poisoned: p.Poisoned, Released: p.Released, Latency: percentiles(p.Latency), RunTime: percentiles(p.RunTime),
		Samples: samples, Enqueued: p.Enqueued,
		Created: p.Created, Processing: p.Processing, Error: p.Error, Poison: p.Poison, Due: p.Due, Parked: p.Parked,
		OldestDue: time.Duration(p.OldestDue) * time.Microsecond,
	}
}
