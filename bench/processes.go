package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

var processCounts = []int{1, 2, 4}

// processes measures drains by several processes.
func (s samples) processes(ctx context.Context, on *servers, entries []*entry, n, rounds int) error {
	entries = slices.DeleteFunc(slices.Clone(entries), func(e *entry) bool { return !e.child })
	return inTurns(ctx, "processes", entries, rounds, func(ctx context.Context, e *entry) error {
		for _, count := range processCounts {
			took, err := drainByProcesses(ctx, on, e, count, e.tasks(n))
			if err != nil {
				return fmt.Errorf("%d processes: %w", count, err)
			}
			s.addRate(e, processFigure(count), e.tasks(n), took)
		}
		return phase(ctx, e.Close)
	})
}

func drainByProcesses(ctx context.Context, on *servers, e *entry, count, n int) (took time.Duration, err error) {
	if _, err := fill(ctx, e, n); err != nil {
		return 0, err
	}
	all := make([]*remote, 0, count)
	defer func() {
		for _, r := range all {
			err = errors.Join(err, r.close())
		}
	}()
	done := newLedger(n)
	err = phase(ctx, func(ctx context.Context) error {
		for range count {
			r, err := spawn(ctx, on, e)
			if err != nil {
				return err
			}
			all = append(all, r)
		}
		took, err = drainRemotes(ctx, all, n, done)
		return err
	})
	if err != nil {
		return 0, err
	}
	return took, checkCounts(ctx, e, n, done)
}
