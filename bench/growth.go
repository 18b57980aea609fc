package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

const growStep = 500_000 // rows in one statement, so that each is done within phaseTimeout

// ground is an engine with two places: empty tables, and tables that grow.
type ground struct {
	group        string
	empty, grown floorPlace
}

func (s *servers) grounds() (all []ground) {
	if s.pg != nil {
		grown := *s.pg
		grown.schema += "g"
		all = append(all, ground{postgresDB, s.pg, &grown})
	}
	for _, m := range s.mysqls {
		grown := *m
		grown.schema += "g"
		all = append(all, ground{m.group, m, &grown})
	}
	full := sqlitePlace{directory: s.directory, synchronous: "full"}
	grown := full
	grown.name = "grown"
	return append(all, ground{sqliteFull, &full, &grown})
}

// onEach calls f for each engine that -only matches, and returns all contenders.
func (s *servers) onEach(o options, f func(g ground) ([]*entry, error)) (entries []*entry, err error) {
	for _, g := range s.grounds() {
		if !o.only.MatchString(g.group + ": dbq") {
			continue
		}
		all, err := f(g)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.group, err)
		}
		entries = append(entries, all...)
	}
	return entries, nil
}

// growth measures the drain with many COMPLETED and future tasks in the table, and with a transaction held open.
func (s samples) growth(ctx context.Context, o options, on *servers) ([]*entry, error) {
	return on.onEach(o, func(g ground) ([]*entry, error) {
		entries, err := s.grow(ctx, o, g)
		if err != nil || g.group == sqliteFull {
			return entries, err
		}
		tasks := &dbqTasks{place: g.empty}
		free := &entry{contender: tasks, group: g.group, name: besideNone, role: ours}
		held := &entry{contender: tasks, group: g.group, name: besideHeld, role: ours}
		rounds, err := s.cycle(ctx, free, o, g, 0)
		if err == nil {
			_, err = s.cycle(ctx, held, o, g, rounds)
		}
		return append(entries, free, held), err
	})
}

// grow fills the grown table and drains both tables in turns.
func (s samples) grow(ctx context.Context, o options, g ground) (entries []*entry, err error) {
	filler := &floorTasks{place: g.grown}
	defer func() { err = errors.Join(err, phase(context.WithoutCancel(ctx), filler.Close)) }()
	if err := phase(ctx, filler.Prepare); err != nil {
		return nil, err
	}
	begin, all := time.Now(), o.grownDone+o.grownFuture
	for _, rows := range []struct {
		from, to   int
		state, due string
	}{
		{0, o.grownDone, "2", "NULL"},
		{o.grownDone, all, "0", "{now} + 86400000000"},
	} {
		err := ranges(rows.from, rows.to, growStep, func(from, to int) error {
			fmt.Fprintf(os.Stderr, "growth, %s: %d rows of %d, after %v\n", g.group, from, all, since(begin))
			return phase(ctx, func(ctx context.Context) error {
				return filler.insert(ctx, from, to, rows.state, rows.due)
			})
		})
		if err != nil {
			return nil, fmt.Errorf("filling: %w", err)
		}
	}
	if err := phase(ctx, filler.tidy); err != nil {
		return nil, fmt.Errorf("tidying up: %w", err)
	}
	empty, grown := &dbqTasks{place: g.empty}, &dbqTasks{place: g.grown}
	if err := phase(ctx, func(ctx context.Context) error { return grown.open(ctx) }); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, grown.c.Close()) }()
	entries = []*entry{
		{contender: empty, group: g.group, name: onEmpty, role: ours},
		{contender: grown, group: g.group, name: onGrown, role: ours},
	}
	for round := range o.rounds {
		fmt.Fprintf(os.Stderr, "growth, %s, round %d of %d\n", g.group, round+1, o.rounds)
		if err := phase(ctx, empty.Prepare); err != nil {
			return nil, err
		}
		for _, e := range entries {
			took, err := enqueueAndDrain(ctx, e, o.n)
			if err != nil {
				return nil, err
			}
			s.addRate(e, drain, o.n, took)
		}
	}
	return entries, phase(ctx, empty.Close)
}

// enqueueAndDrain enqueues n tasks and times their drain. Other tasks stay in the table.
func enqueueAndDrain(ctx context.Context, e *entry, n int) (took time.Duration, err error) {
	if _, err := enqueueBulk(ctx, e, n); err != nil {
		return 0, err
	}
	took, done, err := drainTasks(ctx, e, n)
	return took, errors.Join(err, done.check())
}

// cycle makes as many rounds as fit into o.held. If rounds is given, it makes that many, while a transaction that has
// read the table stays open.
func (s samples) cycle(ctx context.Context, e *entry, o options, g ground, rounds int) (made int, err error) {
	if err := phase(ctx, e.Prepare); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, phase(context.WithoutCancel(ctx), e.Close)) }()
	if rounds > 0 {
		db, err := g.empty.connect(ctx)
		if err != nil {
			return 0, err
		}
		defer db.Close()
		tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		if err != nil {
			return 0, err
		}
		defer func() { _ = tx.Rollback() }() // it has only read
		var n int
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM "+g.empty.floorSQL().task).Scan(&n); err != nil {
			return 0, err
		}
	}
	var times []time.Duration
	begin := time.Now()
	for ; rounds == 0 && (time.Since(begin) < o.held || made < 2*o.rounds) || made < rounds; made++ {
		if made%10 == 0 {
			fmt.Fprintf(os.Stderr, "growth, %s: %d times, after %v\n", e.key(), made, since(begin))
		}
		took, err := enqueueAndDrain(ctx, e, o.n)
		if err != nil {
			return made, err
		}
		times = append(times, took)
	}
	// The second half is cut into as many stretches as other parts have rounds. A single drain would be too short to
	// include what the server does only now and then.
	half := times[len(times)/2:]
	each := max(1, len(half)/o.rounds)
	for stretch := range slices.Chunk(half[len(half)%each:], each) {
		var took time.Duration
		for _, t := range stretch {
			took += t
		}
		s.addRate(e, drain, o.n*len(stretch), took)
	}
	return made, nil
}
