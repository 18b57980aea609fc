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
	"github.com/riverqueue/river"
	"golang.org/x/sync/errgroup"
)

const (
	fewSchedules     = 10
	scheduleWriters  = 8
	scheduleSearches = 50
	firingProcesses  = 3
	singleFires      = 20                     // schedules that are due one after the other,
	singlePause      = 100 * time.Millisecond // so much later each
	searchedAtOnce   = 1000                   // schedules that Run reads at once while many are due
)

// schedules measures how fast processes fire schedules, and what it costs to read the next ones beside many.
func (s samples) schedules(ctx context.Context, o options, on *servers) ([]*entry, error) {
	return on.onEach(o, func(g ground) ([]*entry, error) { return s.schedulesOn(ctx, o, g) })
}

func (s samples) schedulesOn(ctx context.Context, o options, g ground) (entries []*entry, err error) {
	tasks := &dbqTasks{place: g.empty}
	few := &entry{contender: tasks, group: g.group, name: fmt.Sprintf("dbq, %d schedules", fewSchedules), role: ours}
	many := &entry{contender: tasks, group: g.group, name: fmt.Sprintf("dbq, %d schedules", o.schedules), role: ours}
	if err := phase(ctx, few.Prepare); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, phase(context.WithoutCancel(ctx), few.Close)) }()
	put := func(name string, n int, at time.Time) error {
		return phase(ctx, func(ctx context.Context) error { return putSchedules(ctx, tasks.c, name, n, at) })
	}
	var each time.Duration // that a Put takes
	for _, e := range []*entry{few, many} {
		n := fewSchedules
		if e == many {
			n = o.schedules
		}
		begin := time.Now()
		if err := put("rests", n, begin.Add(24*time.Hour)); err != nil {
			return nil, err
		}
		each = time.Since(begin) / time.Duration(n)
		for range o.rounds {
			if err := phase(ctx, func(ctx context.Context) error { return s.search(ctx, e) }); err != nil {
				return nil, err
			}
		}
	}
	entries = []*entry{few, many}
	var other *entry
	if p, ok := g.grown.(*pgPlace); ok {
		other = &entry{contender: &riverJobs{place: p}, group: g.group, name: "River, periodic jobs", role: peer}
		entries = append(entries, other)
		defer func() { err = errors.Join(err, phase(context.WithoutCancel(ctx), other.Close)) }()
	}
	fires, fired := max(o.schedules/10, 1), 0
	for round := range o.rounds {
		fmt.Fprintf(os.Stderr, "schedules, %s, round %d of %d\n", g.group, round+1, o.rounds)
		for _, f := range []figure{scheduleFires, sharedFires} {
			processes := 1
			if f == sharedFires {
				processes = firingProcesses
			}
			at := time.Now().Add(time.Second + 3*each*time.Duration(fires)) // when all have been put
			if err := put("fires", fires, at); err != nil {
				return nil, err
			}
			time.Sleep(time.Until(at))
			fired += fires
			err := phase(ctx, func(ctx context.Context) error { return fireAll(ctx, tasks, fired, processes) })
			if err != nil {
				return nil, err
			}
			s.addRate(many, f, fires, time.Since(at))
		}
		err := phase(ctx, func(ctx context.Context) error { return s.fireSingly(ctx, many, fired) })
		if err != nil {
			return nil, err
		}
		fired += singleFires
		if other == nil {
			continue
		}
		if err := phase(ctx, func(ctx context.Context) error { return s.riverFires(ctx, other, fires) }); err != nil {
			return nil, fmt.Errorf("periodic jobs: %w", err)
		}
	}
	return entries, nil
}

// riverStart is how long before its periodic jobs are due a client of River starts: it must have become the leader.
const riverStart = 8 * time.Second

// riverFires measures how fast River inserts periodic jobs that are due together, into a queue without workers.
func (s samples) riverFires(ctx context.Context, e *entry, n int) error {
	r := e.contender.(*riverJobs)
	if err := r.Prepare(ctx); err != nil {
		return err
	}
	c, err := r.client(nil)
	if err != nil {
		return err
	}
	at := time.Now().Add(riverStart)
	for i := range n {
		c.PeriodicJobs().Add(river.NewPeriodicJob(onceAt(at), func() (river.JobArgs, *river.InsertOpts) {
			return newPayload(i), &river.InsertOpts{Queue: "idle"}
		}, nil))
	}
	if err := c.Start(ctx); err != nil {
		return err
	}
	err = awaitFires(ctx, r, 0) // none before they are due
	if time.Sleep(time.Until(at)); err == nil {
		err = awaitFires(ctx, r, n)
	}
	if err == nil {
		s.addRate(e, scheduleFires, n, time.Since(at))
	}
	return errors.Join(err, c.Stop(ctx))
}

// awaitFires waits until the schedules have added n tasks.
func awaitFires(ctx context.Context, c contender, n int) error {
	for {
		switch _, got, err := c.Stored(ctx); {
		case err != nil || got == n:
			return err
		case got > n:
			return fmt.Errorf("the schedules have added %d tasks, not %d", got, n)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// onceAt is a schedule of River with one time.
type onceAt time.Time

func (at onceAt) Next(now time.Time) time.Time {
	if once := time.Time(at); now.Before(once) {
		return once
	}
	return now.Add(24 * time.Hour)
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
	s.add(e, scheduleRest, ms(time.Since(begin))/scheduleSearches)
	return nil
}

// fireAll runs schedules in some processes until there are n tasks.
func fireAll(ctx context.Context, tasks *dbqTasks, n, processes int) error {
	ctx, stop := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	for range processes {
		group.Go(func() error { return schedule.New(tasks.c).Run(ctx) })
	}
	group.Go(func() error {
		defer stop()
		return awaitFires(ctx, tasks, n)
	})
	return group.Wait()
}

// fireSingly measures how late the tasks of schedules are that are due one after the other, by the database's clock.
// The queue has n tasks before.
func (s samples) fireSingly(ctx context.Context, e *entry, n int) error {
	tasks := e.contender.(*dbqTasks)
	schedules := schedule.New(tasks.c)
	begin, err := tasks.c.Now(ctx)
	if err != nil {
		return err
	}
	begin = begin.Add(time.Second)
	at := func(i int) time.Time { return begin.Add(time.Duration(i) * singlePause) }
	for i := range singleFires {
		d := schedule.Schedule{Name: fmt.Sprintf("single-%d", i), At: at(i), Queue: "bench"}
		if err := schedules.Put(ctx, d); err != nil {
			return err
		}
	}
	if err := fireAll(ctx, tasks, n+singleFires, 1); err != nil {
		return err
	}
	var late time.Duration
	for i := range singleFires {
		d, err := schedules.Get(ctx, fmt.Sprintf("single-%d", i))
		if err != nil {
			return err
		}
		task, err := tasks.c.Get(ctx, d.LastTaskID)
		if err != nil {
			return err
		}
		late += task.Created.Sub(at(i))
	}
	s.add(e, scheduleDelay, ms(late)/singleFires)
	return nil
}
