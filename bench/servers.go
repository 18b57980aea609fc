package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
)

// serverDSNs are the servers to measure on; "" leaves one out.
type serverDSNs struct{ postgres, mysql, mariadb string }

// dsnVariables name the DSNs that are used without flags: the first that is set.
var dsnVariables = map[string][]string{
	"postgres": {"DBQ_BENCH_POSTGRES_DSN", "DBQ_TEST_POSTGRES_DSN", "DBQ_TEST_POSTGRES18_DSN", "DBQ_TEST_POSTGRES15_DSN"},
	"mysql":    {"DBQ_BENCH_MYSQL_DSN", "DBQ_TEST_MYSQL_DSN", "DBQ_TEST_MYSQL97_DSN"},
	"mariadb":  {"DBQ_BENCH_MARIADB_DSN", "DBQ_TEST_MARIADB_DSN", "DBQ_TEST_MARIADB118_DSN"},
}

func (d *serverDSNs) flags(set *flag.FlagSet) {
	for name, to := range map[string]*string{"postgres": &d.postgres, "mysql": &d.mysql, "mariadb": &d.mariadb} {
		value := ""
		for _, variable := range dsnVariables[name] {
			if value == "" {
				value = os.Getenv(variable)
			}
		}
		*to = value
		usage := "DSN of a server; without it, the first set of " + strings.Join(dsnVariables[name], ", ") +
			"; \"none\" leaves it out"
		set.Func(name, usage, func(s string) error {
			if *to = s; s == "none" {
				*to = ""
			}
			return nil
		})
	}
}

// servers are the servers that a run measures.
type servers struct {
	schema    string
	directory string // of SQLite's files
	pg        *pgPlace
	mysqls    []*mysqlPlace
	skipped   []string
}

func openServers(ctx context.Context, d serverDSNs, schema, directory string) (s *servers, err error) {
	s = &servers{schema: schema, directory: directory}
	skip := func(what, flag string) {
		s.skipped = append(s.skipped, fmt.Sprintf("%s: no -%s, and none of these is set: %s",
			what, flag, strings.Join(dsnVariables[flag], ", ")))
	}
	if d.postgres == "" {
		skip(postgresDB, "postgres")
	} else if s.pg, err = openPostgres(ctx, d.postgres, schema); err != nil {
		return s, errors.Join(fmt.Errorf("%s: %w", postgresDB, err), s.close(ctx))
	}
	for _, m := range []struct{ group, flag, dsn string }{{mysqlDB, "mysql", d.mysql}, {mariaDB, "mariadb", d.mariadb}} {
		if m.dsn == "" {
			skip(m.group, m.flag)
			continue
		}
		p, err := openMySQL(ctx, m.group, m.dsn, schema)
		if err != nil {
			return s, errors.Join(fmt.Errorf("%s: %w", m.group, err), s.close(ctx))
		}
		s.mysqls = append(s.mysqls, p)
	}
	return s, nil
}

// entries returns new contenders on all servers.
func (s *servers) entries() []*entry {
	var all []*entry
	if s.pg != nil {
		all = append(all, postgresEntries(s.pg)...)
	}
	for _, m := range s.mysqls {
		all = append(all, mysqlEntries(m)...)
	}
	return append(all, sqliteEntries(s.directory)...)
}

// A writtenLog tells how many bytes a server has written to its WAL or redo log.
type writtenLog interface {
	written(ctx context.Context) (int64, error)
}

// log returns the log of a group's server, or nil.
func (s *servers) log(group string) writtenLog {
	for _, m := range s.mysqls {
		if m.group == group {
			return m
		}
	}
	if group == postgresDB {
		return s.pg
	}
	return nil
}

// settings returns one line for each server.
func (s *servers) settings(ctx context.Context) ([]string, error) {
	sqlite, err := sqliteVersion(ctx)
	if err != nil {
		return nil, err
	}
	var lines []string
	if s.pg != nil {
		line, err := s.pg.settings(ctx)
		if err != nil {
			return nil, err
		}
		lines = append(lines, postgresDB+": "+line)
	}
	for _, m := range s.mysqls {
		line, err := m.settings(ctx)
		if err != nil {
			return nil, err
		}
		lines = append(lines, m.group+": "+line)
	}
	return append(lines, sqlite), nil
}

// close removes what the run has created, and disconnects.
func (s *servers) close(ctx context.Context) error {
	var errs []error
	if s.pg != nil {
		errs = append(errs, phase(ctx, s.pg.Clear))
		s.pg.pool.Close()
	}
	for _, m := range s.mysqls {
		errs = append(errs, phase(ctx, m.Clear), m.db.Close())
	}
	return errors.Join(errs...)
}
