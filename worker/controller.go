package worker

import (
	"cmp"
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/wake"
)

const (
	// missedReports is how many reports in a row a worker can miss before the registry lists it as dead.
	missedReports = 3
	// longRunning is the time after which a handler without Timeout is logged, once.
	longRunning = time.Hour
	// registryTimeout limits the calls of one report.
	registryTimeout = 10 * time.Second
)

// controller reports the worker to the registry, executes operators' commands and applies their settings.
type controller struct {
	*env
	member    string // its name in elections
	shared    *control.Control
	leases    *leases
	keeper    *leaseKeeper
	executors *executors
	results   *results
	unhandled *unhandled
	pause     *pause
	stop      context.CancelFunc // stops the worker
	draining  atomic.Bool        // it takes no more tasks
}

// run reports until ctx ends: after a wake-up by an operator, and otherwise about once in ReportInterval.
func (c *controller) run(ctx context.Context) {
	host, _ := os.Hostname()
	me := control.Worker{ID: c.cfg.ID, Queue: c.cfg.Queue.Name(), Host: host, PID: os.Getpid(), Started: time.Now().UTC()}
	var wakeup <-chan wake.Wakeup
	if !c.cfg.UntilEmpty {
		waiter := c.wake.ControlWaiter(me.Queue)
		defer waiter.Close()
		wakeup = waiter.C()
	}
	interval := c.cfg.ReportInterval
	for {
		for c.report(ctx, me) { // again, to report the effect of the command
		}
		select {
		case <-ctx.Done():
			return
		case <-wakeup:
		case <-time.After(interval*3/4 + rand.N(interval/2)): // at a random time, so that workers do not report in step
		}
	}
}

// leave removes the worker from the registry, and executes a command that an operator has sent since the last report:
// after a stop, the program does not run the worker again.
func (c *controller) leave() {
	ctx, cancel := context.WithTimeout(c.shutdown.final, registryTimeout)
	defer cancel()
	command, err := c.shared.Deregister(ctx, c.cfg.ID)
	if command != "" {
		c.obey(dbq.Command(command))
	}
	if err = cmp.Or(err, c.shared.Resign(ctx, c.member)); err != nil {
		c.log.write(lineLeave, "error", errorText(err))
	}
}

// report applies the queue's settings, reports to the registry and executes the waiting command, if any.
func (c *controller) report(ctx context.Context, me control.Worker) (obeyed bool) {
	once, cancel := context.WithTimeout(ctx, registryTimeout)
	defer cancel()
	set, err := c.shared.Settings(once, c.cfg.Queue.Name())
	if err == nil {
		c.apply(set)
		c.settingsRead.Store(true)
		c.describe(&me)
		var command string
		if command, err = c.shared.Report(once, me, missedReports*c.cfg.ReportInterval); command != "" {
			c.obey(dbq.Command(command))
			obeyed = true
		}
	}
	if ctx.Err() == nil {
		c.health.report(opRegistry, err)
	}
	return obeyed
}

// describe fills in the worker's current activity.
func (c *controller) describe(me *control.Worker) {
	me.State = control.WorkerRunning
	switch {
	case c.draining.Load():
		me.State = control.WorkerStopping
	case c.pause.on():
		me.State = control.WorkerPaused
	}
	me.Concurrency, me.Holding = c.settings().concurrency, c.leases.count()
	me.Done, me.Failed = c.results.ended.Load(), c.results.failed.Load()
	me.NoHandler = c.unhandled.recent()
	running := c.leases.invocations()
	slices.SortFunc(running, func(a, b *invocation) int { return a.start.Compare(b.start) })
	for _, inv := range running {
		for _, l := range inv.tasks[:min(len(inv.tasks), control.MaxHeld-len(me.Held))] {
			me.Held = append(me.Held, l.task.ID)
		}
		if me.OldestSince.IsZero() || inv.start.Before(me.OldestSince) {
			me.OldestSince = inv.start.UTC()
		}
		if !inv.reported && inv.deadline.IsZero() && time.Since(inv.start) >= longRunning {
			inv.reported = true
			c.log.each(lineLong, aboutTask(&inv.tasks[0].task, "since", inv.start.UTC().Format(time.RFC3339),
				"cure", "set Timeout if it may hang")...)
		}
	}
}

// apply applies operators' settings.
func (c *controller) apply(set control.Settings) {
	to := resolve(&c.cfg, set)
	from := c.effective.Swap(to)
	if *from == *to {
		return
	}
	c.log.each(lineSettings, to.attrs()...)
	if from.lease != to.lease {
		c.keeper.renewSoon()
	}
	c.executors.resize(from.concurrency, to.concurrency)
}

func (c *controller) obey(command dbq.Command) {
	c.observe(Observation{Type: Commanded, Command: command})
	switch command {
	case dbq.CommandPause:
		c.pause.operator.Pause()
		c.log.each(linePaused, "by", byOperator)
	case dbq.CommandResume:
		c.pause.operator.Resume()
		c.log.each(lineResumed, "by", byOperator)
	case dbq.CommandStop:
		c.log.each(lineStoppedBy)
		c.draining.Store(true)
		c.stop()
	}
}
