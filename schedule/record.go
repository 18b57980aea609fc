package schedule

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// namespace is the namespace of the schedules' key/value records. A record expires approximately when its schedule
// fires next, so a search for expired records finds the due schedules. The value has the exact time.
const namespace = store.NamespaceSchedules

// value is the JSON of a record.
type value struct {
	Cron       string           `json:"cron,omitempty"`
	Zone       string           `json:"zone,omitempty"`
	Every      duration.Seconds `json:"every_seconds,omitempty"`
	At         time.Time        `json:"at,omitzero"`
	Queue      string           `json:"queue"`
	Task       task             `json:"task"`
	CatchUp    int              `json:"catch_up,omitempty"`
	NoOverlap  bool             `json:"no_overlap,omitempty"`
	Jitter     duration.Seconds `json:"jitter_seconds,omitempty"`
	Owner      string           `json:"owner,omitempty"`
	Start      time.Time        `json:"start"` // when the schedule was put: Every counts from here
	Next       time.Time        `json:"next,omitzero"`
	Last       time.Time        `json:"last,omitzero"`
	LastTaskID *uuid.UUID       `json:"last_task_id,omitempty"`
	// Runs are the last tasks of RunNow, up to maxRuns, the oldest first. Those that have ended may be left out.
	Runs    []uuid.UUID `json:"runs,omitempty"`
	Problem string      `json:"problem,omitempty"`
	Pause   *pause      `json:"pause,omitempty"`
}

// task is a dbq.NewTask without the fields that each time sets.
type task struct {
	Kind        string            `json:"kind,omitempty"`
	Key         string            `json:"key,omitempty"`
	Payload     []byte            `json:"payload,omitempty"`
	Empty       bool              `json:"empty,omitempty"` // the payload is empty, and not nil
	Priority    int               `json:"priority,omitempty"`
	Delay       duration.Seconds  `json:"delay_seconds,omitempty"`
	MaxAttempts int               `json:"max_attempts,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
}

type pause struct {
	Since  time.Time `json:"since"`
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
}

func valueOf(d Schedule) value {
	t := d.Task
	return value{
		Cron: d.Cron, Zone: d.Zone, Every: whole(d.Every), At: d.At.UTC(), Queue: d.Queue,
		Task: task{
			Kind: t.Kind, Key: t.Key, Payload: t.Payload, Empty: t.Payload != nil && len(t.Payload) == 0, Priority: t.Priority,
			Delay: whole(t.Delay), MaxAttempts: t.MaxAttempts, Headers: t.Headers,
		},
		CatchUp: d.CatchUp, NoOverlap: d.NoOverlap, Jitter: whole(d.Jitter),
	}
}

// whole returns whole microseconds, as JSON has them.
func whole(d time.Duration) duration.Seconds { return duration.Seconds(d.Truncate(time.Microsecond)) }

// schedule returns the schedule that the value defines.
func (v *value) schedule(name string) Schedule {
	payload := v.Task.Payload
	if v.Task.Empty {
		payload = []byte{}
	}
	return Schedule{
		Name: name, Cron: v.Cron, Zone: v.Zone, Every: time.Duration(v.Every), At: v.At, Queue: v.Queue,
		Task: dbq.NewTask{
			Kind: v.Task.Kind, Key: v.Task.Key, Payload: payload, Priority: v.Task.Priority,
			Delay: time.Duration(v.Task.Delay), MaxAttempts: v.Task.MaxAttempts, Headers: v.Task.Headers,
		},
		CatchUp: v.CatchUp, NoOverlap: v.NoOverlap, Jitter: time.Duration(v.Jitter),
	}
}

// sameTimes reports whether two values fire at the same times, so that a new definition can continue from the old
// one.
func (v *value) sameTimes(w value) bool {
	return v.Cron == w.Cron && v.Zone == w.Zone && v.Every == w.Every && v.At.Equal(w.At)
}

// equal reports whether two schedules have equal definitions.
func equal(x, y Schedule) bool {
	a, errA := json.Marshal(valueOf(x))
	b, errB := json.Marshal(valueOf(y))
	return errA == nil && errB == nil && string(a) == string(b)
}

// maxDefinition limits the JSON of a schedule's definition, which leaves room for its status and a pause.
const maxDefinition, maxProblem = 3000, 200

// fits refuses a definition that is too large.
func (v *value) fits() error {
	b, err := json.Marshal(valueOf(v.schedule("")))
	if err == nil && len(b) > maxDefinition {
		err = invalid("Task.Payload", fmt.Errorf("%w: it has %d bytes with its payload; the maximum is %d",
			ErrDefinition, len(b), maxDefinition))
	}
	return err
}

// keep copies the status of old.
func (v *value) keep(old value) {
	if v.Owner == "" {
		v.Owner = old.Owner
	}
	v.Last, v.LastTaskID, v.Runs, v.Problem, v.Pause = old.Last, old.LastTaskID, old.Runs, old.Problem, old.Pause
	if v.sameTimes(old) {
		v.Start, v.Next = old.Start, old.Next
	}
}

func parse(r store.Record) (v value, err error) {
	if err := json.Unmarshal([]byte(r.Value), &v); err != nil {
		return v, fmt.Errorf("schedule %q was stored by another version of dbq: %w", r.Name, err)
	}
	return v, nil
}

// encode returns the record's value, and how long after now it expires. If a large definition and a long reason for a
// pause leave no room for all of Runs, the oldest ones are left out.
func (v value) encode(now time.Time) (text string, ttl time.Duration, err error) {
	b, err := json.Marshal(v)
	for err == nil && len(b) > store.MaxValue && len(v.Runs) > 0 {
		v.Runs = v.Runs[1:]
		b, err = json.Marshal(v)
	}
	if err == nil && !v.Next.IsZero() && v.Pause == nil {
		ttl = max(v.Next.Sub(now), time.Microsecond)
	}
	return string(b), ttl, err
}

func (v *value) info(r store.Record) Info {
	out := Info{
		Schedule: v.schedule(r.Name), Owner: v.Owner, Next: v.Next.UTC(), Last: v.Last, Problem: v.Problem,
		Updated: time.UnixMicro(r.Updated).UTC(), Revision: v.revision(),
		start: v.Start,
	}
	if v.LastTaskID != nil {
		out.LastTaskID = *v.LastTaskID
	}
	if p := v.Pause; p != nil {
		out.Paused, out.Since, out.By, out.Reason, out.Next = true, p.Since, p.By, p.Reason, time.Time{}
	}
	return out
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// nowOf returns the database's time when a record was read.
func nowOf(r store.Record) time.Time { return time.UnixMicro(r.Now).UTC() }
