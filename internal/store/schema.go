package store

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// CheckSchema fails with ErrNotMigrated, ErrSchemaOld or ErrSchemaNew unless the tables are of a version that this
// program works with.
func (s *Store) CheckSchema(ctx context.Context) error {
	want := s.newestMigration()
	have, err := read(ctx, s, s.version)
	switch {
	case err != nil:
		return err
	case have == 0:
		return fmt.Errorf("%w (looked for %s)", errs.ErrNotMigrated, s.sql.Names.Table("migration"))
	case have < want:
		return fmt.Errorf("%w (they are at %d, this program wants %d)", errs.ErrSchemaOld, have, want)
	}
	s.logNewer(have, want)
	return nil
}

// Migrate brings the tables to this program's version, and returns the versions before and after; 0 means no tables. Of
// several calls at once, one migrates and the others wait for it.
func (s *Store) Migrate(ctx context.Context) (from, to int, err error) {
	// Reading first keeps a program that opens with WithMigrate from locking, and from needing the right to.
	from, err = read(ctx, s, s.version)
	own := s.newestMigration()
	to = max(from, own)
	if err == nil && from < to {
		err = s.migrate(ctx)
	}
	switch {
	case err != nil:
		return from, to, err
	case from < to:
		s.Logger.Info("dbq: migrated the tables", "from", from, "to", to, "tables", s.sql.Names.Table("task"))
	default:
		s.logNewer(to, own)
	}
	return from, to, nil
}

// migrate applies the missing migrations in one transaction.
func (s *Store) migrate(ctx context.Context) error {
	err := s.writeLocked(ctx, func(ctx context.Context, conn dialect.Conn) error {
		all := s.sql.Dialect.Migrations(s.sql.Names)
		if err := runMigration(ctx, conn, all[0]); err != nil { // the table of migrations
			return err
		}
		at, err := s.version(ctx, conn)
		if err != nil {
			return err
		}
		for _, m := range all {
			if m.Version <= at {
				continue
			}
			if err := runMigration(ctx, conn, m); err != nil {
				return err
			}
			_, err := s.sql.Exec(ctx, conn, s.sql.Texts.SetVersion, versionArgs(m))
			if err != nil && s.sql.Class(err) != dialect.Duplicate { // another process has done the migration, too
				return err
			}
		}
		return nil
	})
	if s.sql.Class(err) == dialect.Denied {
		err = fmt.Errorf("%w; run `dbq migrate` once as a user who may make tables, "+
			"or let a DBA run what `dbq migrate --print` prints", err)
	}
	return err
}

func runMigration(ctx context.Context, conn dialect.Conn, m dialect.Migration) error {
	for _, statement := range m.Statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("migration %d (%s): %w", m.Version, m.Title, err)
		}
	}
	return nil
}

// writeLocked runs f in a transaction that other migrations of the same tables wait for.
func (s *Store) writeLocked(ctx context.Context, f func(ctx context.Context, conn dialect.Conn) error) error {
	lock := s.sql.Texts.MigrationLock
	lock.Args = dialect.Args{"name": s.sql.Names.Prefix}
	ctx = sqlrun.Slow(ctx)
	return s.repeat(ctx, func() (bool, error) { return false, s.sql.LockedTx(ctx, lock, f) })
}

// DropTables removes the tables with their contents. It does nothing if they do not exist.
func (s *Store) DropTables(ctx context.Context) error {
	return s.writeTx(sqlrun.Slow(ctx), func(ctx context.Context, conn dialect.Conn, _ bool) error {
		for _, statement := range s.sql.Texts.Drop {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// MigrationSQL returns the statements that Migrate runs on an empty database of a dialect, with their comments.
func MigrationSQL(d dialect.Dialect, names dialect.Names) (string, error) {
	s := sqlrun.NewSession(d, dialect.Pool{}, dialect.Server{}, names)
	var b strings.Builder
	fmt.Fprintf(&b, "-- dbq's tables for %s\n", d.Name())
	for _, m := range d.Migrations(names) {
		fmt.Fprintf(&b, "\n-- %d: %s\n", m.Version, m.Title)
		for i, st := range m.Statements {
			b.WriteString("\n")
			if i < len(m.Comments) {
				b.WriteString(m.Comments[i])
			}
			b.WriteString(sqlrun.Terminated(st))
		}
		if m.Version == 0 {
			continue
		}
		set, err := s.Literal(s.Texts.SetVersion, versionArgs(m))
		if err != nil {
			return "", err
		}
		b.WriteString("\n" + sqlrun.Terminated(set))
	}
	return b.String(), nil
}

func versionArgs(m dialect.Migration) dialect.Args {
	return dialect.Args{"version": m.Version, "title": m.Title, "compatible": cmp.Or(m.Compatible, m.Version)}
}

// versionRow is the version of the tables, or null if there are none, and the oldest version whose programs work with
// them.
type versionRow struct {
	Version    *int `db:"version"`
	Compatible *int `db:"compatible"`
}

// version returns the newest migration in the database, or 0 if there are no tables. It returns ErrSchemaNew if this
// program does not work with the tables.
func (s *Store) version(ctx context.Context, conn dialect.Conn) (int, error) {
	rows, err := sqlrun.QueryAs[versionRow](ctx, s.sql, conn, s.sql.Texts.Version, nil)
	if s.sql.Class(err) == dialect.Missing {
		return 0, nil
	}
	if err != nil || len(rows) == 0 || rows[0].Version == nil {
		return 0, err
	}
	have, own := *rows[0].Version, s.newestMigration()
	if oldest := rows[0].Compatible; oldest != nil && *oldest > own {
		err = fmt.Errorf("%w (they are at %d, which works with programs from version %d on; this program knows %d)",
			errs.ErrSchemaNew, have, *oldest, own)
	}
	return have, err
}

func (s *Store) newestMigration() int {
	m := s.sql.Dialect.Migrations(s.sql.Names)
	return m[len(m)-1].Version
}

// logNewer logs that the tables are newer than this program, but compatible.
func (s *Store) logNewer(have, own int) {
	if have > own {
		s.Logger.Info("dbq: the tables have a newer, compatible version",
			"have", have, "known", own)
	}
}
