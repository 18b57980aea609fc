package admin

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Failing is a queue whose attempts fail more often than usual.
type Failing struct {
	Queue string
	// Failed counts the attempts that failed in the last 15 minutes, and Ended those that failed or completed their task.
	Failed, Ended int64
	// FailedBefore and EndedBefore count those of the day before.
	FailedBefore, EndedBefore int64
}

// A queue fails more often than usual if at least failingLeast attempts, and a share of at least failingShare, have
// failed in failingOver, and if that share is failingTimes as high as in the day before.
const (
	failingOver  = 15 * time.Minute
	failingLeast = 10
	failingShare = .1
	failingTimes = 3
)

// Failing returns those of the given queues whose attempts have failed more often in the last 15 minutes than in the
// day before, by name. Without queues it examines all. It reads only the statistics, as SeriesOf does, so it never
// returns queues whose settings turn these off.
func (a *Admin) Failing(ctx context.Context, queues ...string) (out []Failing, err error) {
	now, err := a.client.Now(ctx)
	if err != nil {
		return nil, err
	}
	to := now.Add(-reportsAfter).Truncate(time.Minute)
	lately, err := a.SeriesOf(ctx, queues, to.Add(-failingOver), to, time.Minute)
	if err != nil {
		return nil, err
	}
	for _, q := range lately {
		f := Failing{Queue: q.Queue}
		if f.Failed, f.Ended = failures(q.Points); f.Failed >= failingLeast && f.share() >= failingShare {
			out = append(out, f)
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	names := make([]string, len(out))
	for i := range out {
		names[i] = out[i].Queue
	}
	day, err := a.SeriesOf(ctx, names, to.Add(-24*time.Hour), to, time.Hour)
	if err != nil {
		return nil, err
	}
	candidates, out := out, nil
	for _, f := range candidates {
		for _, q := range day {
			if q.Queue == f.Queue {
				failed, ended := failures(q.Points)
				f.FailedBefore, f.EndedBefore = max(failed-f.Failed, 0), max(ended-f.Ended, 0)
			}
		}
		if f.EndedBefore == 0 || f.share() >= failingTimes*float64(f.FailedBefore)/float64(f.EndedBefore) {
			out = append(out, f)
		}
	}
	return out, nil
}

// failures counts the attempts of a series that failed, and those that failed or completed their task.
func failures(ps []Point) (failed, ended int64) {
	for _, p := range ps {
		failed, ended = failed+p.Failed, ended+p.Failed+p.Completed
	}
	return failed, ended
}

func (f Failing) share() float64 { return float64(f.Failed) / float64(f.Ended) }

// String compares the shares: 31% of 200 attempts failed in the last 15 minutes, and 2% in the day before.
func (f Failing) String() string {
	text := fmt.Sprintf("%.0f%% of %s attempts failed in the last 15 minutes", 100*f.share(), grouped(f.Ended))
	if f.EndedBefore > 0 {
		text += fmt.Sprintf(", and %.0f%% in the day before", math.Ceil(100*float64(f.FailedBefore)/float64(f.EndedBefore)))
	}
	return text + "."
}
