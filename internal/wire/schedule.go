package wire

import (
	"time"

	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/schedule"
	"github.com/google/uuid"
)

// Times are the times of a schedule: exactly one of Cron, Every and At.
type Times struct {
	Cron  string           `json:"cron,omitempty"`
	Zone  string           `json:"zone,omitempty"`
	Every duration.Seconds `json:"every_seconds,omitempty" minimum:"0"`
	At    time.Time        `json:"at,omitzero"`
}

// Schedule returns a schedule of the Go API that has only these times.
func (t Times) Schedule() (schedule.Schedule, *Problem) {
	d, given := schedule.Schedule{Cron: t.Cron, Zone: t.Zone, Every: time.Duration(t.Every), At: t.At}, 0
	for _, has := range []bool{d.Cron != "", d.Every != 0, !d.At.IsZero()} {
		if has {
			given++
		}
	}
	switch {
	case given != 1:
		return d, BadRequest.Problem(Field{"body", "give exactly one of cron, every_seconds and at"})
	case t.Zone != "" && t.Cron == "":
		return d, BadRequest.Problem(Field{"body.zone", "it is for cron"})
	}
	return d, nil
}

// ScheduleContent defines a schedule, without its name.
type ScheduleContent struct {
	TaskContent
	Times
	Queue     string           `json:"queue"`
	CatchUp   int              `json:"catch_up,omitempty" minimum:"-1" maximum:"1000"`
	NoOverlap bool             `json:"no_overlap,omitempty"`
	Jitter    duration.Seconds `json:"jitter_seconds,omitempty" minimum:"0" maximum:"86400"`
}

// NewSchedule is a request to create or replace a schedule.
type NewSchedule struct {
	ScheduleContent
	KeepPayload bool    `json:"keep_payload,omitempty"`
	Revision    *string `json:"revision,omitempty"`
}

// Schedule returns the schedule of the Go API, without the payload and headers that are kept.
func (s NewSchedule) Schedule(name string) (schedule.Schedule, *Problem) {
	d, p := s.Times.Schedule()
	if p == nil {
		d.Task, p = s.TaskContent.Task()
	}
	if p == nil && s.KeepPayload && (d.Task.Payload != nil || d.Task.Headers != nil) {
		p = BadRequest.Problem(Field{"body.keep_payload", "give it, or a payload and headers, not both"})
	}
	d.Name, d.Queue, d.CatchUp, d.NoOverlap, d.Jitter = name, s.Queue, s.CatchUp, s.NoOverlap, time.Duration(s.Jitter)
	return d, p
}

// Schedule is a schedule and its status.
type Schedule struct {
	Name string `json:"name"`
	ScheduleContent
	Hidden     bool      `json:"hidden,omitempty"`
	Redacted   bool      `json:"redacted,omitempty"`
	Owner      string    `json:"owner,omitempty"`
	Next       time.Time `json:"next,omitzero"`
	Last       time.Time `json:"last,omitzero"`
	LastTaskID uuid.UUID `json:"last_task_id,omitzero"`
	Skipped    string    `json:"skipped,omitempty"`
	Paused     bool      `json:"paused,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	By         string    `json:"by,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	Updated    time.Time `json:"updated"`
	Revision   string    `json:"revision"`
}

// ScheduleOf returns a schedule as it is sent.
func ScheduleOf(s schedule.Info) Schedule {
	return Schedule{
		Name: s.Name, ScheduleContent: ScheduleContent{
			NewTaskOf(s.Task).TaskContent, Times{s.Cron, s.Zone, duration.Seconds(s.Every), s.At}, s.Queue, s.CatchUp,
			s.NoOverlap, duration.Seconds(s.Jitter),
		},
		Owner: s.Owner, Next: s.Next, Last: s.Last, LastTaskID: s.LastTaskID, Skipped: s.Problem, Paused: s.Paused,
		Since: s.Since, By: s.By, Reason: s.Reason, Updated: s.Updated, Revision: s.Revision,
	}
}
