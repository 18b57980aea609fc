package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/schedule"
)

// Times are the times of a schedule: exactly one of Cron, EverySeconds and At.
type Times struct {
	Cron         string     `json:"cron,omitempty"`
	Zone         string     `json:"zone,omitempty"`
	EverySeconds float64    `json:"every_seconds,omitempty" minimum:"0"`
	At           *time.Time `json:"at,omitempty"`
}

// schedule returns a schedule of the Go API that has only these times.
func (t Times) schedule() (schedule.Schedule, *Problem) {
	d := schedule.Schedule{Cron: t.Cron, Zone: t.Zone, Every: micros(t.EverySeconds)}
	given := 0
	if t.At != nil {
		d.At = *t.At
	}
	for _, has := range []bool{d.Cron != "", d.Every != 0, !d.At.IsZero()} {
		if has {
			given++
		}
	}
	switch {
	case given != 1:
		return d, badRequest.problem(Field{"body", "give exactly one of cron, every_seconds and at"})
	case t.Zone != "" && t.Cron == "":
		return d, badRequest.problem(Field{"body.zone", "it is for cron"})
	}
	return d, nil
}

// NewSchedule is the definition of a schedule.
type NewSchedule struct {
	TaskContent
	Times
	Queue         string  `json:"queue"`
	CatchUp       int     `json:"catch_up,omitempty" minimum:"-1" maximum:"1000"`
	NoOverlap     bool    `json:"no_overlap,omitempty"`
	JitterSeconds float64 `json:"jitter_seconds,omitempty" minimum:"0" maximum:"86400"`
	KeepPayload   bool    `json:"keep_payload,omitempty"`
	Revision      *string `json:"revision,omitempty"`
}

// schedule returns the schedule of the Go API, without the payload and headers that are kept.
func (s NewSchedule) schedule(name string) (schedule.Schedule, *Problem) {
	d, p := s.Times.schedule()
	if p == nil {
		d.Task, p = s.TaskContent.task()
	}
	if p == nil && s.KeepPayload && (d.Task.Payload != nil || d.Task.Headers != nil) {
		p = badRequest.problem(Field{"body.keep_payload", "give it, or a payload and headers, not both"})
	}
	if p != nil {
		return d, p
	}
	d.Name, d.Queue, d.CatchUp, d.NoOverlap, d.Jitter = name, s.Queue, s.CatchUp, s.NoOverlap, micros(s.JitterSeconds)
	d.Task.Delay = d.Task.Delay.Round(time.Microsecond)
	return d, nil
}

// putSchedule is a request to create or replace a schedule.
type putSchedule struct {
	OneSchedule
	Body NewSchedule
}

// storedSchedule is its response: 201 if the schedule is new, and 200 if one was replaced.
type storedSchedule struct {
	Status int
	Body   Schedule
}

// putAttempts is how often a schedule is read and replaced while others change it.
const putAttempts = 5

func (a *API) putSchedule(ctx context.Context, in *putSchedule) (*storedSchedule, error) {
	d, p, err := a.open(ctx, auth.Configure, in.Database, in.Body.Queue)
	if err != nil {
		return nil, err
	}
	def, problem := in.Body.schedule(in.Schedule)
	if problem != nil {
		return nil, problem
	}
	if err := def.Check(); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		created, err := d.replace(ctx, p, in.Body, def)
		if errors.Is(err, schedule.ErrChanged) && in.Body.Revision == nil && try < putAttempts {
			continue
		}
		if err != nil {
			return nil, err
		}
		stored, err := d.schedules.Get(ctx, def.Name)
		if err == nil && !p.May(auth.Read, in.Database, stored.Queue) { // someone has moved it just now
			err = dbq.ErrNotFound
		}
		if err != nil {
			return nil, err
		}
		out := &storedSchedule{http.StatusOK, d.schedule(stored, p)}
		if created {
			out.Status = http.StatusCreated
		}
		return out, nil
	}
}

