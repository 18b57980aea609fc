package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

const (
	statements     figure = "statements, bulk enqueue and drain"
	written        figure = "redo log or WAL, bulk enqueue and drain"
	emptyCheckouts figure = "checkouts that found nothing"
	conflicts      figure = "conflicts that were met and retried"
)

// costs measures what a task costs. A proxy counts the statements, so these runs are not timed.
func costs(ctx context.Context, on *servers, o options) (out []result, err error) {
	s := samples{}
	proxied := serverDSNs{}
	counters := map[string]*countingProxy{} // by group
	for _, d := range []struct {
		group string
		from  string
		to    *string
	}{
		{postgresDB, on.dsns.Postgres, &proxied.Postgres},
		{mysqlDB, on.dsns.MySQL, &proxied.MySQL},
		{mariaDB, on.dsns.MariaDB, &proxied.MariaDB},
	} {
		if d.from == "" {
			continue
		}
		p, dsn, err := proxyFor(d.from, d.group != postgresDB)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.group, err)
		}
		defer p.close()
		counters[d.group], *d.to = p, dsn
	}
	behind, err := openServers(ctx, proxied, on.schema, on.directory)
	if err != nil {
		return nil, err
	}
	behind.node = on.node
	defer func() { err = errors.Join(err, behind.close(context.WithoutCancel(ctx))) }()
	entries := slices.DeleteFunc(behind.entries(), func(e *entry) bool {
		main := e.meanwhile || e.costs || e.role == ours && e.deletes
		return !main || counters[e.group] == nil || !o.only.MatchString(e.group+": "+e.name)
	})
	err = inTurns(ctx, "cost", entries, o.rounds, func(ctx context.Context, e *entry) error {
		return s.cost(ctx, behind, e, counters[e.group], e.tasks(o.n))
	})
	return results(entries, s), err
}

// A meter reads how many bytes a server has written to its WAL or redo log.
type meter interface {
	written(ctx context.Context) (int64, error)
}

func (s *servers) meter(group string) meter {
	for _, m := range s.mysqls {
		if m.group == group {
			return m
		}
	}
	return s.pg
}

func (s samples) cost(ctx context.Context, on *servers, e *entry, counter *countingProxy, n int) error {
	log := on.meter(e.group)
	if err := phase(ctx, e.Prepare); err != nil {
		return fmt.Errorf("preparing: %w", err)
	}
	before, err := log.written(ctx)
	if err != nil {
		return err
	}
	sent := counter.statements.Load()
	if _, err := enqueueBulk(ctx, e, n); err != nil {
		return err
	}
	_, done, err := drainTasks(ctx, e, n)
	if err != nil {
		return err
	}
	s.add(e, statements, n, float64(counter.statements.Load()-sent)/float64(n))
	after, err := log.written(ctx)
	if err != nil {
		return err
	}
	s.add(e, written, n, float64(after-before)/float64(n))
	if d, ok := e.contender.(*dbqTasks); ok {
		s.add(e, emptyCheckouts, n, float64(d.empty.Load()))
		s.add(e, conflicts, n, float64(d.c.Stats().Conflicts))
	}
	if q, ok := e.contender.(*solidQueue); ok {
		s.add(e, conflicts, n, float64(q.deadlocks.Load()))
	}
	if err := checkCounts(ctx, e, n, done); err != nil {
		return err
	}
	return phase(ctx, e.Close)
}
