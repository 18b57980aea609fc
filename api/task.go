package api

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"time"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/google/uuid"
)

// bytesIn is a payload, a result or progress: text, or base64 of any bytes.
//
// On input, the text may also be any other JSON value, which is stored as it is written.
type bytesIn struct {
	text json.RawMessage
	b64  string
}

// decode returns the bytes, or a problem that names the field.
func (b bytesIn) decode(field string) ([]byte, *Problem) {
	given := len(b.text) > 0 && string(b.text) != "null"
	switch {
	case given && b.b64 != "":
		return nil, badRequest.problem(Field{"body." + field, "give " + field + " or " + field + "_base64, not both"})
	case b.b64 != "":
		out, err := base64.StdEncoding.DecodeString(b.b64)
		if err != nil {
			return nil, badRequest.problem(Field{"body." + field + "_base64", "it is not base64"})
		}
		return out, nil
	case !given:
		return nil, nil
	case b.text[0] == '"':
		var text string
		if json.Unmarshal(b.text, &text) != nil {
			return nil, badRequest.problem(Field{"body." + field, "it is not valid JSON"})
		}
		return []byte(text), nil
	}
	return b.text, nil
}

// textOrBase64 returns bytes as text if they are UTF-8, and otherwise as base64. Nil is neither.
func textOrBase64(b []byte) (text *string, b64 []byte) {
	if b == nil || !utf8.Valid(b) {
		return nil, b
	}
	s := string(b)
	return &s, nil
}

// TaskContent has the fields of every new task: of one to enqueue, of a schedule, and of a step of a workflow.
type TaskContent struct {
	Kind          string            `json:"kind,omitempty"`
	Payload       json.RawMessage   `json:"payload,omitempty"`
	PayloadBase64 string            `json:"payload_base64,omitempty"`
	Key           string            `json:"key,omitempty"`
	Priority      int               `json:"priority,omitempty" minimum:"0"`
	DelaySeconds  float64           `json:"delay_seconds,omitempty" minimum:"0"`
	MaxAttempts   int               `json:"max_attempts,omitempty" minimum:"0"`
	Headers       map[string]string `json:"headers,omitempty"`
}

// task returns the task of the Go API.
func (t TaskContent) task() (dbq.NewTask, *Problem) {
	payload, p := bytesIn{t.Payload, t.PayloadBase64}.decode("payload")
	if p != nil {
		return dbq.NewTask{}, p
	}
	return dbq.NewTask{
		Kind: t.Kind, Payload: payload, Key: t.Key, Priority: t.Priority, Delay: seconds(t.DelaySeconds),
		MaxAttempts: t.MaxAttempts, Headers: t.Headers,
	}, nil
}

// NewTask is a task to enqueue.
type NewTask struct {
	TaskContent
	ID        string     `json:"id,omitempty" format:"uuid"`
	Reference string     `json:"reference,omitempty"`
	RunAt     *time.Time `json:"run_at,omitempty"`
	Unique    *Unique    `json:"unique,omitempty"`
}

// Unique makes a task exclude others; see dbq.Unique.
type Unique struct {
	Key            string  `json:"key,omitempty"`
	While          string  `json:"while,omitempty" enum:"pending,unfinished"`
	PeriodSeconds  float64 `json:"period_seconds,omitempty" minimum:"0"`
	WindowSeconds  float64 `json:"window_seconds,omitempty" minimum:"0"`
	OnConflict     string  `json:"on_conflict,omitempty" enum:"keep,replace,debounce"`
	MaxWaitSeconds float64 `json:"max_wait_seconds,omitempty" minimum:"0"`
}

// task returns the task of the Go API.
func (t NewTask) task() (dbq.NewTask, *Problem) {
	out, p := t.TaskContent.task()
	if p != nil {
		return out, p
	}
	out.Reference = t.Reference
	if t.ID != "" {
		id, err := uuid.Parse(t.ID)
		if err != nil {
			return out, badRequest.problem(Field{"body.id", "it is not a UUID"})
		}
		out.ID = id
	}
	if t.RunAt != nil {
		out.RunAt = *t.RunAt
	}
	if u := t.Unique; u != nil {
		out.Unique = &dbq.Unique{
			Key: u.Key, While: dbq.UniqueWhile(u.While), Period: micros(u.PeriodSeconds), Window: micros(u.WindowSeconds),
			OnConflict: dbq.UniqueConflict(u.OnConflict), MaxWait: seconds(u.MaxWaitSeconds),
		}
	}
	return out, nil
}

