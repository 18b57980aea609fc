package worker

import (
	"cmp"
	"context"
	"time"

	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/internal/wake"
)

// wakeups wake the fetcher when tasks may be due; they are a wake.Waiter.
type wakeups interface {
	Pass()
	BeforeCheckout()
	AfterCheckout(n int, full bool) (again bool)
	Wait(n int) <-chan wake.Wakeup
	Close()
}

// noWakeups are those of a worker that runs until its queue is empty.
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
	return f.wake.TaskWaiter(f.cfg.Queue.Name())
}

// A checkout passes by what another transaction has locked, and on MySQL and MariaDB a checkout that finds nothing
// locks for a moment what it read. So tasks that a wake-up announced may be there although the checkout found none. A
// worker whose polls are further apart then queries again after recheckFirst and pauses that double, up to recheckMost.
// recheckFirst is longer than most of what is under way takes, so that in a busy queue workers do not take the tasks
// that others were woken for.
const (
	recheckFirst = time.Second
	recheckMost  = 8 * time.Second
)

// waitDue waits until the buffer has room for a task and a checkout is worth its while: a wake-up comes, or the
// database says that something is due. It queries after pauses that grow, and when a wake-up is uncertain. It is false
// when ctx has ended.
func (f *fetcher) waitDue(ctx context.Context, w wakeups) bool {
	var empty <-chan struct{}
	until := f.settings().pollMax // without wake-ups, when the next task is due
	if f.cfg.UntilEmpty {
		empty = f.leases.empty
	}
	for {
		want, ok := f.waitDemand(ctx) // until then a wake-up is for others
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
				if !wakeup.Shared { // those of other processes may have found them
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
			return true // a checkout decides, or waits
		}
		start := time.Now()
		wait, some, err := f.wake.Next(ctx, f.cfg.Queue.Name())
		f.observe(Observation{Type: Queried, Duration: time.Since(start), Err: err})
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
			until = wait + f.cfg.Queue.Client().Info().Server.Precision
		}
	}
}
