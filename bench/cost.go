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

// costs is the part of what a task costs. Statements are counted by a proxy, so that none of these runs is timed.
func costs(ctx context.Context, on *servers, o options) (out []result, err error) {
	s := samples{}
	proxied := serverDSNs{}
	counters := map[string]*countingProxy{} // by group
	for _, d := range []struct {
		group string
		from  string
		to    *string
	}{{"PostgreSQL", on.dsns.Postgres, &proxied.Postgres}, {"MySQL", on.dsns.MySQL, &proxied.MySQL}, {"MariaDB", on.dsns.MariaDB, &proxied.MariaDB}} {
		if d.from == "" {
			continue
		}
		p, dsn, err := proxyFor(d.from, d.group != "PostgreSQL")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.group, err)
		}
		defer p.close()
		counters[d.group], *d.to = p, dsn
	}
	behind, err := openServers(ctx, proxied, on.schema, on.folder)
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

func (s samples) cost(ctx context.Context, on *servers, e *entry, counter *countingProxy, n int) error {
	log := map[string]interface {
		written(ctx context.Context) (int64, error)
	}{"PostgreSQL": on.pg, "MySQL": on.mysql, "MariaDB": on.mariadb}[e.group]
	if err := phase(ctx, e.Prepare); err != nil {
		return fmt.Errorf("preparing: %w", err)
	}
	before, err := log.written(ctx)
	if err != nil {
		return err
	}
	sent := counter.statements.Load()
	if err := phase(ctx, func(ctx context.Context) error { return e.Enqueue(ctx, 0, n, bulkBatch) }); err != nil {
		return fmt.Errorf("enqueueing: %w", err)
	}
	enqueued := counter.statements.Load() - sent
	sent += enqueued
	done := newLedger(n)
	err = phase(ctx, func(ctx context.Context) error {
		_, err := e.Drain(ctx, n, done)
		return err
	})
	if err != nil {
		return fmt.Errorf("draining: %w", err)
	}
	s.add(e, statements, n, float64(enqueued+counter.statements.Load()-sent)/float64(n))
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
	if err := phase(ctx, func(ctx context.Context) error { return checkCounts(ctx, e, n, done) }); err != nil {
		return err
	}
	return phase(ctx, e.Close)
}
