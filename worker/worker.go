// Package worker runs a handler on the tasks of a queue: it checks tasks out, renews their leases while they are
// handled, settles them in batches, and drains when it is told to stop.
//
//	mux := worker.NewMux()
//	worker.Handle(mux, SendMail, func(ctx context.Context, t dbq.Task, m Mail) error { ... })
//	w := worker.Worker{Queue: c.Queue("mail"), Handler: mux}
//	err := w.Run(ctx) // until ctx ends; then it drains
//
// A task is handed out at least once. When its lease is lost, the handler's context ends, and another worker may handle
// the task at the same time. Effects that must happen exactly once belong in the transaction that completes the task:
// see HandleTx.
package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/dbq-go/dbq"
)

// A Worker runs a Handler on the tasks of a queue. Queue and either Handler or BatchHandler are required. For every
// other field, zero means the documented default. Do not change a Worker while Run is running.
type Worker struct {
	Queue   *dbq.Queue
	Handler Handler

	// BatchHandler replaces Handler. It gets up to BatchSize tasks in one call: those that arrive within 5 milliseconds
	// of the first. The default BatchSize is 100, or Batch if that is less.
	BatchHandler BatchHandler
	BatchSize    int
	// Middleware wraps Handler. The first one is the outermost.
	Middleware []Middleware

	// Concurrency is the number of handlers that run at once. The default is 10. If the pool of Client.DB has fewer
	// connections, Run logs a warning: handlers that begin transactions would wait for each other.
	Concurrency int
	// Weight is the worker's share of the tasks that a Group starts. The default is 1.
	Weight int
	// Batch is the maximum number of tasks in one checkout. The default is 1000. The worker leases tasks ahead: as many
	// as its handlers are likely to begin during the next few checkouts, judging by how long both have taken lately, and
	// four batches at most. Slow tasks are therefore left for other workers.
	Batch int
	// Lease is how long the tasks of a worker that died stay with it. The worker renews each lease three times within
	// this time. The default is 30 seconds, the minimum 100 milliseconds.
	Lease time.Duration
	// PollMin and PollMax bound the pause between two queries of an idle worker. Pauses grow from PollMin to PollMax,
	// less a random part of up to half. The worker also wakes up when the client learns of new tasks, and when the next
	// task is due. A queue that fills the batches is checked again at once. The defaults are 10 milliseconds and 2
	// seconds, which is less than one query a second.
	PollMin, PollMax time.Duration
	// DrainTimeout is how long handlers, OnPoison and the database may continue after Run's context has ended, or after
	// the queue is empty under UntilEmpty. Then the contexts of handlers and of OnPoison end, and one second is left to
	// write how the attempts ended. Run returns within DrainTimeout and 3 seconds, 2 of which are for statements under
	// way; a handler or OnPoison that ignores its context adds up to Grace. What could not be written by then is handed
	// out again when its lease has ended. The default is 30 seconds.
	DrainTimeout time.Duration
	// Timeout limits one call of the handler. Its lease is renewed meanwhile. When the time is over, the handler's
	// context ends with the cause ErrTimeout, and its error fails the attempt. The default is no limit.
	Timeout time.Duration
	// Grace is how long a handler may ignore the end of its context. Then the worker logs the handler's stack and
	// continues without it; if Timeout is over, the attempt has failed. The default is 5 seconds.
	Grace time.Duration
	// MaxAttempts caps the task's own limit of attempts. Zero means no cap.
	MaxAttempts int
	// OnPoison is called for each task that this worker moves to POISON, with the handler's error; err is nil if the
	// lease of the last attempt expired. Calls are sequential and run beside the handlers. ctx ends with DrainTimeout,
	// and Run waits for the calls at most Grace after that. Calls that did not get their turn by then, and calls beyond
	// 10,000 that are waiting, are dropped, and the log says how many. The default is no call.
	OnPoison func(ctx context.Context, t dbq.Task, err error)
	// Observe receives what the worker does. It is called from many goroutines and must return at once. The
	// default is no call.
	Observe func(o Observation)
	// Switch pauses the worker from within the program. The default is none.
	Switch *Switch
	// Backoff returns the pause before attempt+1 of a task that failed. The default is
	// dbq.Exponential(time.Second, time.Hour).
	Backoff func(attempt int) time.Duration
	// UntilEmpty makes Run drain and return when no task is due and this worker holds none. A task
	// whose settlement the database did not confirm counts as held until its lease expires; it is then taken over. Such
	// a worker does not listen for notifications.
	UntilEmpty bool
	// ID is the worker's name in the registry, in the leases and in the history, up to dbq.MaxWorkerID characters. No
	// other worker may have the same ID. The default is the client's ID and a number.
	ID string
	// Check is how often the worker reports to the registry and reads what operators want. It also does so when it is
	// notified of a change. A worker that has not reported for three intervals is listed as dead. The default is 15
	// seconds, the minimum 10 milliseconds.
	Check time.Duration
	// Paused makes Run start paused, until an operator resumes the worker: admin.Admin.CommandWorker, dbq worker resume.
	Paused bool
	// Unlisted keeps the worker out of the registry: it follows neither the queue's settings nor commands of operators,
	// and it does not clean. A pause of the queue still applies. By default the worker is in the registry, which costs
	// about one statement in 5 seconds.
	Unlisted bool
	// History selects which attempts are recorded, unless the queue's settings do. The default is all.
	History dbq.History
	// Retention says when ended tasks and their history are removed, where the queue's settings do not. One worker of
	// the queue removes them, once a minute. By default completed tasks are kept for 24 hours and the history of
	// attempts for 7 days; tasks in POISON and parked tasks are never removed. KeepForever removes nothing.
	Retention dbq.Retention
	// Logger receives one line for each event that matters to operators, with a count where an event concerns many
	// tasks; docs/worker.md lists the lines. No line has a payload. The default is the client's logger, which is
	// slog.Default unless WithLogger replaces it.
	Logger *slog.Logger
}
