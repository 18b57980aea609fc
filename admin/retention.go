package admin

import (
	"context"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/limits"
	"github.com/dbq-go/dbq/internal/store"
)

// Cleaned counts what Clean removed.
type Cleaned struct {
	Tasks    int // removed, or moved into the archive
	Attempts int // removed from the history
}

// Clean removes or archives the tasks of a queue that ended longer ago than r allows, and its old history, in short
// transactions of at most 500 tasks. Workers do it by themselves once a minute; Clean is for queues without workers,
// and for a retention that is not theirs.
//
// It finds tasks by their ids, which are ordered by time, and the client remembers how far it came: the next call
// passes only those that have grown old since. A task that it passed before the task ended is found in the next round
// over all old tasks, which begins after a quarter of the retention. So is a task of a producer whose clock is ahead,
// once its id is old enough.
//
// The history keeps the last attempts of the tasks that it removes, unless r has Attempts that are as old removed, too,
// or the queue's settings say otherwise. Tasks in the archive have theirs with them.
//
// When Clean cannot finish, it returns an error, such as that of ctx. Cleaned counts what was removed before, and the
// next call continues there. Several calls may run at once.
func (a *Admin) Clean(ctx context.Context, queue string, r dbq.Retention) (Cleaned, error) {
	var done store.Cleaned
	err := limits.QueueName(queue)
	if err == nil {
		err = store.CleanPolicy(r).Check()
	}
	var set control.Settings
	if err == nil {
		set, err = a.core.Control.Settings(ctx, queue)
	}
	if err == nil {
		done, err = a.store.Clean(ctx, queue, store.CleanPolicy(r), store.History(set.History))
	}
	return Cleaned(done), a.wrap("clean", queue, err)
}
