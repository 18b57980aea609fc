package worker

import (
	"cmp"
	"context"
	"time"

	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/internal/wake"
)

// wakeups wake the fetcher when tasks may be due. A wake.Waiter implements it.
type wakeups interface {
	Pass()
	BeforeCheckout()
	AfterCheckout(n int, full bool) (again bool)
	Wait(n int) <-chan wake.Wakeup
	Close()
}

// noWakeups is for a worker that runs until its queue is empty.
type noWakeups struct{}

func (noWakeups) Pass()                               {}
func (noWakeups) BeforeCheckout()                     {}
func (noWakeups) AfterCheckout(_ int, full bool) bool { return full }
func (noWakeups) Wait(int) <-chan wake.Wakeup         { return nil }
func (noWakeups) Close()                              {}

func (f *fetcher) newWakeups() wakeups {
	if f.cfg.UntilEmpty {
		return noWakeups{}
	}
	return f.source.wakeups()
}

// A checkout skips rows that another transaction has locked, and on MySQL and MariaDB a checkout that finds nothing
// briefly locks the rows that it read. So a checkout can miss tasks that a wake-up announced. If its polls are
// further apart, the worker then queries again after recheckFirst, and after pauses that double up to recheckMost.
// recheckFirst is longer than most checkouts under way, so in a busy queue workers do not take the tasks for which
// others were woken.
const (
	recheckFirst = time.Second
	recheckMost  = 8 * time.Second
)

// waitDue waits until the buffer has room for a task and a checkout is likely to find one: a wake-up comes, or the
// database reports a due task. It queries after growing pauses, and after an uncertain wake-up. It returns false if
// ctx has ended.
func (f *fetcher) waitDue(ctx context.Context, w wakeups) bool {
	var empty <-chan struct{}
	until := f.settings().pollMax // without wake-ups, until the next task is due
	if f.cfg.UntilEmpty {
		empty = f.leases.empty
	}
	for {
		want, ok := f.waitDemand(ctx) // until then, wake-ups go to others
		if !ok {
			return false
		}
		uncertain := false
		select {
		case <-ctx.Done():
			return false
		case wakeup := <-w.Wait(want):
			if !wakeup.Uncertain || f.pause.on() {
				f.recheck = 0
				if !wakeup.Shared { // workers of other processes may have found the tasks
					f.recheck = recheckFirst
				}
				return true
			}
			uncertain = true
		case <-empty:
			return true
		case <-time.After(min(store.Jittered(f.rest), until, cmp.Or(f.recheck, until))):
			f.rest = min(f.rest*2, f.settings().pollMax)
			if f.recheck *= 2; f.recheck > recheckMost {
				f.recheck = 0
			}
		}
		if f.cfg.UntilEmpty && f.leases.count() == 0 || f.pause.on() {
			return true // a checkout decides or waits
		}
		start := time.Now()
		wait, some, err := f.source.due(ctx)
		if f.db != nil {
			f.observe(Observation{Type: Queried, Duration: time.Since(start), Err: err})
		}
		until = f.settings().pollMax
		if ctx.Err() == nil {
			f.health.report(opDue, err)
		}
		if err == nil && (!some || wait > 0) {
			f.recheck = 0 // another worker has taken them
		}
		switch {
		case ctx.Err() != nil:
			return false
		case err != nil: // reported
		case some && wait <= 0:
			return true
		case uncertain:
			w.AfterCheckout(0, false)
		case some && f.cfg.UntilEmpty:
			until = wait
			if f.db != nil {
				until += f.db.Client().Info().Server.Precision
			}
		}
	}
}
