package main

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// figure is one measured quantity.
type figure string

const (
	bulk      figure = "bulk enqueue"
	single1   figure = "single enqueue, 1 producer"
	single2   figure = "single enqueue, 2 producers"
	single8   figure = "single enqueue, 8 producers"
	drain     figure = "drain"
	meanwhile figure = "enqueue while draining"
	clientCPU figure = "drain, client's CPU"
	written   figure = "WAL or redo log"

	idleP50   figure = "pick-up, idle queue, p50"
	idleP95   figure = "pick-up, idle queue, p95"
	idleP99   figure = "pick-up, idle queue, p99"
	loadedP50 figure = "pick-up, half load, p50"
	loadedP95 figure = "pick-up, half load, p95"
	loadedP99 figure = "pick-up, half load, p99"
	calledP50 figure = "enqueue and pick-up, half load, p50"
	calledP95 figure = "enqueue and pick-up, half load, p95"
	calledP99 figure = "enqueue and pick-up, half load, p99"

	scheduleRest  figure = "one read of up to 1,000 schedules"
	scheduleFires figure = "fires of schedules that are due together"
	sharedFires   figure = "fires, three processes"
	scheduleDelay figure = "from a schedule's time to its task"
)

// figures are in the order of the page.
var figures = []figure{
	bulk, single1, single2, single8, drain, meanwhile, clientCPU, written,
	idleP50, idleP95, idleP99, loadedP50, loadedP95, loadedP99, calledP50, calledP95, calledP99,
	scheduleRest, scheduleFires, sharedFires, scheduleDelay,
}

// unit returns the unit of a figure. For rates more is better, for all others less.
func (f figure) unit() string {
	switch f {
	case clientCPU:
		return "µs a task"
	case written:
		return "bytes a task"
	case idleP50, idleP95, idleP99, loadedP50, loadedP95, loadedP99, calledP50, calledP95, calledP99,
		scheduleRest, scheduleDelay:
		return "ms"
	}
	return "tasks/s"
}

func (f figure) moreIsBetter() bool { return f.unit() == "tasks/s" }

const (
	bulkBatch    = 5000 // tasks in one transaction of a bulk enqueue
	mixBatch     = 500  // and of an enqueue while others drain
	singleShare  = 50   // of the tasks, each producer enqueues 1/singleShare one by one
	leastSingles = 20
	phaseTimeout = 3 * time.Minute // of each step, so that a contender that hangs fails
)

// samples are the values of each contender's figures, one for each round.
type samples map[*entry]map[figure][]float64

func (s samples) add(e *entry, f figure, value float64) {
	if s[e] == nil {
		s[e] = map[figure][]float64{}
	}
	s[e][f] = append(s[e][f], value)
	fmt.Fprintf(os.Stderr, "  %-30s %-34s %-38s %10.1f %s\n", e.group, e.name, f, value, f.unit())
}

func (s samples) addRate(e *entry, f figure, n int, took time.Duration) {
	s.add(e, f, float64(n)/took.Seconds())
}

// since is the time since begin, to the second.
func since(begin time.Time) time.Duration { return time.Since(begin).Round(time.Second) }

// inTurns runs the rounds. Each round runs every contender once and begins with another one.
func inTurns(
	ctx context.Context, what string, entries []*entry, rounds int, f func(ctx context.Context, e *entry) error,
) error {
	begin := time.Now()
	for round := range rounds {
		fmt.Fprintf(os.Stderr, "%s, round %d of %d, after %v\n", what, round+1, rounds, since(begin))
		for i := range entries {
			e := entries[(i+round)%len(entries)]
			if err := f(ctx, e); err != nil {
				_ = e.Close(context.WithoutCancel(ctx)) // the first error is the one to report
				return fmt.Errorf("%s: %w", e.key(), err)
			}
		}
	}
	return nil
}

// throughput measures the figures that every contender has.
func (s samples) throughput(ctx context.Context, o options, on *servers) ([]*entry, error) {
	entries := o.matching(on.entries())
	return entries, inTurns(ctx, "throughput", entries, o.rounds, func(ctx context.Context, e *entry) error {
		return s.round(ctx, e, o.n)
	})
}

func (s samples) round(ctx context.Context, e *entry, n int) error {
	if e.singles {
		// As many for each contender: fewer would meet no checkpoint.
		if err := s.enqueueSingles(ctx, e, max(n/singleShare, leastSingles)); err != nil {
			return fmt.Errorf("enqueueing one by one: %w", err)
		}
	}
	return s.bulkAndDrain(ctx, e, n)
}

// bulkAndDrain measures a bulk enqueue and the drain of its tasks; enqueues one by one are left to round.
func (s samples) bulkAndDrain(ctx context.Context, e *entry, n int) error {
	n = e.tasks(n)
	if err := phase(ctx, e.Prepare); err != nil {
		return fmt.Errorf("preparing: %w", err)
	}
	enqueued, err := enqueueBulk(ctx, e, n)
	if err != nil {
		return err
	}
	if e.singles || e.role == floor && !e.deletes {
		s.addRate(e, bulk, n, enqueued)
	}
	before := cpuTime()
	drained, err := empty(ctx, e, n)
	if err != nil {
		return err
	}
	used := cpuTime() - before
	s.addRate(e, drain, n, drained)
	if e.role != floor {
		s.add(e, clientCPU, float64(used.Microseconds())/float64(n))
	}
	if e.meanwhile {
		took, err := both(ctx, e, n)
		if err != nil {
			return fmt.Errorf("enqueueing while draining: %w", err)
		}
		s.addRate(e, meanwhile, n, took)
	}
	return phase(ctx, e.Close)
}

