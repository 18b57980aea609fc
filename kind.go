package dbq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// A Codec turns values into payloads and back. It must be safe for concurrent use.
type Codec interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(payload []byte, v any) error
}

// JSON is the codec of encoding/json.
var JSON Codec = jsonCodec{}

type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error)         { return json.Marshal(v) }
func (jsonCodec) Unmarshal(payload []byte, v any) error { return json.Unmarshal(payload, v) }

// ErrPayload is returned by Kind for a value that its codec cannot encode, and for a payload that it cannot decode.
var ErrPayload = errors.New("the payload does not fit its kind")

// Kind is a kind of task whose payloads are values of one Go type, for those who enqueue and those who work:
//
//	var SendMail = dbq.Kind[Mail]{Name: "send-mail"}
//
//	id, err := SendMail.Enqueue(ctx, q, Mail{To: "ann@example.com"})
//
// and in the worker: worker.Handle(mux, SendMail, func(ctx context.Context, t dbq.Task, m Mail) error { ... }).
type Kind[T any] struct {
	Name string // Task.Kind
	// Codec makes the payloads. Nil is JSON. Those who enqueue and those who work must have the same.
	Codec Codec
}

func (k Kind[T]) codec() Codec {
	if k.Codec == nil {
		return JSON
	}
	return k.Codec
}

// Task is a task of this kind to enqueue, for more than Enqueue takes: set its other fields. A value that cannot be
// encoded is ErrPayload.
func (k Kind[T]) Task(v T) (NewTask, error) {
	payload, err := k.codec().Marshal(v)
	if err != nil {
		return NewTask{}, fmt.Errorf("dbq: task of kind %q: %w: %w", k.Name, ErrPayload, err)
	}
	return NewTask{Kind: k.Name, Payload: payload}, nil
}

// Enqueue adds a task of this kind that is due now. Errors are those of Queue.Enqueue, and ErrPayload.
func (k Kind[T]) Enqueue(ctx context.Context, q *Queue, v T) (uuid.UUID, error) {
	t, err := k.Task(v)
	if err != nil {
		return uuid.Nil, err
	}
	return q.Enqueue(ctx, t)
}

// EnqueueTx is Enqueue in the caller's transaction.
func (k Kind[T]) EnqueueTx(ctx context.Context, tx Tx, q *Queue, v T) (uuid.UUID, error) {
	t, err := k.Task(v)
	if err != nil {
		return uuid.Nil, err
	}
	return q.EnqueueTx(ctx, tx, t)
}

// Decode is the value in a task's payload. A task of another kind, or a payload that cannot be decoded, is ErrPayload.
func (k Kind[T]) Decode(t Task) (T, error) {
	var v T
	if t.Kind != k.Name {
		return v, fmt.Errorf("dbq: task of kind %q: %w: it was to be %q", t.Kind, ErrPayload, k.Name)
	}
	if err := k.codec().Unmarshal(t.Payload, &v); err != nil {
		return v, fmt.Errorf("dbq: task of kind %q: %w: %w", k.Name, ErrPayload, err)
	}
	return v, nil
}