// Enqueued is the outcome of a task that was enqueued.
type Enqueued struct {
	ID        string `json:"id,omitempty"`
	Duplicate bool   `json:"duplicate,omitempty"`
	Replaced  bool   `json:"replaced,omitempty"`
	Debounced bool   `json:"debounced,omitempty"`
}

func enqueued(e dbq.Enqueued) Enqueued {
	out := Enqueued{Duplicate: e.Duplicate, Replaced: e.Replaced, Debounced: e.Debounced}
	if e.ID != uuid.Nil {
		out.ID = e.ID.String()
	}
	return out
}

// Task is a stored task.
type Task struct {
	ID             string            `json:"id" format:"uuid"`
	Queue          string            `json:"queue"`
	Kind           string            `json:"kind,omitempty"`
	Reference      string            `json:"reference,omitempty"`
	Key            string            `json:"key,omitempty"`
	State          string            `json:"state" enum:"CREATED,PROCESSING,COMPLETED,ERROR,POISON"`
	Priority       int               `json:"priority"`
	Attempt        int               `json:"attempt"`
	MaxAttempts    int               `json:"max_attempts"`
	Lapses         int               `json:"lapses,omitempty"`
	Cancelled      bool              `json:"cancelled,omitempty"`
	Parked         bool              `json:"parked,omitempty"`
	Waiting        bool              `json:"waiting,omitempty"`
	Fence          int64             `json:"fence"`
	Hidden         bool              `json:"hidden,omitempty"`
	Redacted       bool              `json:"redacted,omitempty"`
	Payload        *string           `json:"payload,omitempty"`
	PayloadBase64  []byte            `json:"payload_base64,omitempty"`
	Headers        map[string]string `json:"headers,omitempty"`
	Result         *string           `json:"result,omitempty"`
	ResultBase64   []byte            `json:"result_base64,omitempty"`
	Progress       *string           `json:"progress,omitempty"`
	ProgressBase64 []byte            `json:"progress_base64,omitempty"`
	Due            time.Time         `json:"due,omitzero"`
	LeaseUntil     time.Time         `json:"lease_until,omitzero"`
	Holder         string            `json:"holder,omitempty"`
	Created        time.Time         `json:"created"`
	Updated        time.Time         `json:"updated"`
}

// view returns a task as a caller that reads it may see it.
func (d *database) view(t dbq.Task, p auth.Principal) Task {
	redacted := d.seenBy(p).Task(&t)
	out := view(t, p)
	out.Redacted = redacted
	return out
}

// view returns a task as a caller may see it. Nothing is redacted.
func view(t dbq.Task, p auth.Principal) Task {
	out := Task{
		ID: t.ID.String(), Queue: t.Queue, Kind: t.Kind, Reference: t.Reference, Key: t.Key, State: t.State.String(),
		Priority: t.Priority, Attempt: t.Attempt, MaxAttempts: t.MaxAttempts, Lapses: t.Lapses, Cancelled: t.Cancelled,
		Parked: t.Parked(), Waiting: t.Waiting, Fence: t.Fence, Due: t.Due, LeaseUntil: t.LeaseUntil, Holder: t.Holder,
		Created: t.Created, Updated: t.Updated,
	}
	if !p.Payloads {
		out.Hidden = true
		return out
	}
	out.Payload, out.PayloadBase64 = textOrBase64(t.Payload)
	out.Result, out.ResultBase64 = textOrBase64(t.Result)
	out.Progress, out.ProgressBase64 = textOrBase64(t.Progress)
	out.Headers = t.Headers
	return out
}

// Attempt is one ended attempt of a task.
type Attempt struct {
	Attempt int       `json:"attempt"`
	Fence   int64     `json:"fence"`
	Outcome string    `json:"outcome"`
	Taken   time.Time `json:"taken"`
	Ended   time.Time `json:"ended"`
	Worker  string    `json:"worker"`
	Error   string    `json:"error,omitempty"`
}

// Stats counts the tasks of one queue.
type Stats struct {
	Queue            string           `json:"queue"`
	Count            map[string]int64 `json:"count"`
	AtLeast          []string         `json:"at_least,omitempty" nullable:"false"`
	Due              int64            `json:"due"`
	Parked           int64            `json:"parked"`
	Cancelled        int64            `json:"cancelled"`
	OldestDueSeconds float64          `json:"oldest_due_seconds"`
}

// micros converts a number of seconds to whole microseconds.
func micros(s float64) time.Duration { return seconds(s).Round(time.Microsecond) }

// inSeconds returns a time as a number of seconds, in whole microseconds.
func inSeconds(d time.Duration) float64 { return math.Round(d.Seconds()*1e6) / 1e6 }
