package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/dsnredact"
	"github.com/jackc/pgx/v5/pgxpool"
)

// poolConns is the same for every contender.
const poolConns = 16

// pgPlace is a schema of its own in a PostgreSQL database, which the contenders use in turn.
type pgPlace struct {
	dsn    string
	schema string
	pool   *pgxpool.Pool // for questions, and for the floor
}

func openPostgres(ctx context.Context, dsn, schema string) (*pgPlace, error) {
	p := &pgPlace{dsn: dsn, schema: schema}
	var err error
	p.pool, err = p.newPool(ctx)
	return p, err
}

func (p *pgPlace) newPool(ctx context.Context) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(p.dsn)
	if err != nil {
		return nil, fmt.Errorf("the DSN cannot be read: %w", dsnredact.Scrub(err, p.dsn))
	}
	cfg.MaxConns = poolConns
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err == nil {
		err = dsnredact.Scrub(pool.Ping(ctx), p.dsn)
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

// settings returns the settings that one must know to interpret a figure.
func (p *pgPlace) settings(ctx context.Context) (string, error) {
	names := []string{
		"server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_level", "shared_buffers", "max_wal_size",
	}
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

// written returns how many bytes the server has written to its WAL.
func (p *pgPlace) written(ctx context.Context) (bytes int64, err error) {
	err = p.pool.QueryRow(ctx, "SELECT CAST(pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') AS bigint)").Scan(&bytes)
	return bytes, err
}

func postgresEntries(p *pgPlace) []*entry {
	all := ourEntries(postgresDB, p, dialect.SkipLocked, dialect.Advisory, dialect.CAS)
	all = append(all, &entry{
		contender: &riverJobs{place: p}, group: postgresDB, name: "River", role: peer,
		singles: true, meanwhile: true,
	})
	return append(all, floorEntries(postgresDB, p)...)
}