// cpuTime returns the user and system time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// costs measures how much the servers write for a task.
func (s samples) costs(ctx context.Context, o options, on *servers) ([]*entry, error) {
	var entries []*entry
	for _, e := range o.matching(on.entries()) {
		if on.log(e.group) != nil && (e.meanwhile || e.role == ours && e.deletes) {
			entries = append(entries, e)
		}
	}
	return entries, inTurns(ctx, "cost", entries, o.rounds, func(ctx context.Context, e *entry) error {
		log, n := on.log(e.group), e.tasks(o.n)
		if err := phase(ctx, e.Prepare); err != nil {
			return fmt.Errorf("preparing: %w", err)
		}
		before, err := log.written(ctx)
		if err != nil {
			return err
		}
		if _, err := enqueueBulk(ctx, e, n); err != nil {
			return err
		}
		_, done, err := drainTasks(ctx, e, n)
		if err != nil {
			return err
		}
		after, err := log.written(ctx)
		if err != nil {
			return err
		}
		s.add(e, written, float64(after-before)/float64(n))
		if err := checkCounts(ctx, e, n, done); err != nil {
			return err
		}
		return phase(ctx, e.Close)
	})
}

// enqueueBulk enqueues n tasks in bulk.
func enqueueBulk(ctx context.Context, e *entry, n int) (time.Duration, error) {
	start := time.Now()
	if err := phase(ctx, func(ctx context.Context) error { return e.Enqueue(ctx, 0, n, bulkBatch) }); err != nil {
		return 0, fmt.Errorf("enqueueing: %w", err)
	}
	return time.Since(start), nil
}

// drainTasks drains n tasks. It returns the contender's own measure of the time, and which tasks were handled.
func drainTasks(ctx context.Context, e *entry, n int) (took time.Duration, done *ledger, err error) {
	done = newLedger(n)
	err = phase(ctx, func(ctx context.Context) (err error) {
		took, err = e.Drain(ctx, n, done)
		return err
	})
	if err != nil {
		err = fmt.Errorf("draining: %w", err)
	}
	return took, done, err
}

// empty drains the n tasks in the tables and checks the counts.
func empty(ctx context.Context, e *entry, n int) (time.Duration, error) {
	took, done, err := drainTasks(ctx, e, n)
	if err != nil {
		return 0, err
	}
	return took, checkCounts(ctx, e, n, done)
}

// both enqueues n tasks and drains them at the same time.
func both(ctx context.Context, e *entry, n int) (took time.Duration, err error) {
	if err := phase(ctx, e.Prepare); err != nil {
		return 0, fmt.Errorf("preparing: %w", err)
	}
	done := newLedger(n)
	err = phase(ctx, func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return e.Enqueue(ctx, 0, n, mixBatch) })
		group.Go(func() (err error) {
			took, err = e.Drain(ctx, n, done)
			return err
		})
		return group.Wait()
	})
	if err != nil {
		return 0, err
	}
	return took, checkCounts(ctx, e, n, done)
}

func (s samples) enqueueSingles(ctx context.Context, e *entry, n int) error {
	for _, with := range []struct {
		figure    figure
		producers int
	}{{single1, 1}, {single2, 2}, {single8, 8}} {
		if err := phase(ctx, e.Prepare); err != nil {
			return err
		}
		all := with.producers * n
		took, err := produceAll(ctx, e, with.producers, all, 1)
		if err != nil {
			return err
		}
		s.addRate(e, with.figure, all, took)
		if completed, others, err := e.Stored(ctx); err != nil || completed != 0 || others != all {
			return fmt.Errorf("%d tasks enqueued, the database holds %d and %d completed (%v)", all, others, completed, err)
		}
	}
	return nil
}

// produceAll enqueues n tasks by some producers at the same time, in batches.
func produceAll(ctx context.Context, e *entry, producers, n, batch int) (time.Duration, error) {
	start := time.Now()
	err := phase(ctx, func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		for p := range producers {
			group.Go(func() error { return e.Enqueue(ctx, p*n/producers, (p+1)*n/producers, batch) })
		}
		return group.Wait()
	})
	return time.Since(start), err
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func phase(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, phaseTimeout)
	defer cancel()
	return f(ctx)
}

// checkCounts fails unless every task was handled once and the database holds what it should.
func checkCounts(ctx context.Context, e *entry, n int, done *ledger) error {
	if err := done.check(); err != nil {
		return err
	}
	var completed, others int
	err := phase(ctx, func(ctx context.Context) (err error) {
		completed, others, err = e.Stored(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("counting: %w", err)
	}
	want := n
	if e.deletes {
		want = 0
	}
	if completed != want || others != 0 {
		return fmt.Errorf("the database holds %d completed tasks and %d others, not %d and 0", completed, others, want)
	}
	return nil
}
