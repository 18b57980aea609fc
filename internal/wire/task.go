package wire

import (
	"encoding/json"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/google/uuid"
)

// TaskContent has the fields of every new task: of one to enqueue, of a schedule, and of a step of a workflow.
type TaskContent struct {
	Kind          string            `json:"kind,omitempty"`
	Payload       json.RawMessage   `json:"payload,omitempty"`
	PayloadBase64 []byte            `json:"payload_base64,omitempty"`
	Key           string            `json:"key,omitempty"`
	Priority      int               `json:"priority,omitempty" minimum:"0"`
	Delay         duration.Seconds  `json:"delay_seconds,omitempty" minimum:"0"`
	MaxAttempts   int               `json:"max_attempts,omitempty" minimum:"0"`
	Headers       map[string]string `json:"headers,omitempty"`
}

// Task returns the task of the Go API.
func (t TaskContent) Task() (dbq.NewTask, *Problem) {
	payload, p := BytesOfAny("payload", t.Payload, t.PayloadBase64)
	return dbq.NewTask{
		Kind: t.Kind, Payload: payload, Key: t.Key, Priority: t.Priority, Delay: time.Duration(t.Delay),
		MaxAttempts: t.MaxAttempts, Headers: t.Headers,
	}, p
}

// NewTask is a task to enqueue.
type NewTask struct {
	TaskContent
	ID        uuid.UUID `json:"id,omitzero"`
	Reference string    `json:"reference,omitempty"`
	RunAt     time.Time `json:"run_at,omitzero"`
	Unique    *Unique   `json:"unique,omitempty"`
}

// Unique makes a task exclude others; see dbq.Unique.
type Unique struct {
	Key        string             `json:"key,omitempty"`
	While      dbq.UniqueWhile    `json:"while,omitempty" enum:"pending,unfinished"`
	Period     duration.Seconds   `json:"period_seconds,omitempty" minimum:"0"`
	Window     duration.Seconds   `json:"window_seconds,omitempty" minimum:"0"`
	OnConflict dbq.UniqueConflict `json:"on_conflict,omitempty" enum:"keep,replace,debounce"`
	MaxWait    duration.Seconds   `json:"max_wait_seconds,omitempty" minimum:"0"`
}

// NewTaskOf returns a task to enqueue as it is sent.
func NewTaskOf(t dbq.NewTask) NewTask {
	out := NewTask{
		TaskContent: TaskContent{Kind: t.Kind, Key: t.Key, Priority: t.Priority, Delay: duration.Seconds(t.Delay),
			MaxAttempts: t.MaxAttempts, Headers: t.Headers},
		ID: t.ID, Reference: t.Reference, RunAt: t.RunAt,
	}
	out.Payload, out.PayloadBase64 = anyOf(t.Payload)
	if u := t.Unique; u != nil {
		out.Unique = &Unique{u.Key, u.While, duration.Seconds(u.Period), duration.Seconds(u.Window), u.OnConflict,
			duration.Seconds(u.MaxWait)}
	}
	return out
}

// Task returns the task of the Go API.
func (t NewTask) Task() (dbq.NewTask, *Problem) {
	out, p := t.TaskContent.Task()
	out.ID, out.Reference, out.RunAt = t.ID, t.Reference, t.RunAt
	if u := t.Unique; u != nil {
		out.Unique = &dbq.Unique{Key: u.Key, While: u.While, Period: time.Duration(u.Period),
			Window: time.Duration(u.Window), OnConflict: u.OnConflict, MaxWait: time.Duration(u.MaxWait)}
	}
	return out, p
}

// Task is a stored task.
type Task struct {
	dbq.Task
	Parked         bool    `json:"parked,omitempty"`
	Hidden         bool    `json:"hidden,omitempty"`
	Redacted       bool    `json:"redacted,omitempty"`
	Payload        *string `json:"payload,omitempty"`
	PayloadBase64  []byte  `json:"payload_base64,omitempty"`
	Result         *string `json:"result,omitempty"`
	ResultBase64   []byte  `json:"result_base64,omitempty"`
	Progress       *string `json:"progress,omitempty"`
	ProgressBase64 []byte  `json:"progress_base64,omitempty"`
}

// TaskOf returns a task as it is sent.
func TaskOf(t dbq.Task) Task {
	out := Task{Task: t, Parked: t.Parked()}
	out.Payload, out.PayloadBase64 = text(t.Payload)
	out.Result, out.ResultBase64 = text(t.Result)
	out.Progress, out.ProgressBase64 = text(t.Progress)
	return out
}

// Stored returns the task of the Go API.
func (t Task) Stored() dbq.Task {
	out := t.Task
	out.Payload, out.Result = bytesOf(t.Payload, t.PayloadBase64), bytesOf(t.Result, t.ResultBase64)
	out.Progress = bytesOf(t.Progress, t.ProgressBase64)
	return out
}
