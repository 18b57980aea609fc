package dbq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// A Codec encodes values as payloads and decodes them. It must be safe for concurrent use.
type Codec interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(payload []byte, v any) error
}

// JSON is the codec of encoding/json.
var JSON Codec = jsonCodec{}

type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error)         { return json.Marshal(v) }
func (jsonCodec) Unmarshal(payload []byte, v any) error { return json.Unmarshal(payload, v) }

// ErrPayload is returned by the methods of Kind for a value that cannot be encoded, and for a payload that cannot be
// decoded.
var ErrPayload = errors.New("the payload does not fit its kind")

// Kind is a kind of task whose payloads are values of one Go type. Programs that enqueue and programs that work share
// it:
//
//	var SendMail = dbq.Kind[Mail]{Name: "send-mail"}
//
//	id, err := SendMail.Enqueue(ctx, q, Mail{To: "ann@example.com"})
//
// Each option sets fields of the task:
//
//	id, err = SendMail.Enqueue(ctx, q, m, func(t *dbq.NewTask) { t.Delay, t.Priority = time.Hour, 5 })
//
// worker.Handle and worker.HandleTx register the function that handles a kind.
type Kind[T any] struct {
	Name string // Task.Kind
	// Codec encodes and decodes the payloads; nil is JSON. All programs that share a kind must use the same one.
	Codec Codec
}

func (k Kind[T]) codec() Codec {
	if k.Codec == nil {
		return JSON
	}
	return k.Codec
}

// Task returns a task of this kind, for Queue.EnqueueMany and its like. opts are applied in order, after Kind and
// Payload are set. A value that cannot be encoded is ErrPayload.
func (k Kind[T]) Task(v T, opts ...func(*NewTask)) (NewTask, error) {
	payload, err := k.codec().Marshal(v)
	if err != nil {
		return NewTask{}, fmt.Errorf("dbq: task of kind %q: %w: %w", k.Name, ErrPayload, err)
	}
	t := NewTask{Kind: k.Name, Payload: payload}
	for _, opt := range opts {
		opt(&t)
	}
	return t, nil
}

// Enqueue adds a task of this kind and returns its id. Without options the task is due now. Errors are those of
// Queue.Enqueue, and ErrPayload.
func (k Kind[T]) Enqueue(ctx context.Context, q *Queue, v T, opts ...func(*NewTask)) (uuid.UUID, error) {
	t, err := k.Task(v, opts...)
	if err != nil {
		return uuid.Nil, err
	}
	return q.Enqueue(ctx, t)
}

// EnqueueTx is Enqueue in the caller's transaction.
func (k Kind[T]) EnqueueTx(ctx context.Context, tx Tx, q *Queue, v T, opts ...func(*NewTask)) (uuid.UUID, error) {
	t, err := k.Task(v, opts...)
	if err != nil {
		return uuid.Nil, err
	}
	return q.EnqueueTx(ctx, tx, t)
}

// EnqueueMany adds a task for each value in one transaction; see Queue.EnqueueMany. The options apply to every task.
// For tasks that differ, make each with Task and pass them to Queue.EnqueueMany.
func (k Kind[T]) EnqueueMany(ctx context.Context, q *Queue, vs []T, opts ...func(*NewTask)) ([]Enqueued, error) {
	ts, err := k.tasks(vs, opts)
	if err != nil {
		return nil, err
	}
	return q.EnqueueMany(ctx, ts)
}

// EnqueueManyTx is EnqueueMany in the caller's transaction.
func (k Kind[T]) EnqueueManyTx(ctx context.Context, tx Tx, q *Queue, vs []T, opts ...func(*NewTask)) (
	[]Enqueued, error) {
	ts, err := k.tasks(vs, opts)
	if err != nil {
		return nil, err
	}
	return q.EnqueueManyTx(ctx, tx, ts)
}

func (k Kind[T]) tasks(vs []T, opts []func(*NewTask)) ([]NewTask, error) {
	ts := make([]NewTask, len(vs))
	for i, v := range vs {
		var err error
		if ts[i], err = k.Task(v, opts...); err != nil {
			return nil, err
		}
	}
	return ts, nil
}

// Decode returns the value in a task's payload. A task of another kind, or a payload that cannot be decoded, is
// ErrPayload.
func (k Kind[T]) Decode(t Task) (T, error) {
	var v T
	if t.Kind != k.Name {
		return v, fmt.Errorf("dbq: task of kind %q: %w: want kind %q", t.Kind, ErrPayload, k.Name)
	}
	if err := k.codec().Unmarshal(t.Payload, &v); err != nil {
		return v, fmt.Errorf("dbq: task of kind %q: %w: %w", k.Name, ErrPayload, err)
	}
	return v, nil
}
