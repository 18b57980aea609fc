package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/schedule"
	"github.com/google/uuid"
)

// The steps of the cases of schedules. No case waits for the hour: it sets a schedule back instead.

// putSchedule puts a schedule of the queue of its name.
func (t *test) putSchedule(s *schedule.Schedules, d schedule.Schedule) {
	d.Queue = d.Name
	t.must(s.Put(t.ctx, d))
}

func (t *test) schedule(s *schedule.Schedules, name string) schedule.Info {
	i, err := s.Get(t.ctx, name)
	t.must(err)
	return i
}

// setBack sets every time of a schedule back, as if it had been put, and had last fired, that much earlier. Use odd
// seconds, so that no time comes twice.
func (t *test) setBack(c *dbq.Client, name string, by time.Duration) {
	t.must(access.Of(c).Store.UpdateKV(t.ctx, "schedule", name,
		func(old store.Record, exists bool) (string, time.Duration, error) {
			if !exists {
				return "", 0, fmt.Errorf("there is no schedule %q", name)
			}
			var v map[string]any
			if err := json.Unmarshal([]byte(old.Value), &v); err != nil {
				return "", 0, err
			}
			var next time.Time
			for _, field := range []string{"start", "at", "next", "last"} {
				text, _ := v[field].(string)
				at, err := time.Parse(time.RFC3339Nano, text)
				if err != nil {
					continue // it has none
				}
				at = at.Add(-by)
				if v[field] = at.Format(time.RFC3339Nano); field == "next" {
					next = at
				}
			}
			value, err := json.Marshal(v)
			if next.IsZero() || v["pause"] != nil {
				return string(value), 0, err
			}
			return string(value), max(next.Sub(time.UnixMicro(old.Now)), time.Microsecond), err
		}))
}

// fireDue fires what is due, until nothing is. A schedule of its own, which is due too, proves that schedules that are
// not due have had their turn.
func (t *test) fireDue(c *dbq.Client) {
	s := schedule.New(c)
	own := fmt.Sprintf("own %d", subjects.Add(1))
	t.putSchedule(s, schedule.Schedule{Name: own, Every: time.Hour})
	t.setBack(c, own, time.Hour+time.Second)
	t.firing(s, func() bool {
		all, err := s.List(t.ctx)
		t.must(err)
		now := t.now(c)
		return !slices.ContainsFunc(all, func(i schedule.Info) bool { return !i.Next.IsZero() && !i.Next.After(now) })
	})
	if i := t.schedule(s, own); i.Last.IsZero() {
		t.Fatalf("a schedule that was due has no task: %+v", i)
	}
	t.must(s.Delete(t.ctx, own))
}

// firing runs schedules until something is so.
func (t *test) firing(s *schedule.Schedules, done func() bool) {
	ctx, stop := context.WithCancel(t.ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.eventually("the schedules fire", done)
	stop()
	t.must(<-ended)
}

// moved reports whether a schedule has moved to a time that has not passed.
func (t *test) moved(c *dbq.Client, name string) bool {
	return t.schedule(schedule.New(c), name).Next.After(t.now(c))
}

// scheduledTimes are the times of the tasks of a queue that schedules have enqueued, in order. Each must have the
// reference of its time.
func (t *test) scheduledTimes(c *dbq.Client, queue string) (times []time.Time) {
	for _, task := range t.list(c, admin.Filter{Queue: queue}) {
		if task.Reference == "" {
			continue // RunNow's
		}
		text := task.Headers[schedule.HeaderTime]
		at, err := time.Parse(time.RFC3339Nano, text)
		t.must(err)
		name := task.Headers[schedule.HeaderName]
		if want := "schedule:" + name + ":" + text; name != queue || task.Reference != want {
			t.Errorf("the task of %q at %s has the reference %q, want %q", name, text, task.Reference, want)
		}
		times = append(times, at)
	}
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// wantTimes records a failure unless a queue has the tasks of these times, and each once.
func (t *test) wantTimes(when string, c *dbq.Client, queue string, want ...time.Time) {
	if got := t.scheduledTimes(c, queue); !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("%s: %q has the tasks of %v, want %v", when, queue, got, want)
	}
}

// hours returns n times, an hour apart.
func hours(from time.Time, n int) (out []time.Time) {
	for k := range n {
		out = append(out, from.Add(time.Duration(k)*time.Hour))
	}
	return out
}

// runsOf are the tasks of RunNow that a schedule remembers.
func (t *test) runsOf(c *dbq.Client, name string) []uuid.UUID {
	r, exists, err := access.Of(c).Store.GetKV(t.ctx, "schedule", name)
	t.must(err)
	var v struct {
		Runs []uuid.UUID `json:"runs"`
	}
	if exists {
		t.must(json.Unmarshal([]byte(r.Value), &v))
	}
	return sortedIDs(v.Runs)
}
