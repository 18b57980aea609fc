package dbq

import (
	"time"

	"github.com/dbq-go/dbq/internal/store"
)

// Forever is the retention of tasks and attempts that are never removed.
const Forever = store.Forever

// KeepForever returns a retention that removes nothing. As Worker.Retention it disables the worker's defaults.
func KeepForever() Retention {
	return Retention{Completed: Forever, Poison: Forever, Parked: Forever, Attempts: Forever}
}

// Retention says how long ended tasks and the history are kept: up to MaxDelay, or Forever. Zero means not set:
// admin.Clean then removes nothing, admin.QueueSettings leave the choice to each worker, and a worker uses its default.
type Retention struct {
	Completed time.Duration // tasks that are COMPLETED
	Poison    time.Duration // tasks that are POISON
	Parked    time.Duration // tasks in ERROR that are not retried by themselves
	Attempts  time.Duration // the history of attempts
	// Archive moves tasks to the archive, a separate table, instead of removing them. dbq never removes anything from it.
	Archive bool
}

// Removes reports whether anything is removed or archived.
func (r Retention) Removes() bool { return store.CleanPolicy(r).Removes() }
