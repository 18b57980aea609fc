package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
)

// way is one way for an enqueue to reach a worker.
type way struct {
	*entry
	// start starts a worker, which calls started when it starts a task. It returns what enqueues a task, and what stops
	// the worker.
	start func(ctx context.Context, started func(number int)) (enqueue enqueuer, stop func() error, err error)
}

type enqueuer = func(ctx context.Context, number int) error

// ways returns all ways, grouped by server.
func (s *servers) ways() (all [][]*way) {
	if s.pg != nil {
		r := &riverJobs{place: s.pg}
		all = append(all, []*way{
			dbqWay(postgresDB, "dbq in the process", s.pg, s.pg),
			dbqWay(postgresDB, notified, s.pg, s.pg.elsewhere()),
			dbqWay(postgresDB, "dbq by polling alone", s.pg, s.pg.elsewhere(), dbq.WithoutNotify()),
			{&entry{contender: r, group: postgresDB, name: "River", role: peer}, r.start},
		})
	}
	for _, m := range s.mysqls {
		all = append(all, []*way{dbqWay(m.group, "dbq in the process", m, m)})
	}
	full := &sqlitePlace{directory: s.directory, synchronous: "full"}
	return append(all, []*way{dbqWay(sqliteFull, "dbq in the process", full, full)})
}

// elsewhere is the same place to a client that dbq treats like one of another process, because its DSN is spelled
// differently.
func (p *pgPlace) elsewhere() *pgPlace {
	sign, other := "?", *p
	if strings.Contains(p.dsn, "?") {
		sign = "&"
	}
	other.dsn += sign + "application_name=elsewhere"
	return &other
}

// dbqWay is a worker at a place, whose tasks a client enqueues from another spelling of the place, or from the same.
func dbqWay(group, name string, p, from place, opts ...dbq.Option) *way {
	e := &entry{contender: &dbqTasks{place: p}, group: group, name: name, role: ours}
	return &way{e, func(ctx context.Context, started func(int)) (enqueuer, func() error, error) {
		if err := p.Clear(ctx); err != nil {
			return nil, nil, err
		}
		c, err := p.Open(ctx, append(opts, dbq.WithMigrate())...)
		if err != nil {
			return nil, nil, err
		}
		other := c
		if from != p {
			if other, err = from.Open(ctx, opts...); err != nil {
				return nil, nil, errors.Join(err, c.Close())
			}
		}
		handle := func(_ context.Context, t dbq.Task) error {
			number, err := numberOf(t.Payload)
			started(number)
			return err
		}
		run := worker.Worker{Queue: c.Queue("bench"), Concurrency: handlers, Handler: worker.Func(handle)}
		working, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- run.Run(working) }()
		enqueue := func(ctx context.Context, number int) error {
			_, err := other.Queue("bench").Enqueue(ctx, dbq.NewTask{Payload: newPayload(number).encode()})
			return err
		}
		return enqueue, func() error {
			stop()
			err := <-done
			for _, c := range slices.Compact([]*dbq.Client{other, c}) {
				err = errors.Join(err, c.Close())
			}
			return err
		}, nil
	}}
}

// start is the way to a worker of River.
func (r *riverJobs) start(ctx context.Context, started func(int)) (enqueuer, func() error, error) {
	if err := r.Prepare(ctx); err != nil {
		return nil, nil, err
	}
	c, err := r.client(started)
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
	return enqueue, func() error { return c.Stop(ctx) }, nil
}
