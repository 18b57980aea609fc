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

const (
	grownDrain figure = "drain, beside what is there"
	heldDrain  figure = "drain, after a while of enqueueing and draining"
	growStep          = 500_000 // rows in one statement, so that each is done within phaseTimeout
)

// ground is a pair of tables on which growth is measured: an empty one and a grown one.
type ground struct {
	group        string
	empty, grown floorPlace
	holds        bool // measure beside a transaction that is held open, too
}

// growth measures the drain with many COMPLETED and future tasks in the table, and with a transaction held open. Each
// is compared with the drain without them.
func growth(ctx context.Context, o options, s *servers) ([]result, error) {
	taken := samples{}
	var entries []*entry
	for _, g := range s.grounds() {
		if !o.only.MatchString(g.group + ": dbq") {
			continue
		}
		all, err := taken.grow(ctx, o, g)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.group, err)
		}
		entries = append(entries, all...)
		if !g.holds {
			continue
		}
		if all, err = taken.hold(ctx, o, g); err != nil {
			return nil, fmt.Errorf("%s, with a transaction held open: %w", g.group, err)
		}
		entries = append(entries, all...)
	}
	return perFirst(results(entries, taken)), nil
}

// perFirst compares each result with the first of its figure.
func perFirst(out []result) []result {
	for i := range out {
		first := slices.IndexFunc(out, func(r result) bool { return r.Group == out[i].Group && r.Figure == out[i].Figure })
		if first != i {
			out[i].PerBase = out[i].Median / out[first].Median
		}
	}
	return out
}

func (s *servers) grounds() []*ground {
	var all []*ground
	if s.pg != nil {
		grown := *s.pg
		grown.schema += "g"
		all = append(all, &ground{group: postgresDB, empty: s.pg, grown: &grown, holds: true})
	}
	for _, m := range s.mysqls {
		grown := *m
		grown.schema += "g"
		all = append(all, &ground{group: m.group, empty: m, grown: &grown, holds: true})
	}
	empty := &sqlitePlace{directory: s.directory, synchronous: "full"}
	grown := &sqlitePlace{directory: s.directory, synchronous: "full", name: "grown"}
	return append(all, &ground{group: "SQLite, synchronous=full", empty: empty, grown: grown})
}

// grow fills the grown table and drains both tables in turns.
func (s samples) grow(ctx context.Context, o options, g *ground) (entries []*entry, err error) {
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
	empty := &dbqTasks{place: g.empty}
	grown := &dbqTasks{place: g.grown}
	if err := phase(ctx, grown.Attach); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, grown.Detach()) }()
	name := fmt.Sprintf("dbq, loop, %d COMPLETED and %d future tasks", o.grownDone, o.grownFuture)
	entries = []*entry{
		{contender: empty, group: g.group, name: "dbq, loop, an empty table", role: ours},
		{contender: grown, group: g.group, name: name, role: ours},
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
			s.addRate(e, grownDrain, o.n, took)
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

// hold enqueues and drains repeatedly, then does so equally often while a transaction is held open.
func (s samples) hold(ctx context.Context, o options, g *ground) ([]*entry, error) {
	tasks := &dbqTasks{place: g.empty}
	free := &entry{contender: tasks, group: g.group, name: "dbq, loop, no transaction held open", role: ours}
	name := fmt.Sprintf("dbq, loop, a transaction held open for %v", o.held)
	held := &entry{contender: tasks, group: g.group, name: name, role: ours}
	rounds, err := s.cycle(ctx, free, o, g, 0)
	if err == nil {
		_, err = s.cycle(ctx, held, o, g, rounds)
	}
	return []*entry{free, held}, err
}

// cycle makes as many rounds as fit into o.held. If rounds is given, it makes that many, while a transaction that has
// read the table stays open.
func (s samples) cycle(ctx context.Context, e *entry, o options, g *ground, rounds int) (made int, err error) {
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
	var rates []time.Duration
	begin := time.Now()
	for ; rounds == 0 && (time.Since(begin) < o.held || made < 2*o.rounds) || made < rounds; made++ {
		if made%10 == 0 {
			fmt.Fprintf(os.Stderr, "growth, %s, %s: %d times, after %v\n", e.group, e.name, made, since(begin))
		}
		took, err := enqueueAndDrain(ctx, e, o.n)
		if err != nil {
			return made, err
		}
		rates = append(rates, took)
	}
	// The second half is cut into as many stretches as other parts have rounds. A single drain would be too short to
	// include what the server does only now and then.
	half := rates[len(rates)/2:]
	each := max(1, len(half)/o.rounds)
	for stretch := range slices.Chunk(half[len(half)%each:], each) {
		var took time.Duration
		for _, t := range stretch {
			took += t
		}
		s.addRate(e, heldDrain, o.n*len(stretch), took)
	}
	return made, nil
}
