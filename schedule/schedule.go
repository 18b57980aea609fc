// Package schedule enqueues tasks by cron expression, at an interval, or once. The schedules are in the database. Any
// number of processes may call Run, and any of them may fire a schedule; each time fires exactly once.
//
//	schedules := schedule.New(client)
//	err := schedules.Put(ctx, schedule.Schedule{
//		Name: "nightly-report", Cron: "30 2 * * *", Zone: "Europe/Berlin",
//		Queue: "reports", Task: dbq.NewTask{Kind: "nightly"},
//	})
//	err = schedules.Run(ctx) // until ctx ends
//
// Programs that define their schedules in code call Reconcile when they start. Times are those of the database's clock.
package schedule

import (
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/core"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// Limits of a Schedule. Its Task and the rest of it, as JSON with the payload in base64, must fit in 3,000 bytes.
const (
	MaxName    = 100         // characters in a schedule's name
	MaxReason  = 200         // characters in the reason of a pause
	MinEvery   = time.Second // of Every
	MaxCatchUp = 1000        // of CatchUp
	MaxJitter  = 24 * time.Hour
)

// Skip as Schedule.CatchUp leaves out the times that were missed.
const Skip = -1

// ErrInvalid is returned for a Schedule with an invalid field. It matches dbq.ErrInvalid too. Other errors are those of
// package dbq.
var ErrInvalid error = &errs.InvalidError{Text: "invalid schedule"}

// Schedule says which task to enqueue when. Exactly one of Cron, Every and At is set.
type Schedule struct {
	// Name identifies the schedule, in 1 to MaxName characters.
	Name string
	// Cron has five fields: minute, hour, day of the month, month and day of the week; or it is @hourly, @daily, @weekly,
	// @monthly or @yearly. A time that the clock skips when daylight saving time begins fires at the end of the gap, and
	// a time that the clock shows twice fires the first time. Where the hour is *, it follows elapsed time instead.
	Cron string
	// Zone is the time zone of Cron by its IANA name, such as Europe/Berlin; "" is UTC.
	Zone string
	// Every is an interval of at least MinEvery, counted from when the schedule was put.
	Every time.Duration
	// At is a single time.
	At time.Time

	// Queue is where the task goes, and Task what it is. Task.ID, Reference and RunAt must be zero. The task's reference
	// is "schedule:" with the name and the time, so that a time is never enqueued twice, and its headers
	// HeaderName and HeaderTime say for which time it is.
	Queue string
	Task  dbq.NewTask

	// CatchUp is how many missed times to make up for, after no process was running: the latest ones, up to MaxCatchUp,
	// at once and in their order. The zero value makes up for one, Skip for none. A time counts as missed when it is more
	// than a minute ago, and is forgotten after a year. Times that are not missed fire in any case.
	CatchUp int
	// NoOverlap leaves out a time while the task of an earlier one has not ended.
	NoOverlap bool
	// Jitter delays each task by a random time below it, up to MaxJitter.
	Jitter time.Duration
}

// The headers of the tasks that a schedule enqueues.
const (
	HeaderName = "dbq-schedule"      // the schedule's name
	HeaderTime = "dbq-schedule-time" // the time that the task is for, in RFC 3339 and UTC
)

// Info is a Schedule as it is stored, and where it stands.
type Info struct {
	Schedule
	// Owner is who declared it by Reconcile, or "".
	Owner string
	// Next is when it fires next, before jitter; zero if it does not, because it is paused or At has passed.
	Next time.Time
	// Last is the last time that it enqueued a task for, and LastTask that task. They are zero if there is none.
	Last     time.Time
	LastTask uuid.UUID
	// Problem is why the last time was left out, or "".
	Problem string
	// Paused, and since when, by whom and why.
	Paused bool
	Since  time.Time
	By     string
	Reason string
	// Updated is when anything of this last changed.
	Updated time.Time
}

// Schedules are those of a client's tables. It is safe for concurrent use, and needs no Close.
type Schedules struct {
	client *dbq.Client
	core   *core.Core
	store  *store.Store
	wake   chan struct{} // Put tells this process's own Run
}

// New returns the schedules of a client's tables. It costs nothing.
func New(c *dbq.Client) *Schedules {
	parts := access.Of(c)
	return &Schedules{client: c, core: parts, store: parts.Store, wake: make(chan struct{}, 1)}
}

func (s *Schedules) wrap(op, queue string, err error) error {
	return s.core.Wrap(op, queue, uuid.Nil, err)
}
