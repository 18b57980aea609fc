package worker

import (
	"sync"
	"time"

	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// If the database rolled a transaction back because of another one (a deadlock, a serialization failure), the task
// has not failed: the worker releases it for a pause, and the attempt does not count.
const (
	// conflictsMost is how many attempts in a row may end in a conflict in one worker. The next one counts as a failure,
	// so no task is retried forever.
	conflictsMost = 20
	// conflictPause is the pause after the first conflict; it doubles up to conflictMaxPause, less a random part of up
	// to half.
	conflictPause, conflictMaxPause = 10 * time.Millisecond, 500 * time.Millisecond
	// conflictsKept limits the number of tasks in conflicts.
	conflictsKept = 10_000
)

// conflicts counts attempts in a row that ended in a conflict, by task.
type conflicts struct {
	mu sync.Mutex
	n  map[uuid.UUID]int
}

// add counts a conflict. It returns false if there were too many.
func (c *conflicts) add(task uuid.UUID) (pause time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil || len(c.n) >= conflictsKept {
		c.n = map[uuid.UUID]int{}
	}
	n := c.n[task]
	if n >= conflictsMost {
		delete(c.n, task)
		return 0, false
	}
	c.n[task] = n + 1
	pause = min(conflictPause<<min(n, 10), conflictMaxPause)
	return store.Jittered(pause), true
}

// forget resets the count of a task.
func (c *conflicts) forget(task uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.n, task)
}
