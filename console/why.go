package console

import (
	"context"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
)

// verdictFor is how long visitors share a verdict that is based on one count of the tasks.
const verdictFor = 10 * time.Second

// verdictKey selects the verdicts that visitors share.
type verdictKey struct {
	queue   string
	counted time.Time // of the count that all visitors share, or zero
	after   time.Time // the count of this queue alone is newer than this
}

// why returns why the tasks of a queue wait. The caller has checked that the user may read the queue. The verdict has
// the numbers of the overview, so that a page does not show two counts, if these are not old, and newer than a time.
func (v *visit) why(queue string, after time.Time) (admin.Verdict, error) {
	const clocks = 5 * time.Second // by which those of server and database may differ
	key := verdictKey{queue: queue, after: after}
	c := v.db.counted.last()
	i := slices.IndexFunc(c.Stats, func(s admin.QueueStats) bool { return s.Queue == queue })
	if i >= 0 && time.Since(c.At) < countOld && c.At.After(after.Add(clocks)) {
		key.counted, key.after = c.At, time.Time{}
	}
	return v.db.verdicts.get(v.ctx(), key, func(ctx context.Context) (admin.Verdict, error) {
		l, err := v.db.listed.get(ctx, v.db.list)
		if err != nil {
			return admin.Verdict{}, err
		}
		f := admin.Facts{Workers: l.Workers, Failing: c.Failing[queue]}
		for _, q := range l.Queues {
			if q.Queue == queue {
				f.Info = q
			}
		}
		if key.counted.IsZero() {
			f.Stats, err = v.db.admin.StatsOf(ctx, queue)
		} else {
			f.Stats = c.Stats[i]
		}
		if err != nil {
			return admin.Verdict{}, err
		}
		return v.db.admin.WhyOf(ctx, f)
	})
}

// whyTask returns why a task waits. Its cause is "" if the task does not wait.
func (v *visit) whyTask(t dbq.Task) (admin.Verdict, error) {
	if t.State != dbq.StateCreated && t.State != dbq.StateError {
		return admin.Verdict{}, nil
	}
	now, err := v.db.client.Now(v.ctx()) // a task is due by the database's clock
	if err != nil {
		return admin.Verdict{}, err
	}
	waits := t.Updated
	if t.Due.Before(now) {
		waits = later(waits, t.Due)
	}
	queue, err := v.why(t.Queue, waits) // which an older count does not have
	return queue.ForTask(t, now), err
}

// causeLook is how the line that shows a verdict looks: its variant, a class of the style sheet, and its icon.
type causeLook struct{ Tone, Icon string }

var causeLooks = map[admin.Cause]causeLook{
	admin.CausePaused:        {"warn", "pause"},
	admin.CauseNoWorker:      {"bad", "dead"},
	admin.CauseWorkersPaused: {"warn", "pause"},
	admin.CauseRate:          {"warn", "gauge"},
	admin.CauseConcurrency:   {"warn", "gauge"},
	admin.CauseKeys:          {"warn", "key"},
	admin.CauseBusy:          {"warn", "workers"},
	admin.CauseNoHandler:     {"warn", "warn"},
	admin.CauseNotDue:        {"", "clock"},
	admin.CauseStarting:      {"good", "done"},
	admin.CauseUnknown:       {"bad", "warn"},
	admin.CauseEmpty:         {"good", "done"},
	admin.CauseParked:        {"warn", "park"},
	admin.CauseSteps:         {"", "workflows"},
}
