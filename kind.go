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

// jsonCodec is the codec of encoding/json.
type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error)         { return json.Marshal(v) }
func (jsonCodec) Unmarshal(payload []byte, v any) error { return json.Unmarshal(payload, v) }

// ErrPayload is returned by the methods of Kind if a value cannot be encoded or a payload cannot be decoded.
var ErrPayload = errors.New("the payload does not fit its kind")

// errUnnamed is returned for a Kind without a Name, whose tasks no handler would be found for.
var errUnnamed = fmt.Errorf("dbq: %w: this dbq.Kind has no Name", ErrKind)

// Kind is a type of task: its name, its queue, and the Go type of its payload. Declare it once, in a package that the
// programs that enqueue and the programs that work both import:
//
//	var SendMail = dbq.Kind[Mail]{Name: "send-mail", Queue: "mail"}
//
//	id, err := SendMail.Enqueue(ctx, client, Mail{To: "ann@example.com"})
//
// Options set other fields of the task:
//
//	id, err = SendMail.Enqueue(ctx, client, m, func(t *dbq.NewTask) { t.Delay, t.Priority = time.Hour, 5 })
//
// worker.Handle and worker.HandleTx register the function that handles a kind.
type Kind[T any] struct {
	// Name is the Task.Kind of its tasks, 1 to MaxKind characters.
	Name string
	// Queue is the name of the queue that its tasks are enqueued to. For another queue, change a copy of the Kind, or
	// pass the result of Task to Queue.Enqueue. Handlers ignore it: a Mux dispatches by Name alone.
	Queue string
	// Codec encodes and decodes the payloads. The default is encoding/json. All programs that share a kind must use the
	// same one.
	Codec Codec
	// Defaults sets other fields of each task of this kind, such as MaxAttempts. It runs before the options of a call. It
	// must be safe for concurrent use.
	Defaults func(*NewTask)
}

func (k Kind[T]) codec() Codec {
	if k.Codec == nil {
		return jsonCodec{}
	}
	return k.Codec
}

// Task returns a task of this kind, to pass to a method of Queue or to a schedule. It sets Kind and Payload, then calls
// Defaults and opts in order. It returns ErrPayload if v cannot be encoded, and ErrKind without a Name.
func (k Kind[T]) Task(v T, opts ...func(*NewTask)) (NewTask, error) {
	if k.Name == "" {
		return NewTask{}, errUnnamed
	}
	payload, err := k.codec().Marshal(v)
	if err != nil {
		return NewTask{}, fmt.Errorf("dbq: task of kind %q: %w: %w", k.Name, ErrPayload, err)
	}
	t := NewTask{Kind: k.Name, Payload: payload}
	if k.Defaults != nil {
		k.Defaults(&t)
	}
	for _, opt := range opts {
		opt(&t)
	}
	return t, nil
}

// Enqueue adds a task of this kind to its queue and returns the task's id. By default the task is due now. Errors are
// those of Queue.Enqueue, and ErrPayload.
func (k Kind[T]) Enqueue(ctx context.Context, c *Client, v T, opts ...func(*NewTask)) (uuid.UUID, error) {
	t, err := k.Task(v, opts...)
	if err != nil {
		return uuid.Nil, err
	}
	return c.Queue(k.Queue).Enqueue(ctx, t)
}

// EnqueueTx is Enqueue in the caller's transaction.
func (k Kind[T]) EnqueueTx(ctx context.Context, tx Tx, c *Client, v T, opts ...func(*NewTask)) (uuid.UUID, error) {
	t, err := k.Task(v, opts...)
	if err != nil {
		return uuid.Nil, err
	}
	return c.Queue(k.Queue).EnqueueTx(ctx, tx, t)
}

// EnqueueMany adds a task for each value, in one transaction; see Queue.EnqueueMany. The options apply to every task.
// For tasks with different options, make each with Task and pass them to Queue.EnqueueMany.
func (k Kind[T]) EnqueueMany(ctx context.Context, c *Client, vs []T, opts ...func(*NewTask)) ([]Enqueued, error) {
	ts, err := k.tasks(vs, opts)
	if err != nil {
		return nil, err
	}
	return c.Queue(k.Queue).EnqueueMany(ctx, ts)
}

// EnqueueManyTx is EnqueueMany in the caller's transaction.
func (k Kind[T]) EnqueueManyTx(ctx context.Context, tx Tx, c *Client, vs []T, opts ...func(*NewTask)) (
	[]Enqueued, error) {
	ts, err := k.tasks(vs, opts)
	if err != nil {
		return nil, err
	}
	return c.Queue(k.Queue).EnqueueManyTx(ctx, tx, ts)
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

// Decode returns the value in a task's payload. It returns ErrPayload if the task is of another kind or its payload
// cannot be decoded, and ErrKind without a Name.
func (k Kind[T]) Decode(t Task) (T, error) {
	var v T
	if k.Name == "" {
		return v, errUnnamed
	}
	if t.Kind != k.Name {
		return v, fmt.Errorf("dbq: task of kind %q: %w: want kind %q", t.Kind, ErrPayload, k.Name)
	}
	if err := k.codec().Unmarshal(t.Payload, &v); err != nil {
		return v, fmt.Errorf("dbq: task of kind %q: %w: %w", k.Name, ErrPayload, err)
	}
	return v, nil
}
