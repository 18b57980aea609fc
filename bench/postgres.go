package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/jackc/pgx/v5/pgxpool"
)

// poolConns is the same for every contender.
const poolConns = 16

// pgPlace is a schema of its own in a PostgreSQL database, which the contenders use in turn.
type pgPlace struct {
	dsn    string
	schema string
	pool   *pgxpool.Pool // for the floor, and for questions
}

func openPostgres(ctx context.Context, dsn string) (*pgPlace, error) {
	p := &pgPlace{dsn: dsn, schema: fmt.Sprintf("dbqbench%d", os.Getpid())}
	var err error
	p.pool, err = p.newPool(ctx)
	return p, err
}

func (p *pgPlace) newPool(ctx context.Context) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(p.dsn)
	if err != nil {
		return nil, fmt.Errorf("the DSN cannot be read: %w", dialect.Scrub(err, p.dsn))
	}
	cfg.MaxConns = poolConns
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err == nil {
		err = dialect.Scrub(pool.Ping(ctx), p.dsn)
	}
	return pool, err
}

func (p *pgPlace) Clear(ctx context.Context) error {
	_, err := p.pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+p.schema+" CASCADE")
	return err
}

func (p *pgPlace) Open(ctx context.Context, opts ...dbq.Option) (*dbq.Client, error) {
	return dbq.Open(ctx, p.dsn, append(opts, dbq.WithSchema(p.schema))...)
}

// facts are the settings that a figure cannot be read without.
func (p *pgPlace) facts(ctx context.Context) (string, error) {
	names := []string{"server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_level", "shared_buffers", "max_wal_size"}
	facts := make([]string, len(names))
	for i, name := range names {
		var value string
		if err := p.pool.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value); err != nil {
			return "", err
		}
		facts[i] = name + " " + value
	}
	return strings.Join(facts, ", "), nil
}

func postgresEntries(p *pgPlace) []*entry {
	const group = "PostgreSQL"
	var all []*entry
	add := func(name string, r role, c contender) *entry {
		e := &entry{contender: c, group: group, name: name, role: r}
		all = append(all, e)
		return e
	}
	for i, s := range []dialect.Strategy{dialect.SkipLocked, dialect.Advisory, dialect.CAS} {
		e := add(fmt.Sprintf("dbq %s, loop", s), ours, &dbqTasks{place: p, mode: loop, opts: []dbq.Option{dbq.WithStrategy(s)}})
		e.singles = i == 0 // a strategy is one of checkout
	}
	add("dbq, worker", ours, &dbqTasks{place: p, mode: inWorker})
	add("River", peer, &riverJobs{place: p}).singles = true
	add("floor", floor, &pgFloor{place: p})
	add("dbq, loop", ours, &dbqTasks{place: p, mode: loopDelete}).deletes = true
	add("dbq, worker", ours, &dbqTasks{place: p, mode: workerDelete}).deletes = true
	add("floor", floor, &pgFloor{place: p, deletes: true}).deletes = true
	return all
}
