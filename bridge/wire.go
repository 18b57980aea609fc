package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/wire"
	"github.com/google/uuid"
)

// wireTasks is the message by which tasks are forwarded over HTTP.
type wireTasks struct {
	Window string     `json:"window"` // for how long the receiver must recognize the tasks
	Tasks  []wireTask `json:"tasks"`
}

// wireTask is a task in a message.
type wireTask struct {
	ID          uuid.UUID         `json:"id"`
	Kind        string            `json:"kind,omitempty"`
	Reference   string            `json:"reference,omitempty"`
	Key         string            `json:"key,omitempty"`
	Priority    int               `json:"priority,omitempty"`
	MaxAttempts int               `json:"max_attempts,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Payload     []byte            `json:"payload"` // base64; null is no payload
}

// wireResponse is the response to such a message.
type wireResponse struct {
	Tasks []farTask `json:"tasks"`
}

// ToURL returns an Enqueuer for a Receiver with Tasks at a URL, or ErrConfig. MaxFailures and Pause of the endpoint
// are ignored: the Forwarder has its own.
func ToURL(e Endpoint) (Enqueuer, error) {
	s, err := newSender(e)
	if err != nil {
		return nil, err
	}
	return toURL{s}, nil
}

type toURL struct{ *sender }

func (to toURL) Enqueue(ctx context.Context, ts []dbq.NewTask) ([]dbq.Enqueued, error) {
	m := wireTasks{Tasks: make([]wireTask, len(ts))}
	for i, t := range ts {
		if t.Unique == nil || t.Unique.Window <= 0 {
			return nil, fmt.Errorf("%w: a task for ToURL needs Unique.Window", dbq.ErrInvalid)
		}
		m.Window = t.Unique.Window.String()
		m.Tasks[i] = wireTask{t.ID, t.Kind, t.Reference, t.Key, t.Priority, t.MaxAttempts, t.Headers, t.Payload}
	}
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"dbq"}}
	a, err := to.send(ctx, dbq.NewID().String(), header, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotAvailable, err)
	}
	if !a.ok() {
		return nil, a.problem(to.host)
	}
	var got wireResponse
	if err := json.Unmarshal(a.body, &got); err != nil {
		return nil, fmt.Errorf("bridge: POST to %s: the response is not from a Receiver with Tasks; check URL", to.host)
	}
	out := make([]dbq.Enqueued, len(got.Tasks))
	for i, t := range got.Tasks {
		out[i] = dbq.Enqueued{ID: t.ID, Duplicate: t.Duplicate}
	}
	return out, nil
}

// problem returns the error for the response of a Receiver. It matches dbq.ErrInvalid if the tasks will never be
// accepted.
func (a response) problem(host string) error {
	err := a.err(host)
	var p wire.Problem
	if json.Unmarshal(a.body, &p) == nil && strings.HasPrefix(p.Type, wire.Prefix) && isText(p.Detail) {
		err = fmt.Errorf("%w: %.500s", err, p.Detail)
	}
	if a.status == http.StatusUnprocessableEntity || a.status == http.StatusRequestEntityTooLarge {
		return fmt.Errorf("%w: %w", dbq.ErrInvalid, err)
	}
	if a.status == http.StatusInternalServerError {
		return err // the database's error about these tasks; see Receiver.refuse
	}
	return fmt.Errorf("%w: %w", errNotAvailable, err)
}

// errNotAvailable is the error of a call that failed for any task.
var errNotAvailable = errors.New("the far side is not available")

// enqueueTasks enqueues the tasks of a message.
func (r *Receiver) enqueueTasks(ctx context.Context, body []byte) (wireResponse, *wire.Problem) {
	var m wireTasks
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	window, err := time.Duration(0), d.Decode(&m)
	if err == nil && !d.More() {
		window, err = time.ParseDuration(m.Window)
	}
	switch {
	case err != nil || window <= 0 || len(m.Tasks) == 0 || len(m.Tasks) > maxTasks:
		return wireResponse{}, refuse(http.StatusBadRequest, "body",
			fmt.Sprintf("the message is not one of a Forwarder with 1 to %d tasks", maxTasks))
	case window > r.cfg.Window:
		return wireResponse{}, refuse(http.StatusConflict, "window",
			fmt.Sprintf("the forwarder's window is longer than the receiver's, %v", r.cfg.Window))
	}
	ts := make([]dbq.NewTask, len(m.Tasks))
	for i, t := range m.Tasks {
		if t.ID == uuid.Nil {
			return wireResponse{}, refuse(http.StatusBadRequest, "body", "a task has no id")
		}
		ts[i] = dbq.NewTask{
			ID: t.ID, Kind: t.Kind, Reference: t.Reference, Key: t.Key, Priority: t.Priority, MaxAttempts: t.MaxAttempts,
			Headers: t.Headers, Payload: t.Payload, Unique: farKey(t.ID, r.cfg.Window),
		}
	}
	added, err := r.cfg.Queue.EnqueueMany(ctx, ts)
	if err != nil {
		return wireResponse{}, r.refuse(ctx, err)
	}
	out := wireResponse{Tasks: make([]farTask, len(added))}
	for i, e := range added {
		out.Tasks[i] = farTask{e.ID, e.Duplicate}
	}
	return out, nil
}
