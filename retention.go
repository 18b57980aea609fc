package dbq

import (
	"time"

	"github.com/dbq-go/dbq/internal/store"
)

// Forever is a retention that keeps tasks and attempts forever.
const Forever = store.Forever

// KeepForever returns a retention that removes nothing. As Worker.Retention it disables the worker's defaults.
func KeepForever() Retention {
	return Retention{Completed: Forever, Poison: Forever, Cancelled: Forever, Parked: Forever, Attempts: Forever}
}

// Retention sets how long ended tasks and the history are kept: up to MaxDelay, or Forever. Zero means not set. Then
// admin.Admin.Clean removes nothing, admin.QueueSettings leaves the choice to each worker, and a worker uses its
// default.
type Retention struct {
	Completed time.Duration // tasks in COMPLETED
	Poison    time.Duration // tasks in POISON that were not cancelled
	Cancelled time.Duration // cancelled tasks
	Parked    time.Duration // tasks in ERROR that are not retried automatically
	Attempts  time.Duration // the history of attempts
	// Archive moves tasks to the archive, a separate table, instead of removing them. dbq never removes anything from
	// the archive.
	Archive bool
}

// Removes reports whether anything is removed or archived.
func (r Retention) Removes() bool { return store.Retention(r).Removes() }
