package client

import (
	"time"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/limits"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// The bodies of requests and responses. A test compares them with docs/openapi.json.

type wireProblem struct {
	Type      string      `json:"type"`
	Errors    []wireField `json:"errors"`
	RequestID string      `json:"request_id"`
}

type wireField struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

type wireNewTask struct {
	ID            uuid.UUID         `json:"id"`
	Kind          string            `json:"kind,omitempty"`
	Payload       *string           `json:"payload,omitempty"`
	PayloadBase64 []byte            `json:"payload_base64,omitempty"`
	Reference     string            `json:"reference,omitempty"`
	Key           string            `json:"key,omitempty"`
	Priority      int               `json:"priority,omitempty"`
	DelaySeconds  float64           `json:"delay_seconds,omitempty"`
	RunAt         time.Time         `json:"run_at,omitzero"`
	MaxAttempts   int               `json:"max_attempts,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
	Unique        *wireUnique       `json:"unique,omitempty"`
}

type wireUnique struct {
	Key            string  `json:"key,omitempty"`
	While          string  `json:"while,omitempty"`
	PeriodSeconds  float64 `json:"period_seconds,omitempty"`
	WindowSeconds  float64 `json:"window_seconds,omitempty"`
	OnConflict     string  `json:"on_conflict,omitempty"`
	MaxWaitSeconds float64 `json:"max_wait_seconds,omitempty"`
}

type wireEnqueued struct {
	ID        uuid.UUID `json:"id"`
	Duplicate bool      `json:"duplicate"`
	Replaced  bool      `json:"replaced"`
	Debounced bool      `json:"debounced"`
}

type wireTask struct {
	ID             uuid.UUID         `json:"id"`
	Queue          string            `json:"queue"`
	Kind           string            `json:"kind"`
	Reference      string            `json:"reference"`
	Key            string            `json:"key"`
	State          state.State       `json:"state"`
	Priority       int               `json:"priority"`
	Attempt        int               `json:"attempt"`
	MaxAttempts    int               `json:"max_attempts"`
	Lapses         int               `json:"lapses"`
	Cancelled      bool              `json:"cancelled"`
	Waiting        bool              `json:"waiting"`
	Fence          int64             `json:"fence"`
	Payload        *string           `json:"payload"`
	PayloadBase64  []byte            `json:"payload_base64"`
	Headers        map[string]string `json:"headers"`
	Result         *string           `json:"result"`
	ResultBase64   []byte            `json:"result_base64"`
	Progress       *string           `json:"progress"`
	ProgressBase64 []byte            `json:"progress_base64"`
	Due            time.Time         `json:"due"`
	LeaseUntil     time.Time         `json:"lease_until"`
	Holder         string            `json:"holder"`
	Created        time.Time         `json:"created"`
	Updated        time.Time         `json:"updated"`
}

type wireLeasedTask struct {
	wireTask
	Lease         string  `json:"lease"`
	WaitedSeconds float64 `json:"waited_seconds"`
}

type wireCheckout struct {
	Max          int     `json:"max"`
	LeaseSeconds float64 `json:"lease_seconds"`
	WaitSeconds  float64 `json:"wait_seconds"`
	Worker       string  `json:"worker"`
}

type wireExtension struct {
	Lease          string  `json:"lease"`
	Progress       *string `json:"progress,omitempty"`
	ProgressBase64 []byte  `json:"progress_base64,omitempty"`
}

type wireExtended struct {
	Lease   string       `json:"lease"`
	Problem *wireProblem `json:"problem"`
}

type wireSettlement struct {
	wireExtension
	Outcome      string    `json:"outcome"`
	Result       *string   `json:"result,omitempty"`
	ResultBase64 []byte    `json:"result_base64,omitempty"`
	Error        string    `json:"error,omitempty"`
	DelaySeconds float64   `json:"delay_seconds,omitempty"`
	RetryAt      time.Time `json:"retry_at,omitzero"`
}

type wireSettled struct {
	State   string       `json:"state"`
	Problem *wireProblem `json:"problem"`
}

// extension returns a lease and its progress as they are sent.
func extension(l *dbq.Lease) wireExtension {
	e := wireExtension{Lease: l.Token}
	if len(l.Progress) > 0 {
		e.Progress, e.ProgressBase64 = split(l.Progress)
	}
	return e
}

// split returns bytes as text if they are UTF-8, and otherwise for base64. Nil is neither.
func split(b []byte) (text *string, b64 []byte) {
	if b == nil || !utf8.Valid(b) {
		return nil, b
	}
	s := string(b)
	return &s, nil
}

// join is the reverse of split.
func join(text *string, b64 []byte) []byte {
	if text != nil {
		return []byte(*text)
	}
	return b64
}

// newTask returns a task to enqueue as it is sent, with an id. It refuses what the API cannot express.
func newTask(t *dbq.NewTask) (wireNewTask, error) {
	if err := access.Check(*t); err != nil {
		return wireNewTask{}, err
	}
	out := wireNewTask{
		ID: t.ID, Kind: t.Kind, Reference: t.Reference, Key: t.Key, Priority: t.Priority,
		DelaySeconds: t.Delay.Seconds(), RunAt: t.RunAt, MaxAttempts: t.MaxAttempts, Headers: t.Headers,
	}
	if out.ID == uuid.Nil {
		out.ID = dbq.NewID()
	}
	out.Payload, out.PayloadBase64 = split(t.Payload)
	if u := t.Unique; u != nil {
		out.Unique = &wireUnique{
			u.Key, string(u.While), u.Period.Seconds(), u.Window.Seconds(), string(u.OnConflict), u.MaxWait.Seconds(),
		}
	}
	return out, nil
}

// task returns a task of a response.
func (t *wireTask) task() dbq.Task {
	return dbq.Task{
		ID: t.ID, Queue: t.Queue, Kind: t.Kind, Reference: t.Reference, Key: t.Key, State: t.State,
		Priority: t.Priority, Attempt: t.Attempt, MaxAttempts: t.MaxAttempts, Lapses: t.Lapses, Cancelled: t.Cancelled,
		Fence: t.Fence, Payload: join(t.Payload, t.PayloadBase64), Headers: t.Headers,
		Result: join(t.Result, t.ResultBase64), Progress: join(t.Progress, t.ProgressBase64), Due: t.Due,
		Waiting: t.Waiting, LeaseUntil: t.LeaseUntil, Holder: t.Holder, Created: t.Created, Updated: t.Updated,
	}
}

// lastTime is the last time that JSON and the databases have.
var lastTime = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// settlement returns an outcome as it is sent, without the lease. The result is cut as the database would cut it.
func settlement(o dbq.Outcome) (s wireSettlement) {
	in, at := access.When(o)
	if at.After(lastTime) {
		at = lastTime
	}
	result := limits.CutResult(o.Result())
	switch event := o.Event(); {
	case event == state.Complete && o.Deletes():
		s.Outcome = "delete"
		return s
	case event == state.Complete:
		s.Outcome = "complete"
		s.Result, s.ResultBase64 = split(result)
		return s
	case event == state.Release:
		s.Outcome, s.DelaySeconds = "release", in.Seconds()
		return s
	case event == state.PoisonIt:
		s.Outcome = "poison"
	case o.Retries():
		s.Outcome, s.DelaySeconds, s.RetryAt = "retry", in.Seconds(), at
	default:
		s.Outcome = "park"
	}
	s.Error = string(result)
	return s
}
