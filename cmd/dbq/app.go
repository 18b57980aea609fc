package main

import (
	"context"
	"io"
	"log/slog"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/spf13/cobra"
)

// app is one run of the program: its streams, and the flags that all commands have.
type app struct {
	in       io.Reader
	out, err io.Writer

	dsn      string // from --dsn or the file of --dsn-file; "" without these
	dsnFile  string
	prefix   string
	schema   string
	strategy string
	json     bool
	colour   bool // the output is a terminal that shows colours

	began bool // a command's own code has run: later errors are not mistakes in the command line
}

// runE is the RunE of a command.
type runE = func(cmd *cobra.Command, args []string) error

// verb makes a function the RunE of a command.
func (a *app) verb(f func(ctx context.Context, args []string) error) runE {
	return func(cmd *cobra.Command, args []string) error {
		a.began = true
		a.colour = wantsColour(a.out)
		if err := a.readDSNFile(); err != nil {
			return err
		}
		return f(cmd.Context(), args)
	}
}

// withClient is verb for a command that needs an open database.
func (a *app) withClient(f func(ctx context.Context, c *dbq.Client, args []string) error) runE {
	return a.verb(func(ctx context.Context, args []string) error {
		c, err := a.open(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		return f(ctx, c, args)
	})
}

// options are the client's options from the global flags.
func (a *app) options() []dbq.Option {
	// A command reports what it did, or in one line why not; only a worker has a log.
	opts := []dbq.Option{dbq.WithLogger(slog.New(slog.DiscardHandler))}
	if a.prefix != "" {
		opts = append(opts, dbq.WithPrefix(a.prefix))
	}
	if a.schema != "" {
		opts = append(opts, dbq.WithSchema(a.schema))
	}
	if a.strategy != "" {
		opts = append(opts, dbq.WithStrategy(dialect.Strategy(a.strategy)))
	}
	return opts
}

// open opens a database that has the tables.
func (a *app) open(ctx context.Context, more ...dbq.Option) (*dbq.Client, error) {
	t, err := a.target()
	if err == nil {
		err = t.mustExist()
	}
	if err != nil {
		return nil, err
	}
	c, err := dbq.Open(ctx, t.dsn, append(a.options(), more...)...)
	if err == nil {
		a.caution(t.note)
	}
	return c, err
}

// openOrMake is open for the commands that a newcomer starts with: it creates the default SQLite file and its tables.
// In any other database an operator creates the tables, with dbq migrate.
func (a *app) openOrMake(ctx context.Context, more ...dbq.Option) (*dbq.Client, error) {
	t, err := a.target()
	if err != nil {
		return nil, err
	}
	if t.isDefault {
		return dbq.Open(ctx, t.dsn, append(a.options(), append(more, dbq.WithMigrate())...)...)
	}
	return a.open(ctx, more...)
}
