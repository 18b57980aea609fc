package dbq

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/core"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/internal/wake"
)

// openPatience limits how long openPool retries. It covers one wait of an engine for a lock.
const openPatience = 10 * time.Second

// openPool opens the pools of a DSN. Opening can conflict like any statement. SQLite reports "database is locked"
// immediately, despite its busy timeout, while another process switches the same new file to WAL. Nothing was changed
// then, so openPool retries.
func openPool(ctx context.Context, dsn string, password dialect.Password) (dialect.Driver, dialect.Pool, error) {
	begin := time.Now()
	for tries := 0; ; tries++ {
		drv, pool, err := sqlrun.Open(ctx, dsn, password)
		if err == nil {
			return drv, pool, nil
		}
		conflict := drv.Dialect != nil && drv.Dialect.Classify(err) == dialect.Conflict
		if !conflict || tries == store.ConflictTries || time.Since(begin) >= openPatience {
			return drv, pool, openError(drv.Dialect, dsn, err)
		}
		if store.Sleep(ctx, store.Jittered(store.ConflictPause(tries))) != nil {
			return drv, pool, openError(drv.Dialect, dsn, err)
		}
	}
}

// configOf returns the options of a client that opens a DSN, or of one on a caller's pool, without a DSN.
func configOf(dsn string, opts []Option) (config, error) {
	cfg, err := newConfig(dsn, opts)
	if err == nil && cfg.password != nil {
		drv, unknown := dialect.Lookup(dsn)
		switch {
		case dsn == "":
			err = fmt.Errorf("%w: WithPassword: set the password where you make the pool", ErrOption)
		case unknown == nil && drv.File:
			err = fmt.Errorf("%w: WithPassword: %s has no passwords", ErrOption, drv.Dialect.Name())
		}
	}
	if err == nil && cfg.txDB != nil && dsn != "" {
		err = fmt.Errorf("%w: WithTxDB: Open makes this pool", ErrOption)
	}
	if err != nil {
		err = &Error{Op: "open", Err: err}
	}
	return cfg, err
}

// bareClient returns a client whose tables have not been checked.
func bareClient(ctx context.Context, pool dialect.Pool, d dialect.Dialect, dsn string, cfg config) (*Client, error) {
	server, err := d.Probe(ctx, pool.Write)
	if err != nil {
		return nil, openError(d, dsn, err)
	}
	if drv, err := dialect.Lookup(dsn); dsn != "" && err == nil {
		if err := checkProduct(drv, dsn, server); err != nil {
			return nil, openError(d, dsn, err)
		}
	}
	if server.NoSchemas && cfg.names.Schema != "" {
		return nil, &Error{Op: "open", Err: fmt.Errorf("%w: WithSchema: %s has no schemas; use WithPrefix",
			ErrOption, server.Product)}
	}
	if cfg.txDB != nil {
		if err := checkTxDB(ctx, cfg.txDB, d, server); err != nil {
			return nil, openError(d, dsn, err)
		}
	}
	session := sqlrun.NewSession(d, pool, server, cfg.names)
	if cfg.session != nil {
		cfg.session(session)
	}
	if err := session.Texts.CheckPrivate(); err != nil {
		return nil, openError(d, dsn, err)
	}
	st := store.New(session, store.Options{
		Logger: cfg.logger, Scrub: cfg.scrub, Strategy: cfg.strategy,
		MaxPayload: cmp.Or(cfg.maxPayload, server.MaxPayload), MaxCheckoutBytes: cfg.maxCheckoutBytes,
		MaxAttempts: cfg.maxAttempts,
	})
	c := &Client{store: st, cfg: cfg, id: newClientID(cfg.name), ends: endPoller{store: st}}
	tables := wake.Tables{Database: pool.Write, Table: cfg.names.Table("task")}
	if dsn != "" {
		tables.Database = sha256.Sum256([]byte(dsn)) // it distinguishes DSNs without revealing them
	}
	c.wake = wake.New(st, wake.Options{
		Tables: tables, NoNotify: cfg.withoutNotify, Logger: cfg.logger, Scrub: cfg.scrub, Wrap: c.wrap,
	})
	c.core = core.Core{
		Store: st, Wake: c.wake, Logger: cfg.logger,
		Control: control.New(st, control.Options{
			Waker: c.wake, Logger: cfg.logger, Wrap: c.wrap,
		}),
		Wrap: c.wrap, Observe: c.observed,
	}
	return c, nil
}

