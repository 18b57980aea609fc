package api

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/maintenance"
	"github.com/dbq-go/dbq/internal/series"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// apis numbers the APIs of a process.
var apis atomic.Int64

// Run does the maintenance of the databases until ctx ends, and then returns nil: it removes the tasks and attempts
// whose retention has passed, continues workflows after another server was killed, and collects the statistics over
// time, including work through this API. Workers of package worker do the same for their queues; queues whose workers
// use only this API need Run. Any number of servers can call it: they elect one of them for each duty.
//
// Run also lists the workers that use this API. It logs its errors and tries again. Call it once, and end ctx after the
// server has answered its last request: later work is in no statistics. docs/http.md describes its effects and its
// cost.
func (a *API) Run(ctx context.Context) error {
	if a.maintained.Swap(true) {
		return fmt.Errorf("api: %w: Run was called before; call it once", dbq.ErrOption)
	}
	var all sync.WaitGroup
	for _, d := range a.databases {
		all.Go(func() { d.maintenance.Run(ctx) })
		all.Go(func() { d.workers.run(ctx) })
	}
	all.Wait()
	return nil
}

// newMaintenance returns the maintenance of a database.
func (a *API) newMaintenance(name string, c *dbq.Client) *maintenance.Server {
	m := maintenance.Member{Core: access.Of(c), Name: fmt.Sprintf("%s/api/%d", c.Info().ID, apis.Add(1))}
	return maintenance.NewServer(m, a.cfg.Logger.With("database", name))
}

// started counts the attempts that begin with a checkout.
func (d *database) started(queue string, tasks []dbq.Task) {
	if len(tasks) == 0 {
		return
	}
	ids := make([]uuid.UUID, len(tasks))
	d.maintenance.Tallies.Add(queue, func(t *series.Tally) {
		t.Started.Add(int64(len(tasks)))
		for i := range tasks {
			ids[i] = tasks[i].ID
			t.Latency.Record(tasks[i].Waited)
		}
	})
	d.maintenance.HandedOut(queue, ids)
}

// exhausted counts the tasks that a checkout moved to POISON.
func (d *database) exhausted(tasks []dbq.Task) {
	d.maintenance.Tallies.Add(tasks[0].Queue, func(t *series.Tally) { t.Poisoned.Add(int64(len(tasks))) })
}

// ended counts an attempt that was settled.
func (d *database) ended(l held, how dbq.Outcome, to dbq.State) {
	d.workers.settled(l, how.Event() == state.Fail || how.Event() == state.PoisonEvent)
	d.maintenance.Tallies.Add(l.Queue, func(t *series.Tally) {
		t.RunTime.Record(time.Since(l.started))
		switch how.Event() {
		case state.Complete:
			t.Completed.Add(1)
		case state.Fail, state.PoisonEvent:
			t.Failed.Add(1)
		default:
			t.Released.Add(1)
		}
		if to == dbq.StatePoison {
			t.Poisoned.Add(1)
		}
	})
}
