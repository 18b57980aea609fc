// Package control manages the records that the workers and operators of the same tables share: the registry of
// workers, commands to workers, leadership of duties, and the settings and pauses of queues. All of them are key/value
// records in the database. No task depends on them: a task belongs to the holder of its lease.
package control

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// The namespaces of records.
const (
	namespacePause     = store.NamespacePause    // by queue: it hands out no tasks
	namespaceSettings  = store.NamespaceSettings // by queue
	namespaceRetention = "retention"             // by queue: the retention of its workers, unless its settings have one
	namespaceWorker    = store.NamespaceWorkers  // by worker: its last report
	namespaceCommand   = "command"               // by worker: its command
	namespaceLeader    = "leader"                // by duty: the member that leads
)

// Waker wakes waiting workers in this process, and in other processes if the engine notifies.
type Waker interface {
	// WakeControl wakes the queue's workers to read settings and commands.
	WakeControl(queue string)
	// WakeTasks wakes the queue's workers to check out n tasks.
	WakeTasks(queue string, n int)
}

// Options are the dependencies of Control besides the store.
type Options struct {
	Waker  Waker
	Logger *slog.Logger
	// Wrap adds the operation, and the queue if there is one, to an error; it returns nil for nil.
	Wrap func(op, queue string, task uuid.UUID, err error) error
}

// Control is a client's access to these records. It is safe for concurrent use.
type Control struct {
	Options
	store *store.Store

	versions sync.Map     // of the records of this client's workers, by worker id
	led      sync.Map     // the pairs of member and duty that have led through this client
	purged   atomic.Int64 // when dead workers were last removed, in nanoseconds
}

// New makes a Control.
func New(s *store.Store, o Options) *Control { return &Control{Options: o, store: s} }

// wrap wraps the error of an operation that is not about a single task.
func (c *Control) wrap(op, queue string, err error) error { return c.Wrap(op, queue, uuid.Nil, err) }
