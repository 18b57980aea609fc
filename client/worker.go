package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/limits"
	"github.com/dbq-go/dbq/worker"
)

// A Worker runs a handler on the tasks of a queue, as worker.Worker does with access to the database: worker.Mux,
// worker.Handle, worker.SetProgress and middleware work unchanged. Queue and Handler are required. For every other
// field, zero means the documented default. Do not change a Worker while Run is running.
//
// Run refuses handlers that need the database: worker.TxHandler and worker.HandleTx. It has no worker.BatchHandler,
// OnPoison, Group, Switch and Observe. It is not in the registry of workers, so operators cannot pause it, and it
// applies no settings of its queue; a pause and the limits of the queue apply. The server cleans the queue, continues
// workflows and writes statistics.
type Worker struct {
	Queue   *Queue
	Handler worker.Handler

	// Middleware wraps Handler. The first one is the outermost.
	Middleware []worker.Middleware
	// Concurrency is the number of tasks that the worker holds and handles at once. The default is 10, the maximum 1000.
	// It leases no tasks ahead.
	Concurrency int
	// Lease is the length of each lease: if the worker dies, others take over its tasks after this time. The worker
	// extends each lease three times within this time. A handler whose task was cancelled, revoked or taken over gets the
	// end of its context at the next extension. The default is 30 seconds, the minimum 100 milliseconds.
	Lease time.Duration
	// Wait is how long one request waits for a task to become due; the server may shorten it. Run does not interrupt such
	// a request when its context ends, because the server might have just leased a task, so a stop takes up to Wait
	// longer. The default is 5 seconds, the maximum 60 seconds.
	Wait time.Duration
	// DrainTimeout is how long handlers and the storing of outcomes may continue after Run's context has ended, or after
	// the queue is empty under UntilEmpty. Then the contexts of handlers end, with the cause worker.ErrShutdown, and the
	// worker has two seconds to store outcomes. A handler that ignores its context adds up to Grace. The default is 30
	// seconds.
	DrainTimeout time.Duration
	// Timeout limits one call of the handler. After this time the handler's context ends with the cause
	// worker.ErrTimeout, and its error fails the attempt. The default is no limit.
	Timeout time.Duration
	// Grace is how long a handler may ignore the end of its context. After this time the worker continues without it; if
	// Timeout has passed, the attempt has failed. The default is 5 seconds.
	Grace time.Duration
	// MaxAttempts caps the task's own limit of attempts. Zero means no cap.
	MaxAttempts int
	// Backoff returns the pause before attempt+1 of a task that failed. The default is
	// dbq.Exponential(time.Second, time.Hour).
	Backoff func(attempt int) time.Duration
	// UntilEmpty makes Run drain and return when a checkout finds no task and this worker holds none. A task of a checkout
	// whose response was lost counts as held until its lease expires.
	UntilEmpty bool
	// ID is the worker's name in leases and in the history, up to dbq.MaxWorkerID characters. The default is the host's
	// name and a random part.
	ID string
	// Logger receives one line for each event that operators need to know about; docs/clients.md lists the lines. No line
	// contains a payload or a token. The default is the client's logger.
	Logger *slog.Logger
}

const (
	defaultConcurrency = 10
	maxConcurrency     = 1000
	defaultLease       = 30 * time.Second
	minLease           = 100 * time.Millisecond
	defaultWait        = 5 * time.Second
	maxWait            = time.Minute
	defaultDrain       = 30 * time.Second
	defaultGrace       = 5 * time.Second
)

// Run works until ctx ends, or until the server refuses a checkout for a reason that repeating it does not cure: the
// token, the database or the queue. If the server cannot be reached or cannot serve, Run keeps trying. It returns
// ErrConfig for an invalid field.
//
// When ctx ends, Run takes no more tasks, releases those that have not started, and gives running handlers DrainTimeout
// to finish, with their leases extended. If a handler returns because its context ended, its task is released. Run
// returns nil after a clean drain, and worker.ErrAbandoned if handlers did not return.
func (w *Worker) Run(ctx context.Context) error {
	cfg, err := w.withDefaults()
	if err != nil {
		return err
	}
	return newRun(ctx, cfg).run(ctx)
}

// withDefaults checks the fields and sets those that are zero to their defaults.
func (w Worker) withDefaults() (Worker, error) {
	if w.Queue == nil || w.Handler == nil {
		return w, fmt.Errorf("%w: Queue and Handler are required", ErrConfig)
	}
	if err := checkQueueName(w.Queue.name); err != nil {
		return w, err
	}
	if err := needsDatabase(w.Handler); err != nil {
		return w, err
	}
	w.Concurrency = cmp.Or(w.Concurrency, defaultConcurrency)
	w.Lease = cmp.Or(w.Lease, defaultLease)
	w.Wait = cmp.Or(w.Wait, defaultWait)
	w.DrainTimeout = cmp.Or(w.DrainTimeout, defaultDrain)
	w.Grace = cmp.Or(w.Grace, defaultGrace)
	w.ID = cmp.Or(w.ID, newID())
	if err := cmp.Or(
		limits.Range("Concurrency", w.Concurrency, 1, maxConcurrency, ErrConfig),
		limits.Range("Lease", w.Lease, minLease, dbq.MaxLease, ErrConfig),
		limits.Range("Wait", w.Wait, time.Millisecond, maxWait, ErrConfig),
		limits.Range("DrainTimeout", w.DrainTimeout, 0, dbq.MaxLease, ErrConfig),
		limits.Range("Timeout", w.Timeout, 0, dbq.MaxDelay, ErrConfig),
		limits.Range("Grace", w.Grace, 0, dbq.MaxLease, ErrConfig),
		limits.Range("MaxAttempts", w.MaxAttempts, 0, dbq.MaxMaxAttempts, ErrConfig),
		limits.Range("the length of ID", utf8.RuneCountInString(w.ID), 1, dbq.MaxWorkerID, ErrConfig),
	); err != nil {
		return w, err
	}
	if w.Backoff == nil {
		w.Backoff = dbq.Exponential(time.Second, time.Hour)
	}
	if w.Logger == nil {
		w.Logger = w.Queue.client.cfg.Logger
	}
	w.Logger = w.Logger.With("queue", w.Queue.name)
	return w, nil
}

// needsDatabase refuses a handler that completes tasks in a transaction.
func needsDatabase(h worker.Handler) error {
	const cure = "use a worker.Worker with access to the database"
	switch h := h.(type) {
	case worker.TxHandler, *worker.TxHandler:
		return fmt.Errorf("%w: a TxHandler needs the database; %s", ErrConfig, cure)
	case *worker.Mux:
		if kinds := h.TxKinds(); len(kinds) > 0 {
			return fmt.Errorf("%w: the handlers of %s need the database; %s", ErrConfig, strings.Join(kinds, ", "), cure)
		}
	}
	return nil
}

// newID returns an id for a worker.
func newID() string {
	host, err := os.Hostname()
	if err != nil || !utf8.ValidString(host) {
		host = "go"
	}
	return host[:min(len(host), 64)] + "#" + strings.ToLower(rand.Text()[:10])
}