// checkTxDB probes the pool of WithTxDB, whose sessions must be as those of the client, a server of this kind.
func checkTxDB(ctx context.Context, db *sql.DB, d dialect.Dialect, server dialect.Server) error {
	if server.OneWriter {
		return fmt.Errorf("%w: WithTxDB: all transactions share the one writer of %s", ErrOption, server.Product)
	}
	other, err := d.Probe(ctx, db)
	if err == nil && other.Product != server.Product {
		err = fmt.Errorf("%w: its server is %s, that of the pool given to New %s", ErrOption, other.Product, server.Product)
	}
	if err != nil {
		return fmt.Errorf("WithTxDB: %w", err)
	}
	return nil
}

// homes are the packages of dbq's own dialects by their schemes, for the hint about a missing import.
var homes = map[string]string{
	"postgres": "postgres", "postgresql": "postgres", "cockroachdb": "postgres",
	"mysql": "mysql", "mariadb": "mysql", "tidb": "mysql",
	"oracle": "oracle", "sqlite": "sqlite",
}

// missingImport replaces ErrUnknownScheme by one that names the import, for a scheme of dbq's own dialects.
func missingImport(dsn string, err error) error {
	scheme := dialect.SchemeOf(dsn)
	if home := homes[scheme]; home != "" && errors.Is(err, ErrUnknownScheme) {
		return fmt.Errorf("%w %q: add import _ %q", ErrUnknownScheme, scheme, "github.com/dbq-go/dbq/dialect/"+home)
	}
	return err
}

// checkProduct refuses, with ErrDSN, a server that is another product than the DSN's scheme promises.
func checkProduct(d dialect.Driver, dsn string, s dialect.Server) error {
	scheme := dialect.SchemeOf(dsn)
	want := d.Products[scheme]
	if want == "" || want == s.Product {
		return nil
	}
	for _, right := range d.Schemes {
		if d.Products[right] == s.Product {
			return fmt.Errorf("%w: the server is %s %s, not %s: check the address, or write %s: instead of %s: before it",
				ErrDSN, s.Product, s.Version, want, right, scheme)
		}
	}
	return fmt.Errorf("%w: the server is %s %s, not %s: check the address", ErrDSN, s.Product, s.Version, want)
}

// noteOf returns the note of the driver for a DSN, or of the dialect's driver if no driver takes the DSN. It returns ""
// if there is none.
func noteOf(d dialect.Dialect, dsn string) string {
	if drv, err := dialect.Lookup(dsn); err == nil {
		return drv.Note
	}
	for _, scheme := range dialect.Schemes() {
		if drv, err := dialect.Lookup(scheme); err == nil && reflect.TypeOf(drv.Dialect) == reflect.TypeOf(d) {
			return drv.Note
		}
	}
	return ""
}

// notes are the notes that this process has logged. It logs each once.
var notes sync.Map

// logNote logs a dialect's note, which users should read before they rely on the dialect.
func logNote(logger *slog.Logger, d dialect.Dialect, dsn string) {
	note := noteOf(d, dsn)
	if note == "" {
		return
	}
	if _, logged := notes.LoadOrStore(note, true); !logged {
		logger.Info("dbq: note on this dialect", "dialect", d.Name(), "note", note)
	}
}

// logUntested logs that the suite has not been run on a server's product and version.
func logUntested(logger *slog.Logger, s dialect.Server) {
	if !s.Untested {
		return
	}
	if _, logged := notes.LoadOrStore(s.Product+" "+s.Version, true); !logged {
		logger.Info("dbq: the conformance suite has not been run on this version of the server",
			"product", s.Product, "version", s.Version)
	}
}
