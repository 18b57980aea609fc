package main

import (
	"context"
	"database/sql"
	"strings"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/mysql"
	"github.com/dbq-go/dbq/internal/dsnredact"
)

// mysqlPlace is a database of its own on a MySQL or MariaDB server, which the contenders use in turn.
type mysqlPlace struct {
	group  string // mysqlDB or mariaDB
	dsn    string
	schema string
	db     *sql.DB // for Solid Queue's technique and for questions: dbq's own pool, with its settings
}

func openMySQL(ctx context.Context, group, dsn, schema string) (*mysqlPlace, error) {
	p := &mysqlPlace{group: group, dsn: dsn, schema: schema}
	var err error
	if p.db, err = p.connect(ctx); err != nil {
		return nil, err
	}
	if err := p.db.PingContext(ctx); err != nil {
		_ = p.db.Close() // the first error is the one to report
		return nil, dsnredact.Scrub(err, dsn)
	}
	return p, nil
}

func (p *mysqlPlace) connect(ctx context.Context) (*sql.DB, error) {
	pool, err := mysql.Open(ctx, p.dsn, nil)
	return pool.Write, dsnredact.Scrub(err, p.dsn)
}

func (p *mysqlPlace) Clear(ctx context.Context) error {
	_, err := p.db.ExecContext(ctx, "DROP DATABASE IF EXISTS "+p.schema)
	return err
}

func (p *mysqlPlace) Open(ctx context.Context, opts ...dbq.Option) (*dbq.Client, error) {
	// To the dialect, a server without the database is unavailable.
	if _, err := p.db.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS "+p.schema); err != nil {
		return nil, err
	}
	return dbq.Open(ctx, p.dsn, append(opts, dbq.WithSchema(p.schema))...)
}

// settings returns the settings that one must know to interpret a figure.
func (p *mysqlPlace) settings(ctx context.Context) (string, error) {
	var facts []string
	for _, name := range []string{
		"version", "innodb_flush_log_at_trx_commit", "log_bin", "sync_binlog", "innodb_buffer_pool_size",
	} {
		var value string
		if err := p.db.QueryRowContext(ctx, "SELECT @@"+name).Scan(&value); err != nil {
			return "", err
		}
		facts = append(facts, name+" "+value)
	}
	return strings.Join(facts, ", "), nil
}

// written returns how many bytes the server has written to its redo log.
func (p *mysqlPlace) written(ctx context.Context) (int64, error) {
	var name string
	var bytes int64
	err := p.db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Innodb_os_log_written'").Scan(&name, &bytes)
	return bytes, err
}

func mysqlEntries(p *mysqlPlace) []*entry {
	all := ourEntries(p.group, p, dialect.SkipLocked, dialect.Advisory, dialect.CAS)
	all = append(all, &entry{
		contender: &solidQueue{place: p}, group: p.group, name: solid, role: peer,
		singles: true, meanwhile: true, share: 5,
	})
	return append(all, floorEntries(p.group, p)...)
}
