package dbq

import (
	"time"

	"github.com/dbq-go/dbq/internal/store"
)

// Forever is the retention of what is never removed.
const Forever = store.Forever

// KeepForever removes nothing. As Worker.Retention it switches off the worker's defaults.
var KeepForever = Retention{Completed: Forever, Poison: Forever, Parked: Forever, Attempts: Forever}

// Retention is how long what has ended is kept: up to MaxDelay, or Forever. Zero is unset: admin.Clean removes nothing
// then, admin.QueueSettings leave it to each worker, and a worker uses its default.
type Retention struct {
	Completed time.Duration // tasks that are COMPLETED
	Poison    time.Duration // tasks that are POISON
	Parked    time.Duration // tasks in ERROR that are not retried by themselves
	Attempts  time.Duration // the history of attempts
	// Archive moves tasks into the archive, a table of its own, instead of removing them. dbq removes nothing from it.
	Archive bool
}

// Removes reports whether anything is removed or archived.
func (r Retention) Removes() bool { return store.CleanPolicy(r).Removes() }
