package sample

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/series"
	"github.com/dbq-go/dbq/internal/store"
)

// load is the usual load of a queue: tasks in a minute, and how long they wait and run.
type load struct {
	queue          string
	perMinute      float64
	fails          float64 // the share of attempts
	poisons        float64 // the share of tasks
	latency, takes time.Duration
}

var loads = []load{
	{mail, 110, .03, .002, 40 * time.Millisecond, 140 * time.Millisecond},
	{orders, 70, .01, .004, 90 * time.Millisecond, 700 * time.Millisecond},
	{images, 15, .02, .01, 2 * time.Second, 5 * time.Second},
	{webhooks, 60, .08, 0, 400 * time.Millisecond, 220 * time.Millisecond},
}

// statistics adds the statistics of a week: a report for each minute of the last hour or so, for each quarter of an
// hour of the last day, and for each hour before.
func (f *filler) statistics(ctx context.Context) error {
	to := access.Of(f.c).Store
	end := f.began.Truncate(time.Minute)
	outage := f.began.Add(-7*time.Hour).Unix() / 3600 % 24 // the hour of each day in which much fails
	for at := end.Add(-7 * 24 * time.Hour).Truncate(time.Hour); at.Before(end); {
		step := time.Minute
		switch ago := end.Sub(at); {
		case ago > 25*time.Hour:
			step = time.Hour
		case ago > 90*time.Minute:
			step = 15 * time.Minute
		}
		rows := []series.Period{store.Sampled(at.UnixMicro())}
		for _, l := range loads {
			rows = append(rows, series.Period{
				Queue: l.queue, Since: at.UnixMicro(), Counts: l.counts(at, step, outage), Depth: l.depth(at, end, outage),
			})
		}
		if err := to.AddReports(ctx, "sample", rows); err != nil {
			return err
		}
		at = at.Add(step)
	}
	return nil
}

// busy is the load of a time in comparison to the usual one: more by day than by night.
func busy(at time.Time) float64 {
	day := 2 * math.Pi * float64(at.Unix()%86400) / 86400
	return (1 - .6*math.Cos(day)) * (.9 + .2*rand.Float64())
}

// in reports whether a time is in an hour of the day.
func in(at time.Time, hour int64) bool { return at.Unix()/3600%24 == hour }

// depth invents the tasks of a sample: those that run, by the usual run time, a backlog that an outage leaves, and the
// one with which the shop opens.
func (l load) depth(at, end time.Time, outage int64) series.Depth {
	perMinute := l.perMinute * busy(at)
	due := perMinute*l.latency.Minutes() + 2*rand.Float64()
	if in(at, outage) {
		due += perMinute * (1 + float64(at.Minute())/15)
	} else if in(at.Add(-time.Hour), outage) {
		due += perMinute * float64(60-at.Minute()) / 15
	}
	if left := end.Sub(at).Minutes(); l.queue == webhooks && left <= 15 {
		due += backlog * (15 - left) / 15
	}
	return series.Depth{Due: int64(due), Processing: int64(perMinute*l.takes.Minutes() + rand.Float64())}
}

// counts invents the events of some time.
func (l load) counts(at time.Time, over time.Duration, outage int64) series.Counts {
	n := int64(l.perMinute * over.Minutes() * busy(at))
	share := func(s float64) int64 { return int64(float64(n)*s*2*rand.Float64() + rand.Float64()) }
	c := series.Counts{Enqueued: n + n/20 - share(.05), Failed: share(l.fails), Poisoned: share(l.poisons)}
	if in(at, outage) {
		c.Failed += n / 4
	}
	c.Completed = n - c.Poisoned
	c.Started = n + c.Failed
	var t series.Tally
	for range min(c.Started, 40) {
		t.Latency.Record(around(l.latency))
		t.RunTime.Record(around(l.takes))
	}
	times, _ := t.Since()
	c.Latency, c.RunTime = times.Latency, times.RunTime
	return c
}

// around returns a duration around a usual one, sometimes much longer.
func around(usual time.Duration) time.Duration {
	return time.Duration(float64(usual) * math.Exp(rand.NormFloat64()*.6))
}
