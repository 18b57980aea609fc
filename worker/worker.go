// Package worker runs a handler on the tasks of a queue. It checks tasks out, renews their leases while handlers run,
// settles tasks in batches, and drains when its context ends.
//
//	mux := worker.NewMux()
//	worker.Handle(mux, SendMail, func(ctx context.Context, t dbq.Task, m Mail) error { ... })
//	w := worker.Worker{Queue: c.Queue("mail"), Handler: mux}
//	err := w.Run(ctx) // until ctx ends; then it drains
//
// A task is handed out at least once. If its lease is lost, the handler's context ends, and another worker may handle
// the task at the same time. If an effect must happen exactly once, put it in the transaction that completes the
// task: see HandleTx.
package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/dbq-go/dbq"
)

// A Worker runs a Handler on the tasks of a queue: a *dbq.Queue or, in a program without access to the database, a
// *client.Queue. docs/clients.md lists the differences of the latter.
//
// Queue and either Handler or BatchHandler are required. For every other field, zero means the documented default. Do
// not change a Worker while Run is running.
type Worker struct {
	Queue   Queue
	Handler Handler

	// BatchHandler replaces Handler. It gets up to BatchSize tasks in one call: those that arrive within 5 milliseconds
	// of the first. The default BatchSize is 100, or MaxCheckout if that is less.
	BatchHandler BatchHandler
	BatchSize    int
	// Middleware wraps Handler. The first one is the outermost.
	Middleware []Middleware

	// Concurrency is the number of handlers that run at once. The default is 10. If the pool of Client.DB has fewer
	// connections, Run logs a warning: handlers that begin transactions would wait for each other.
	Concurrency int
	// Weight is the worker's share of the tasks that a Group starts. The default is 1.
	Weight int
	// MaxCheckout is the maximum number of tasks in one checkout. The default is 1000. The worker leases tasks ahead:
	// as many as its handlers are likely to start during the next two checkouts, estimated from the recent durations of
	// both, and at most four full checkouts. So slow tasks are left for other workers.
	MaxCheckout int
	// Lease is the length of each lease: if the worker dies, others take over its tasks after this time. The worker
	// renews each lease three times within this time. The default is 30 seconds, the minimum 100 milliseconds.
	Lease time.Duration
	// DrainTimeout is how long handlers, OnPoison and the database may continue after Run's context has ended, or after
	// the queue is empty under UntilEmpty. Then the contexts of handlers and of OnPoison end, and the worker has one
	// second to store outcomes. Run returns within DrainTimeout and 3 seconds, 2 of which are for statements under way;
	// a handler or OnPoison that ignores its context adds up to Grace. Tasks whose outcome could not be stored by then
	// are handed out again when their leases have expired. The default is 30 seconds.
	DrainTimeout time.Duration
	// Timeout limits one call of the handler, independent of its lease, which is renewed meanwhile. After this time the
	// handler's context ends with the cause ErrTimeout, and its error fails the attempt. The default is no limit.
	Timeout time.Duration
	// MaxAttempts caps the task's own limit of attempts. Zero means no cap.
	MaxAttempts int
	// OnPoison is called for each task that this worker moves to POISON, with the handler's error; err is nil if the
	// lease of the last attempt expired. Calls run one at a time, beside the handlers. ctx ends with DrainTimeout, and
	// Run waits for a call at most Grace after that. Calls still waiting then, and calls beyond 10,000 waiting ones,
	// are dropped, and the log reports how many. The default is no call.
	OnPoison func(ctx context.Context, t dbq.Task, err error)
	// Observe receives the worker's observations. It is called from many goroutines and must return quickly. The
	// default is no call.
	Observe func(o Observation)
	// Switch pauses the worker from within the program. The default is none.
	Switch *Switch
	// Backoff returns the pause before attempt+1 of a task that failed. The default is dbq.DefaultBackoff, by which the
	// 20 attempts that a task has by default take about six days.
	Backoff func(attempt int) time.Duration
	// UntilEmpty makes Run drain and return when no task is due and this worker holds none. A task whose settlement the
	// database did not confirm counts as held until its lease expires; a checkout then takes it over. A due task that
	// the limits of the queue keep back, such as one whose key is in use or blocked, keeps Run waiting. The worker does
	// not listen for notifications.
	UntilEmpty bool
	// ID is the worker's name in the registry, in the leases and in the history, up to dbq.MaxWorkerID characters. No
	// other worker may have the same ID. The default is the client's ID and a number.
	ID string
	// History selects the attempts that are recorded, unless the queue's settings override it. The default is all.
	History dbq.History
	// Retention sets how long ended tasks and their history are kept, unless the queue's settings override it. One
	// worker of the queue removes them, once a minute. By default completed tasks are kept for 24 hours, cancelled
	// tasks and the history of attempts for 7 days, and tasks in POISON and parked tasks for 30 days. KeepForever
	// removes nothing.
	Retention dbq.Retention
	// Logger receives one line for each event that operators need to know about, with a count if the event affects many
	// tasks; docs/log.md lists the lines. No line contains a payload. The default is the client's logger, which is
	// slog.Default unless WithLogger replaces it.
	Logger *slog.Logger

	Tuning
}

// Tuning has the fields of a Worker that few programs set.
type Tuning struct {
	// PollMin and PollMax limit the pause between two queries of an idle worker. Pauses grow from PollMin to PollMax,
	// less a random part of up to half. The worker also wakes up when the client learns of new tasks, and when the next
	// task is due. After a full checkout, the worker checks out again immediately. The defaults are 10
	// milliseconds and 2 seconds, which is less than one query per second.
	PollMin, PollMax time.Duration
	// Grace is how long a handler may ignore the end of its context. After this time the worker logs the handler's
	// stack and continues without it; if Timeout has passed, the attempt has failed. The default is 5 seconds.
	Grace time.Duration
	// ReportInterval is how often the worker reports to the registry and reads commands and settings. It also does so
	// when it is notified of a change. A worker that has not reported for three intervals is listed as dead. The
	// default is 15 seconds, the minimum 10 milliseconds.
	ReportInterval time.Duration
	// Unlisted keeps the worker out of the registry. It then ignores the queue's settings and operators' commands, and
	// does not clean. A pause of the queue still applies, and it still advances workflows. By default the worker is in
	// the registry, which costs about one statement every 5 seconds.
	Unlisted bool
	// NoStatistics turns off the statistics over time of this worker, as the queue's settings can for all of its
	// workers. By default a worker that was busy writes a row once a minute, and one of all workers samples the queues;
	// see docs/statistics.md. An Unlisted worker and Step write none.
	NoStatistics bool
}
