package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/schedule"
	"golang.org/x/sync/errgroup"
)

const (
	scheduleFires figure = "fires of schedules that are due together"
	scheduleRest  figure = "one read of up to 1,000 schedules"

	fewSchedules     = 10
	scheduleWriters  = 8
	scheduleSearches = 50
	searchedAtOnce   = 1000 // schedules that Run reads at once while many are due
)

// schedules measures how fast one process fires schedules, and what it costs to read the next ones beside many.
func schedules(ctx context.Context, o options, s *servers) ([]result, error) {
	taken := samples{}
	var entries []*entry
	for _, g := range s.grounds() {
		if !o.only.MatchString(g.group + ": dbq") {
			continue
		}
		all, err := taken.schedules(ctx, o, g)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.group, err)
		}
		entries = append(entries, all...)
	}
	return perFirst(results(entries, taken)), nil
}

func (s samples) schedules(ctx context.Context, o options, g *ground) (entries []*entry, err error) {
	tasks := &dbqTasks{place: g.empty}
	few := &entry{contender: tasks, group: g.group, name: fmt.Sprintf("dbq, %d schedules", fewSchedules), role: ours}
	many := &entry{contender: tasks, group: g.group, name: fmt.Sprintf("dbq, %d schedules", o.schedules), role: ours}
	if err := phase(ctx, few.Prepare); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, phase(context.WithoutCancel(ctx), few.Close)) }()
	var each time.Duration // that a Put takes
	for _, e := range []*entry{few, many} {
		n := fewSchedules
		if e == many {
			n = o.schedules
		}
		begin := time.Now()
		if err := phase(ctx, func(ctx context.Context) error {
			return putSchedules(ctx, tasks.c, "rests", n, begin.Add(24*time.Hour))
		}); err != nil {
			return nil, err
		}
		each = time.Since(begin) / time.Duration(n)
		for range o.rounds {
			if err := phase(ctx, func(ctx context.Context) error { return s.search(ctx, e) }); err != nil {
				return nil, err
			}
		}
	}
	fires := max(o.schedules/10, 1)
	for round := range o.rounds {
		fmt.Fprintf(os.Stderr, "schedules, %s, round %d of %d\n", g.group, round+1, o.rounds)
		at := time.Now().Add(time.Second + 3*each*time.Duration(fires)) // when all have been put
		if err := phase(ctx, func(ctx context.Context) error {
			return putSchedules(ctx, tasks.c, "fires", fires, at)
		}); err != nil {
			return nil, err
		}
		time.Sleep(time.Until(at))
		if err := phase(ctx, func(ctx context.Context) error { return fireAll(ctx, tasks, (round+1)*fires) }); err != nil {
			return nil, err
		}
		s.addRate(many, scheduleFires, fires, time.Since(at))
	}
	return []*entry{few, many}, nil
}

// putSchedules puts n schedules that fire once.
func putSchedules(ctx context.Context, c *dbq.Client, name string, n int, at time.Time) error {
	schedules := schedule.New(c)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(scheduleWriters)
	for i := range n {
		group.Go(func() error {
			return schedules.Put(ctx, schedule.Schedule{
				Name: fmt.Sprintf("%s-%d", name, i), At: at, Queue: "bench", Task: dbq.NewTask{Payload: newPayload(i).encode()},
			})
		})
	}
	return group.Wait()
}

// search reads the next schedules as Run does while many are due; otherwise it reads ten.
func (s samples) search(ctx context.Context, e *entry) error {
	store := access.Of(e.contender.(*dbqTasks).c).Store
	begin := time.Now()
	for range scheduleSearches {
		if _, err := store.EarliestKV(ctx, "schedule", searchedAtOnce); err != nil {
			return err
		}
	}
	s.add(e, scheduleRest, scheduleSearches, float64(time.Since(begin).Microseconds())/1000/scheduleSearches)
	return nil
}

// fireAll runs schedules until there are n tasks.
func fireAll(ctx context.Context, tasks *dbqTasks, n int) error {
	ctx, stop := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return schedule.New(tasks.c).Run(ctx) })
	group.Go(func() error {
		defer stop()
		for {
			switch _, got, err := tasks.Stored(ctx); {
			case err != nil || got == n:
				return err
			case got > n:
				return fmt.Errorf("the schedules have added %d tasks, not %d", got, n)
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	return group.Wait()
}
