package worker

import (
	"context"
	"time"

	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/maintenance"
	"github.com/dbq-go/dbq/internal/store"
)

// cleaner removes tasks and attempts whose retention has passed, in one of the queue's workers or servers at a time. It
// is not urgent, so it does not use the connections reserved for leases.
type cleaner struct {
	*env
	member   maintenance.Member
	declared bool // the worker's own retention
}

// run cleans until ctx ends.
func (c *cleaner) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(maintenance.Jittered(maintenance.CleanEvery)):
		}
		err := c.declare(ctx)
		keep := c.settings().retention
		if err == nil && keep.Removes() {
			err = c.clean(ctx, store.Retention(keep))
		}
		if ctx.Err() == nil {
			c.health.report(opClean, err)
		}
	}
}

// declare stores the worker's own retention, for servers that clean the queue in its place.
func (c *cleaner) declare(ctx context.Context) error {
	if c.declared {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, registryTimeout)
	defer cancel()
	own := control.Retained{Queue: c.cfg.Queue.Name(), Retention: store.Retention(c.cfg.Retention),
		History: store.History(c.cfg.History)}
	err := access.Of(c.db.Client()).Control.DeclareRetention(ctx, own, true)
	c.declared = err == nil
	return err
}

func (c *cleaner) clean(ctx context.Context, keep store.Retention) error {
	done, err := c.member.Clean(ctx, c.cfg.Queue.Name(), keep, store.History(c.settings().history))
	if !done.Led {
		return err
	}
	line := lineNoClean
	if done.Cleaned != (store.Cleaned{}) || done.Unfinished {
		line = lineCleaned
	}
	if err == nil || line == lineCleaned {
		c.log.write(line, "tasks", done.Tasks, "attempts", done.Attempts, "unfinished", done.Unfinished)
	}
	return err
}
