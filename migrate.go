package dbq

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// Migrate brings the tables in the database that dsn names to this version and returns the versions before and after, 0 being
// no tables. It keeps data, does nothing when there is nothing to do, and may run in many processes at once: one does the
// work, the others wait for it. Tables of a newer version that this program works with stay as they are. Errors are those of Open.
func Migrate(ctx context.Context, dsn string, opts ...Option) (from, to int, err error) {
	drv, pool, err := openPool(ctx, dsn)
	if err != nil {
		return 0, 0, err
	}
	defer pool.Close()
	return migratePool(ctx, pool, drv.Dialect, dsn, opts)
}

// MigrateDB is Migrate on a pool that the caller owns.
func MigrateDB(ctx context.Context, db *sql.DB, d dialect.Dialect, opts ...Option) (from, to int, err error) {
	return migratePool(ctx, dialect.Pool{Write: db, Read: db}, d, "", opts)
}

func migratePool(ctx context.Context, pool dialect.Pool, d dialect.Dialect, dsn string, opts []Option) (from, to int, err error) {
	c, err := bareClient(ctx, pool, d, dsn, opts)
	if err != nil {
		return 0, 0, err
	}
	from, to, err = c.migrateLogged(ctx)
	return from, to, c.wrap("migrate", "", uuid.Nil, err)
}

// bareClient is a client whose tables have not been looked at.
func bareClient(ctx context.Context, pool dialect.Pool, d dialect.Dialect, dsn string, opts []Option) (*Client, error) {
	cfg, err := newConfig(dsn, opts)
	if err != nil {
		return nil, &Error{Op: "open", Err: err}
	}
	server, err := d.Probe(ctx, pool.Write)
	if err != nil {
		return nil, openError(d, dsn, err)
	}
	if drv, err := dialect.Lookup(dsn); dsn != "" && err == nil {
		if err := drv.CheckProduct(dsn, server); err != nil {
			return nil, openError(d, dsn, err)
		}
	}
	if server.NoSchemas && cfg.names.Schema != "" {
		return nil, &Error{Op: "open", Err: fmt.Errorf("%w: %s has no schemas; use a prefix", ErrOption, server.Product)}
	}
	at := place{database: pool.Write, table: cfg.names.Table("task")}
	return &Client{s: dialect.NewSession(d, pool, server, cfg.names), cfg: cfg, id: newClientID(cfg.name), place: at}, nil
}