// replace stores a schedule if none of this name is stored, or if the caller may change the stored one. It returns
// schedule.ErrChanged if the stored one is not that of the request, or is changed at the same time.
func (d *database) replace(ctx context.Context, p auth.Principal, in NewSchedule, def schedule.Schedule) (
	created bool, err error) {
	stored, err := d.schedules.Get(ctx, def.Name)
	switch {
	case errors.Is(err, dbq.ErrNotFound):
		created, stored = true, schedule.Info{}
	case err != nil:
		return false, err
	case !p.May(auth.Configure, d.name, stored.Queue):
		return false, forbidden.problem()
	}
	if in.Revision != nil && *in.Revision != stored.Revision {
		return false, schedule.ErrChanged
	}
	if in.KeepPayload {
		if created {
			return false, badRequest.problem(Field{"body.keep_payload", "there is no schedule of this name"})
		}
		// What is hidden depends on the queue and the kind: elsewhere, callers could read it.
		if t := taskOf(stored); d.redact.Task(&t) && (def.Queue != stored.Queue || def.Task.Kind != stored.Task.Kind) {
			return false, badRequest.problem(
				Field{"body.keep_payload", "parts of the payload are hidden: the queue and the kind must stay"})
		}
		def.Task.Payload, def.Task.Headers = stored.Task.Payload, stored.Task.Headers
	}
	return created, d.schedules.Replace(ctx, stored.Revision, def)
}

// scheduleFields are the fields of a request by those of a schedule.Schedule, with what their values must be. Without
// it, the problem has that.
var scheduleFields = map[string]Field{
	"Name": {"path.schedule", fmt.Sprintf("it has 1 to %d characters, none of them a control character",
		schedule.MaxName)},
	"Queue":        {"body.queue", ""},
	"Cron":         {"body.cron", "it is not a cron expression"},
	"Zone":         {"body.zone", "there is no such time zone; use an IANA name, such as Europe/Berlin"},
	"Every":        {"body.every_seconds", fmt.Sprintf("it is 1 to %.0f", dbq.MaxDelay.Seconds())},
	"At":           {"body.at", "it has passed, or is too far in the future"},
	"CatchUp":      {"body.catch_up", fmt.Sprintf("it is -1 to %d", schedule.MaxCatchUp)},
	"Jitter":       {"body.jitter_seconds", fmt.Sprintf("it is 0 to %.0f", schedule.MaxJitter.Seconds())},
	"Task.Payload": {"body.payload", "the schedule is too large: with its payload in base64, it must fit in 3000 bytes"},
	"Task.Kind":    {"body.kind", ""}, "Task.Key": {"body.key", ""}, "Task.Priority": {"body.priority", ""},
	"Task.MaxAttempts": {"body.max_attempts", ""}, "Task.Delay": {"body.delay_seconds", ""},
	"Task.Headers": {"body.headers", ""},
}

// scheduleField returns the field that an error of package schedule names, without its value.
func scheduleField(err error, k kind) Field {
	var failed *schedule.FieldError
	if !errors.As(err, &failed) {
		return Field{}
	}
	f := scheduleFields[failed.Field]
	if errors.Is(err, schedule.ErrNever) {
		f.Message = "it never fires: no day matches"
	}
	return Field{cmp.Or(f.Location, "body"), cmp.Or(f.Message, k.Title)}
}

// nextTimes is the response with the next times of a schedule.
type nextTimes struct {
	Body struct {
		Times  []time.Time `json:"times" nullable:"false"`
		Paused bool        `json:"paused,omitempty"`
	}
}

func nextTimesOf(times []time.Time) *nextTimes {
	var out nextTimes
	out.Body.Times = []time.Time{}
	for _, t := range times {
		out.Body.Times = append(out.Body.Times, t.UTC())
	}
	return &out
}

// scheduleTimes is a request for the next times of a stored schedule.
type scheduleTimes struct {
	OneSchedule
	Count int `query:"count" minimum:"1" maximum:"100" default:"10"`
}

func (a *API) scheduleTimes(ctx context.Context, in *scheduleTimes) (*nextTimes, error) {
	d, s, _, err := a.schedule(ctx, auth.Read, in.OneSchedule)
	if err != nil {
		return nil, err
	}
	now, err := d.client.Now(ctx)
	if err != nil {
		return nil, err
	}
	times, err := s.Times(now, in.Count)
	if err != nil {
		return nil, err
	}
	out := nextTimesOf(times)
	out.Body.Paused = s.Paused
	return out, nil
}

// previewTimes is a request for the next times of a schedule that is not stored.
type previewTimes struct {
	Database string `path:"database"`
	Body     struct {
		Times
		Count int `json:"count,omitempty" minimum:"1" maximum:"100" default:"10"`
	}
}

func (a *API) previewTimes(ctx context.Context, in *previewTimes) (*nextTimes, error) {
	d, _, err := a.anyQueue(ctx, auth.Read, in.Database)
	if err != nil {
		return nil, err
	}
	def, p := in.Body.schedule()
	if p != nil {
		return nil, p
	}
	now, err := d.client.Now(ctx)
	if err != nil {
		return nil, err
	}
	times, err := schedule.Preview(def, now, in.Body.Count)
	if err != nil {
		return nil, err
	}
	return nextTimesOf(times), nil
}
