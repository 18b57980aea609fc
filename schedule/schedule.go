// Package schedule enqueues tasks by cron expression, at an interval, or once. The schedules are stored in the
// database. Any number of processes can call Run, and any of these can fire a schedule; each scheduled time fires
// exactly once.
//
//	schedules := schedule.New(client)
//	err := schedules.Put(ctx, schedule.Schedule{
//		Name: "nightly-report", Cron: "30 2 * * *", Zone: "Europe/Berlin",
//		Queue: "reports", Task: dbq.NewTask{Kind: "nightly"},
//	})
//	err = schedules.Run(ctx) // until ctx ends
//
// If your program defines its schedules in code, call Reconcile when it starts. Times are by the database's clock.
package schedule

import (
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/core"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// Limits of a Schedule. The Schedule with its Task, as JSON with the payload in base64, must fit in 3,000 bytes.
const (
	MaxName    = 100         // characters in a schedule's name
	MaxReason  = 200         // characters in the reason of a change
	MinEvery   = time.Second // of Every
	MaxCatchUp = 1000        // of CatchUp
	MaxJitter  = 24 * time.Hour
)

// SkipMissed as Schedule.CatchUp skips missed times.
const SkipMissed = -1

// ErrDefinition is returned for a Schedule with an invalid field. It matches dbq.ErrInvalid too. Other errors come from
// package dbq.
var ErrDefinition error = &errs.InvalidError{Text: "invalid schedule"}

// Schedule defines a task and the times at which to enqueue it. Set exactly one of Cron, Every and At.
type Schedule struct {
	// Name identifies the schedule. It has 1 to MaxName characters.
	Name string
	// Cron has five fields: minute, hour, day of the month, month and day of the week; or it is @hourly, @daily,
	// @weekly, @monthly or @yearly. A time that the clock skips when daylight saving time begins fires at the end of
	// the gap, and a time that the clock shows twice fires at the first one. If the hour is *, the schedule follows
	// elapsed time instead.
	Cron string
	// Zone is the IANA name of Cron's time zone, such as Europe/Berlin; "" is UTC.
	Zone string
	// Every is an interval of at least MinEvery, counted from when the schedule was put. It ends 100 years later.
	Every time.Duration
	// At is a single time.
	At time.Time

	// Queue is the queue for Task. Task.ID, Reference and RunAt must be zero. The enqueued task's reference is
	// "schedule:" with the name and the time, so no time is enqueued twice. Its headers HeaderName and HeaderTime
	// contain the name and the time.
	Queue string
	Task  dbq.NewTask

	// CatchUp is how many missed times to make up for if no process was running: the latest ones, up to MaxCatchUp,
	// immediately and in order. The zero value makes up for one, SkipMissed for none. A time counts as missed when it
	// is more than a minute ago, and is dropped after a year. Times that are not missed always fire.
	CatchUp int
	// NoOverlap skips a time if the task of an earlier time, or one of the last five tasks of RunNow, has not ended.
	NoOverlap bool
	// Jitter is the upper bound of a random delay of each task, at most MaxJitter.
	Jitter time.Duration

	err error // of For
}

// For returns s with a task of a kind, in the kind's queue unless s names another one. Fields of the task, such as
// Task.Priority, can be set afterwards. If v cannot be encoded, Check and whatever stores the schedule return
// dbq.ErrPayload.
func For[T any](k dbq.Kind[T], v T, s Schedule) Schedule {
	s.Task, s.err = k.Task(v)
	if s.Queue == "" {
		s.Queue = k.Queue
	}
	return s
}

// The headers of the tasks that a schedule enqueues.
const (
	HeaderName = "dbq-schedule"      // the schedule's name
	HeaderTime = "dbq-schedule-time" // the time that the task is for, in RFC 3339 and UTC
)

// Info is a stored Schedule and its status.
type Info struct {
	Schedule
	// Owner is the owner that declared it by Reconcile, or "".
	Owner string
	// Next is when it fires next, before jitter. It is zero if the schedule is paused or At has passed.
	Next time.Time
	// Last is the last scheduled time with a task, and LastTaskID is the id of that task. They are zero if there is
	// none.
	Last       time.Time
	LastTaskID uuid.UUID
	// Problem is the reason for which the last time was skipped, or "".
	Problem string
	// Paused reports a pause; the fields after it are its time, operator and reason.
	Paused bool
	Since  time.Time
	By     string
	Reason string
	// Updated is when any of this last changed.
	Updated time.Time
	// Revision identifies the definition: it differs after the Schedule was changed. See Replace.
	Revision string

	start time.Time // when it was put: Every counts from here
}

// Schedules manages the schedules in a client's tables. It is safe for concurrent use and needs no Close.
type Schedules struct {
	client *dbq.Client
	core   *core.Core
	store  *store.Store
	wake   chan struct{} // Put wakes this process's own Run
	newest atomic.Int64  // the last time of the database's clock that fireDue has read, in microseconds
}

// New returns the Schedules of a client. It sends nothing to the database.
func New(c *dbq.Client) *Schedules {
	parts := access.Of(c)
	return &Schedules{client: c, core: parts, store: parts.Store, wake: make(chan struct{}, 1)}
}

func (s *Schedules) wrap(op, queue string, err error) error {
	return s.core.Wrap(op, queue, uuid.Nil, err)
}