// DropTables removes dbq's tables with everything in them, for tests and for leaving. It does nothing when they are not there.
func DropTables(ctx context.Context, dsn string, opts ...Option) error {
	drv, pool, err := openPool(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	c, err := bareClient(ctx, pool, drv.Dialect, dsn, opts)
	if err != nil {
		return err
	}
	err = c.writeTx(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) error {
		for _, statement := range c.s.Statements.Drop {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	return c.wrap("drop tables", "", uuid.Nil, err)
}

// MigrationSQL is what Migrate would run on an empty database of this dialect, for a DBA to read and run.
func MigrationSQL(d dialect.Dialect, opts ...Option) (string, error) {
	cfg, err := newConfig("", opts)
	if err != nil {
		return "", &Error{Op: "migrate", Err: err}
	}
	s := dialect.NewSession(d, dialect.Pool{}, dialect.Server{}, cfg.names)
	var b strings.Builder
	fmt.Fprintf(&b, "-- dbq's tables for %s\n\n", d.Name())
	for _, st := range s.Statements.MigrationTable {
		b.WriteString(dialect.Terminated(st))
	}
	for _, m := range d.Migrations(cfg.names) {
		fmt.Fprintf(&b, "\n-- %d: %s\n", m.Version, m.Title)
		for _, st := range m.Statements {
			b.WriteString(dialect.Terminated(st))
		}
		set, err := s.Literal(s.Statements.SetVersion, versionArgs(m))
		if err != nil {
			return "", &Error{Op: "migrate", Err: err}
		}
		b.WriteString(dialect.Terminated(set))
	}
	return b.String(), nil
}

// versionRow is the version of the tables, null when there is none, and the oldest version whose programs work with them.
type versionRow struct {
	Version    *int `db:"version"`
	Compatible *int `db:"compatible"`
}

func versionArgs(m dialect.Migration) dialect.Args {
	return dialect.Args{"version": m.Version, "title": m.Title, "compatible": cmp.Or(m.Compatible, m.Version)}
}

// version is the newest migration in the database; no table is 0. Tables that a program of this version does not work with are
// ErrSchemaNew.
func (c *Client) version(ctx context.Context, conn dialect.Conn) (int, error) {
	rows, err := dialect.QueryAs[versionRow](ctx, c.s, conn, c.s.Statements.Version, nil)
	if c.s.Class(err) == dialect.Missing {
		return 0, nil
	}
	if err != nil || len(rows) == 0 || rows[0].Version == nil {
		return 0, err
	}
	have, own := *rows[0].Version, c.newestMigration()
	if oldest := rows[0].Compatible; oldest != nil && *oldest > own {
		err = fmt.Errorf("%w (they are at %d, which works with programs from version %d on; this program knows %d)",
			ErrSchemaNew, have, *oldest, own)
	}
	return have, err
}

func (c *Client) checkSchema(ctx context.Context) error {
	want := c.newestMigration()
	var have int
	err := c.read(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		have, err = c.version(ctx, conn)
		return err
	})
	switch {
	case err != nil:
		return err
	case have == 0:
		return fmt.Errorf("%w (looked for %s)", ErrNotMigrated, c.cfg.names.Table("migration"))
	case have < want:
		return fmt.Errorf("%w (they are at %d, this program wants %d)", ErrSchemaOld, have, want)
	}
	c.logNewer(have, want)
	return nil
}

func (c *Client) newestMigration() int {
	m := c.s.Dialect.Migrations(c.cfg.names)
	return m[len(m)-1].Version
}

// writeLocked runs f in a transaction that other migrations of the same tables wait for.
func (c *Client) writeLocked(ctx context.Context, f func(ctx context.Context, conn dialect.Conn) error) error {
	st, name := c.s.Statements, dialect.Args{"name": c.cfg.names.Prefix}
	var session dialect.Lock
	if st.MigrationUnlock != "" {
		session = dialect.Lock{Take: st.MigrationLock, Free: st.MigrationUnlock, Args: name}
	}
	return c.repeat(ctx, func() (bool, error) {
		return false, c.s.LockedTx(ctx, session, func(ctx context.Context, conn dialect.Conn) error {
			if st.MigrationUnlock == "" && st.MigrationLock != "" {
				if _, err := c.s.Exec(ctx, conn, st.MigrationLock, name); err != nil {
					return err
				}
			}
			return f(ctx, conn)
		})
	})
}

// migrateLogged is migrate with a line in the log when it changed the tables.
func (c *Client) migrateLogged(ctx context.Context) (from, to int, err error) {
	from, to, err = c.migrate(ctx)
	switch own := c.newestMigration(); {
	case err != nil:
	case from < to:
		c.cfg.logger.Info("dbq: migrated the tables", "from", from, "to", to, "tables", c.cfg.names.Table("task"))
	default:
		c.logNewer(to, own)
	}
	return from, to, err
}

// logNewer reports tables of a version that this program does not know, and works with.
func (c *Client) logNewer(have, own int) {
	if have > own {
		c.cfg.logger.Info("dbq: the tables are of a newer version that this program works with",
			"have", have, "known", own)
	}
}

// migrate applies the missing steps in one transaction, under a lock that other migrations of the same tables wait for.
func (c *Client) migrate(ctx context.Context) (from, to int, err error) {
	// Asking first keeps a program that opens with WithMigrate from locking, and from needing the right to.
	err = c.read(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		from, err = c.version(ctx, conn)
		return err
	})
	to = max(from, c.newestMigration())
	if err != nil || from == to {
		return from, to, err
	}
	defer func() {
		if c.s.Class(err) == dialect.Denied {
			err = fmt.Errorf("%w; run `dbq migrate` once as a user who may make tables, or let a DBA run what `dbq migrate --print` prints", err)
		}
	}()
	err = c.writeLocked(ctx, func(ctx context.Context, conn dialect.Conn) error {
		st := c.s.Statements
		for _, statement := range st.MigrationTable {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return err
			}
		}
		at, err := c.version(ctx, conn)
		if err != nil {
			return err
		}
		for _, m := range c.s.Dialect.Migrations(c.cfg.names) {
			if m.Version <= at {
				continue
			}
			for _, statement := range m.Statements {
				if _, err := conn.Exec(ctx, statement); err != nil {
					return fmt.Errorf("step %d (%s): %w", m.Version, m.Title, err)
				}
			}
			if _, err := c.s.Exec(ctx, conn, st.SetVersion, versionArgs(m)); err != nil {
				return err
			}
		}
		return nil
	})
	return from, to, err
}
