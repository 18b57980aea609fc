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
	"github.com/dbq-go/dbq/internal/wire"
	"github.com/dbq-go/dbq/schedule"
)

// putSchedule is a request to create or replace a schedule.
type putSchedule struct {
	OneSchedule
	Body wire.NewSchedule
}

// storedSchedule is its response: 201 if the schedule is new, and 200 if one was replaced.
type storedSchedule struct {
	Status int
	Body   wire.Schedule
}

// putAttempts is how often a schedule is read and replaced while others change it.
const putAttempts = 5

func (a *API) putSchedule(ctx context.Context, in *putSchedule) (*storedSchedule, error) {
	d, p, err := a.open(ctx, auth.Configure, in.Database, in.Body.Queue)
	if err != nil {
		return nil, err
	}
	def, problem := in.Body.Schedule(in.Schedule)
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
// schedule.ErrChanged if the stored one does not have the request's revision, or is changed at the same time.
func (d *database) replace(ctx context.Context, p auth.Principal, in wire.NewSchedule, def schedule.Schedule) (
	created bool, err error) {
	stored, err := d.schedules.Get(ctx, def.Name)
	switch {
	case errors.Is(err, dbq.ErrNotFound):
		created, stored = true, schedule.Info{}
	case err != nil:
		return false, err
	case !p.May(auth.Configure, d.name, stored.Queue):
		return false, wire.Forbidden.Problem()
	}
	if in.Revision != nil && *in.Revision != stored.Revision {
		return false, schedule.ErrChanged
	}
	if in.KeepPayload {
		if created {
			return false, wire.BadRequest.Problem(wire.At("body.keep_payload", "there is no schedule of this name"))
		}
		// What is hidden depends on the queue and the kind: elsewhere, callers could read it.
		if t := taskOf(stored); d.redact.Task(&t) && (def.Queue != stored.Queue || def.Task.Kind != stored.Task.Kind) {
			return false, wire.BadRequest.Problem(
				wire.At("body.keep_payload", "parts of the payload are hidden: the queue and the kind must stay"))
		}
		def.Task.Payload, def.Task.Headers = stored.Task.Payload, stored.Task.Headers
	}
	return created, d.schedules.Replace(ctx, stored.Revision, def)
}

// scheduleFields maps the fields of a schedule.Schedule to the fields of a request, and to messages about their values.
// Without a message, the problem has its title.
var scheduleFields = map[string][2]string{
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
func scheduleField(err error, k wire.Kind) wire.Field {
	var failed *schedule.FieldError
	if !errors.As(err, &failed) {
		return wire.Field{}
	}
	f := scheduleFields[failed.Field]
	if errors.Is(err, schedule.ErrNever) {
		f[1] = "it never fires: no day matches"
	}
	return wire.At(cmp.Or(f[0], "body"), cmp.Or(f[1], k.Title))
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
		wire.Times
		Count int `json:"count,omitempty" minimum:"1" maximum:"100" default:"10"`
	}
}

func (a *API) previewTimes(ctx context.Context, in *previewTimes) (*nextTimes, error) {
	d, _, err := a.anyQueue(ctx, auth.Read, in.Database)
	if err != nil {
		return nil, err
	}
	def, p := in.Body.Schedule()
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
