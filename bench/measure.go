package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"
)

// figure is what is measured, in tasks per second.
type figure string

const (
	bulk        figure = "bulk enqueue"
	single      figure = "single enqueue, 1 producer"
	singles     figure = "single enqueue, 4 producers"
	drain       figure = "drain, history kept"
	drainDelete figure = "drain, completed and deleted"
	wholeLife   figure = "enqueue and drain, history kept"
)

// figures are in the order of the report.
var figures = []figure{bulk, single, singles, drain, drainDelete, wholeLife}

const (
	bulkBatch     = 5000 // tasks in one transaction of a bulk enqueue
	singleShare   = 50   // of the tasks, 1/singleShare is enqueued one by one
	leastSingles  = 20
	manyProducers = 4
	// phaseTimeout bounds each step, so that a contender that hangs is a failure and not a wait.
	phaseTimeout = 3 * time.Minute
)

// samples are the rates of a contender, one of each round.
type samples map[*entry]map[figure][]float64

func (s samples) add(e *entry, f figure, n int, took time.Duration) {
	if s[e] == nil {
		s[e] = map[figure][]float64{}
	}
	rate := float64(n) / took.Seconds()
	s[e][f] = append(s[e][f], rate)
	fmt.Fprintf(os.Stderr, "  %-28s %-20s %-32s %10.0f/s\n", e.group, e.name, f, rate)
}

// measure runs the rounds, each contender once in each, beginning with another one each time.
func measure(ctx context.Context, entries []*entry, n, rounds int) (samples, error) {
	out := samples{}
	for round := range rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, rounds)
		for i := range entries {
			e := entries[(i+round)%len(entries)]
			if err := out.round(ctx, e, n); err != nil {
				_ = e.Close(context.WithoutCancel(ctx)) // the first error is the one to tell
				return out, fmt.Errorf("%s, %s: %w", e.group, e.name, err)
			}
		}
	}
	return out, nil
}

func (s samples) round(ctx context.Context, e *entry, n int) error {
	if e.singles {
		if err := s.enqueueSingles(ctx, e, max(e.tasks(n)/singleShare, leastSingles)); err != nil {
			return fmt.Errorf("enqueueing one by one: %w", err)
		}
	}
	n = e.tasks(n)
	if err := phase(ctx, e.Prepare); err != nil {
		return fmt.Errorf("preparing: %w", err)
	}
	start := time.Now()
	err := phase(ctx, func(ctx context.Context) error { return e.Enqueue(ctx, 0, n, bulkBatch) })
	enqueued := time.Since(start)
	if err != nil {
		return fmt.Errorf("enqueueing: %w", err)
	}
	done := newLedger(n)
	var drained time.Duration
	err = phase(ctx, func(ctx context.Context) (err error) {
		drained, err = e.Drain(ctx, n, done)
		return err
	})
	if err != nil {
		return fmt.Errorf("draining: %w", err)
	}
	if err := phase(ctx, func(ctx context.Context) error { return checkCounts(ctx, e, n, done) }); err != nil {
		return err
	}
	if e.deletes {
		s.add(e, drainDelete, n, drained)
	} else {
		s.add(e, bulk, n, enqueued)
		s.add(e, drain, n, drained)
		s.add(e, wholeLife, n, enqueued+drained)
	}
	return phase(ctx, e.Close)
}

func (s samples) enqueueSingles(ctx context.Context, e *entry, n int) error {
	for _, f := range []figure{single, singles} {
		producers := 1
		if f == singles {
			producers = manyProducers
		}
		if err := phase(ctx, e.Prepare); err != nil {
			return err
		}
		errs := make([]error, producers)
		start := time.Now()
		err := phase(ctx, func(ctx context.Context) error {
			var group sync.WaitGroup
			for p := range producers {
				group.Go(func() { errs[p] = e.Enqueue(ctx, p*n, (p+1)*n, 1) })
			}
			group.Wait()
			return first(errs)
		})
		if err != nil {
			return err
		}
		s.add(e, f, producers*n, time.Since(start))
		if completed, others, err := e.Stored(ctx); err != nil || completed != 0 || others != producers*n {
			return fmt.Errorf("%d tasks enqueued, the database holds %d and %d completed (%v)", producers*n, others, completed, err)
		}
	}
	return nil
}

func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

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
	completed, others, err := e.Stored(ctx)
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
