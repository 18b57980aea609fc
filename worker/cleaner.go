package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// cleanEvery is how often one of a queue's workers removes tasks and attempts whose retention has passed. It is a
// variable, so that tests need not wait.
var cleanEvery = time.Minute

// cleaner removes tasks and attempts whose retention has passed, in one of the queue's workers at a time. It is not
// urgent, so it does not use the connections reserved for leases.
type cleaner struct {
	*env
	shared *control.Control
	member string // its name in the election, unique for each run, whatever Worker.ID is
}

// run cleans until ctx ends.
func (c *cleaner) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(cleanEvery*3/4 + rand.N(cleanEvery/2)):
		}
		keep := c.settings().retention
		if !keep.Removes() {
			continue
		}
		if err := c.clean(ctx, keep); ctx.Err() == nil {
			c.health.report(opClean, err)
		}
	}
}

func (c *cleaner) clean(ctx context.Context, keep dbq.Retention) error {
	ctx, cancel := context.WithTimeout(ctx, cleanEvery)
	defer cancel()
	q := c.cfg.Queue
	leads, err := c.shared.TryLead(ctx, "clean "+q.Name(), c.member, 3*cleanEvery)
	if err != nil || !leads {
		return err
	}
	parts := access.Of(q.Client())
	done, err := parts.Store.Clean(ctx, q.Name(), store.Retention(keep), store.History(c.settings().history))
	err = parts.Wrap("clean", q.Name(), uuid.Nil, err)
	unfinished := err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) // the next run continues there
	line := lineNoClean
	if done != (store.Cleaned{}) || unfinished {
		line = lineCleaned
	}
	if err == nil || line == lineCleaned {
		c.log.write(line, "tasks", done.Tasks, "attempts", done.Attempts, "unfinished", unfinished)
	}
	if unfinished {
		return nil
	}
	return err
}
