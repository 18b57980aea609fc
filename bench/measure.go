package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// figure is one measured quantity.
type figure string

const (
	bulk        figure = "bulk enqueue"
	drain       figure = "drain, history kept"
	drainDelete figure = "drain, completed and deleted"
	meanwhile   figure = "enqueue while draining, both together"
	clientCPU   figure = "drain, client's CPU"
)

// singleFigure is the figure for producers that enqueue one by one, processFigure for a drain by several processes.
func singleFigure(producers int) figure {
	return figure(plural("single enqueue, %d producer%s", producers))
}

func processFigure(processes int) figure { return figure(plural("drain by %d process%s", processes)) }

func plural(format string, n int) string {
	end := ""
	if n > 1 && strings.Contains(format, "process") {
		end = "es"
	} else if n > 1 {
		end = "s"
	}
	return fmt.Sprintf(format, n, end)
}

// unit returns the unit of a figure. For rates more is better, for all others less.
func (f figure) unit() string {
	switch f {
	case clientCPU:
		return "µs a task"
	case statements:
		return "a task"
	case written:
		return "bytes a task"
	case emptyCheckouts, conflicts:
		return "a run"
	case pickupP50, pickupP95, pickupP99, loadedP50, loadedP95, loadedP99, calledP50, calledP95, calledP99,
		scheduleRest, scheduleDelay, consoleCold, consoleWarm, consoleSample, consoleStart:
		return "ms"
	}
	return "tasks/s"
}

func (f figure) moreIsBetter() bool { return f.unit() == "tasks/s" }

var producerCounts = []int{1, 2, 8}

const (
	bulkBatch    = 5000 // tasks in one transaction of a bulk enqueue
	mixBatch     = 500  // and of an enqueue while others drain
	singleShare  = 50   // of the tasks, each producer enqueues 1/singleShare one by one
	leastSingles = 20
	// Each step may take leastTimeout, or taskTimeout for each task if that is longer, so that a contender that hangs
	// fails.
	leastTimeout = 3 * time.Minute
	taskTimeout  = time.Millisecond
)

// phaseTimeout bounds each step of this run.
var phaseTimeout = leastTimeout

// samples are the values of each contender's figures, one for each round.
type samples map[*entry]map[figure]*sample

type sample struct {
	tasks  int
	values []float64
}

func (s samples) add(e *entry, f figure, tasks int, value float64) {
	if s[e] == nil {
		s[e] = map[figure]*sample{}
	}
	if s[e][f] == nil {
		s[e][f] = &sample{tasks: tasks}
	}
	s[e][f].values = append(s[e][f].values, value)
	fmt.Fprintf(os.Stderr, "  %-30s %-34s %-38s %10.1f %s\n", e.group, e.name, f, value, f.unit())
}

func (s samples) addRate(e *entry, f figure, n int, took time.Duration) {
	s.add(e, f, n, float64(n)/took.Seconds())
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
func (s samples) throughput(ctx context.Context, entries []*entry, n, rounds int) error {
	return inTurns(ctx, "throughput", entries, rounds, func(ctx context.Context, e *entry) error {
		return s.round(ctx, e, n)
	})
}

// longRun returns the contenders that a run with very many tasks measures, in bulk only: the main ones and the floor.
// It leaves out those that are too slow for all tasks.
func longRun(entries []*entry) []*entry {
	entries = slices.DeleteFunc(slices.Clone(entries), func(e *entry) bool {
		return e.share > 1 || !e.meanwhile && e.role != floor
	})
	for _, e := range entries {
		e.singles, e.meanwhile = false, false
	}
	return entries
}

func (s samples) round(ctx context.Context, e *entry, n int) error {
	if e.singles {
		// As many for each contender: fewer would meet no checkpoint.
		if err := s.enqueueSingles(ctx, e, max(n/singleShare, leastSingles)); err != nil {
			return fmt.Errorf("enqueueing one by one: %w", err)
		}
	}
	n = e.tasks(n)
	enqueued, err := fill(ctx, e, n)
	if err != nil {
		return err
	}
	if !e.deletes || e.alone {
		s.addRate(e, bulk, n, enqueued)
	}
	before := cpuTime()
	drained, err := empty(ctx, e, n)
	if err != nil {
		return err
	}
	used := cpuTime() - before
	if r, ok := e.contender.(interface{ CPU() time.Duration }); ok {
		used = r.CPU()
	}
	if e.deletes {
		s.addRate(e, drainDelete, n, drained)
	} else {
		s.addRate(e, drain, n, drained)
	}
	if e.role != floor {
		s.add(e, clientCPU, n, float64(used.Microseconds())/float64(n))
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

// fill prepares empty tables and enqueues n tasks in bulk. It returns the time of the enqueue.
func fill(ctx context.Context, e *entry, n int) (time.Duration, error) {
	if err := phase(ctx, e.Prepare); err != nil {
		return 0, fmt.Errorf("preparing: %w", err)
	}
	return enqueueBulk(ctx, e, n)
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
	for _, producers := range producerCounts {
		if err := phase(ctx, e.Prepare); err != nil {
			return err
		}
		start := time.Now()
		err := phase(ctx, func(ctx context.Context) error {
			group, ctx := errgroup.WithContext(ctx)
			for p := range producers {
				group.Go(func() error { return e.Enqueue(ctx, p*n, (p+1)*n, 1) })
			}
			return group.Wait()
		})
		if err != nil {
			return err
		}
		s.addRate(e, singleFigure(producers), producers*n, time.Since(start))
		if completed, others, err := e.Stored(ctx); err != nil || completed != 0 || others != producers*n {
			return fmt.Errorf("%d tasks enqueued, the database holds %d and %d completed (%v)",
				producers*n, others, completed, err)
		}
	}
	return nil
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
