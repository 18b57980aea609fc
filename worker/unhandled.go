package worker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/store"
)

// unhandled are the tasks whose kinds have no handler here, as in a rolling deploy, when new programs enqueue a kind
// before all workers have its handler. They go back to the queue, for workers that have it, and no attempt counts. One
// line a minute lists the kinds.
type unhandled struct {
	*env

	mu    sync.Mutex
	kinds map[string]*unhandledKind // at most unhandledMost, and "other kinds" for the rest
	timer *time.Timer               // when the next line may be written; nil if there was none in the last minute
}

type unhandledKind struct {
	since, last time.Time // the first such task and the last one
	tasks       int       // since the last line
}

const (
	unhandledMost  = 20
	unhandledOther = "other kinds"
	unhandledLine  = time.Minute
	// A task goes back for an eighth of the time for which the kind has been met, or of the task's age if that is less,
	// within these limits. So another worker soon gets a new task, and a kind that no worker handles costs little.
	unhandledLeast = time.Second
	unhandledPause = 10 * time.Minute
)

// add counts a task, and returns for how long it goes back.
func (u *unhandled) add(t *dbq.Task) (pause time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	name, now := t.Kind, time.Now()
	if u.kinds == nil {
		u.kinds = map[string]*unhandledKind{}
	}
	if len(u.kinds) >= unhandledMost && u.kinds[name] == nil {
		name = unhandledOther
	}
	k := u.kinds[name]
	if k == nil {
		k = &unhandledKind{since: now}
		u.kinds[name] = k
	}
	k.last = now
	if k.tasks++; u.timer == nil {
		u.timer = time.AfterFunc(logWindow, u.write) // with the tasks of the same checkout
	}
	met := min(now.Sub(k.since), now.Sub(t.Created))
	return store.Jittered(min(max(met/8, unhandledLeast), unhandledPause))
}

// write writes a line about the tasks since the last one. The next line follows after a minute.
func (u *unhandled) write() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.timer = nil
	if u.flush() {
		u.timer = time.AfterFunc(unhandledLine, u.write)
	}
}

// flush writes the line, and reports whether there was anything to write. The caller holds u.mu.
func (u *unhandled) flush() bool {
	total := 0
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(u.kinds)) {
		if k := u.kinds[name]; k.tasks > 0 {
			parts = append(parts, fmt.Sprintf("%q %d", name, k.tasks))
			total, k.tasks = total+k.tasks, 0
		}
	}
	if total > 0 {
		u.log.write(lineNoHandler, "tasks", total, "kinds", strings.Join(parts, ", "),
			"cure", "deploy a worker with handlers for them, or cancel the tasks")
	}
	return total > 0
}

// recent returns the kinds that were met lately. Tasks of theirs may still be waiting.
func (u *unhandled) recent() (kinds []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(u.kinds)) {
		if time.Since(u.kinds[name].last) <= 2*unhandledPause {
			kinds = append(kinds, name)
		}
	}
	return kinds
}

// close writes the last line.
func (u *unhandled) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.timer != nil {
		u.timer.Stop()
	}
	u.flush()
}

// noHandlerError is the error of an attempt whose kind has no handler.
type noHandlerError struct {
	kind  string
	kinds []string // that have one
}

func (e *noHandlerError) Error() string {
	return fmt.Sprintf("%v %q, only for %q", ErrNoHandler, e.kind, e.kinds)
}
func (e *noHandlerError) Unwrap() error { return ErrNoHandler }
