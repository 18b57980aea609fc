package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
)

// way is one way for an enqueue to reach a worker.
type way struct {
	*entry
	// start starts a worker, which reports when it starts a task. It returns what enqueues a task, and what stops the
	// worker.
	start starter
}

type (
	enqueuer = func(ctx context.Context, number int) error
	starter  = func(ctx context.Context, started func(number int, at time.Time)) (enqueuer, func() error, error)
)

// ways returns all ways, grouped by server.
func (s *servers) ways() [][]*way {
	mine := func(group, name string, p place, apart bool, opts ...dbq.Option) *way {
		return &way{&entry{contender: &dbqTasks{place: p}, group: group, name: name, role: ours}, dbqPickup(p, apart, opts)}
	}
	full := &sqlitePlace{directory: s.directory, synchronous: "full"}
	all := [][]*way{{mine("SQLite, synchronous=full", "dbq in the process", full, false)}}
	for _, m := range s.mysqls {
		all = append(all, []*way{mine(m.group, "dbq in the process", m, false)})
	}
	if s.pg == nil {
		return all
	}
	const group = postgresDB
	ways := []*way{
		mine(group, "dbq in the process", s.pg, false),
		mine(group, notified, s.pg, true),
		mine(group, "dbq by polling alone", s.pg, true, dbq.WithoutNotify()),
		{&entry{contender: &riverJobs{place: s.pg}, group: group, name: "River", role: peer}, riverPickup(s.pg)},
	}
	if s.node != nil {
		n := nodeEntries(s.pg, s.node)[0]
		ways = append(ways, &way{
			&entry{contender: n.contender, group: group, name: n.name, role: peer},
			nodePickup(n.contender.(*nodeQueue)),
		})
	}
	return append(all, ways)
}

func dbqPickup(p place, apart bool, opts []dbq.Option) starter {
	return func(ctx context.Context, started func(int, time.Time)) (enqueuer, func() error, error) {
		if err := p.Clear(ctx); err != nil {
			return nil, nil, err
		}
		c, err := p.Open(ctx, append(opts, dbq.WithMigrate())...)
		if err != nil {
			return nil, nil, err
		}
		from := c
		if apart {
			if from, err = elsewhere(ctx, p, opts...); err != nil {
				return nil, nil, err
			}
		}
		handle := func(_ context.Context, t dbq.Task) error {
			at := time.Now()
			number, err := numberOf(t.Payload)
			started(number, at)
			return err
		}
		run := worker.Worker{Queue: c.Queue("bench"), Concurrency: handlers, Handler: worker.Func(handle)}
		working, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- run.Run(working) }()
		enqueue := func(ctx context.Context, number int) error {
			_, err := from.Queue("bench").Enqueue(ctx, dbq.NewTask{Payload: newPayload(number).encode()})
			return err
		}
		return enqueue, func() error {
			stop()
			err := <-done
			for _, c := range slices.Compact([]*dbq.Client{from, c}) {
				err = errors.Join(err, c.Close())
			}
			return err
		}, nil
	}
}

func riverPickup(p *pgPlace) starter {
	return func(ctx context.Context, started func(int, time.Time)) (enqueuer, func() error, error) {
		r := &riverJobs{place: p}
		if err := r.Prepare(ctx); err != nil {
			return nil, nil, err
		}
		c, err := r.client(func(number int) { started(number, time.Now()) })
		if err == nil {
			err = c.Start(ctx)
		}
		if err != nil {
			return nil, nil, err
		}
		enqueue := func(ctx context.Context, number int) error {
			_, err := c.Insert(ctx, newPayload(number), nil)
			return err
		}
		return enqueue, func() error { return errors.Join(c.Stop(ctx), r.Detach()) }, nil
	}
}

func nodePickup(n *nodeQueue) starter {
	return func(ctx context.Context, started func(int, time.Time)) (enqueuer, func() error, error) {
		if err := n.Prepare(ctx); err != nil {
			return nil, nil, err
		}
		n.r.onStarted(started)
		if _, err := n.r.call(ctx, request{Op: "work", Trace: true}); err != nil {
			return nil, nil, err
		}
		enqueue := func(ctx context.Context, number int) error { return n.Enqueue(ctx, number, number+1, 1) }
		return enqueue, func() error {
			_, err := n.r.call(ctx, request{Op: "stop"})
			return err
		}, nil
	}
}

// elsewhere opens a client that dbq treats like one of another process, because its DSN is spelled differently.
func elsewhere(ctx context.Context, p place, opts ...dbq.Option) (*dbq.Client, error) {
	pg, ok := p.(*pgPlace)
	if !ok {
		return nil, fmt.Errorf("only PostgreSQL has notifications")
	}
	sign := "?"
	if strings.Contains(pg.dsn, "?") {
		sign = "&"
	}
	other := *pg
	other.dsn += sign + "application_name=elsewhere"
	return other.Open(ctx, opts...)
}
