package main

import (
	"context"
	_ "embed"
	"io"
	"log/slog"
	"strings"

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

// runFunc is what a command does.
type runFunc = func(ctx context.Context, args []string) error

// command makes the command of a page of help.txt.
func (a *app) command(name string, args cobra.PositionalArgs, f runFunc) *cobra.Command {
	cmd := page(name)
	cmd.Args, cmd.RunE = args, a.runE(f)
	return cmd
}

// runE makes a function the RunE of a command.
func (a *app) runE(f runFunc) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.began = true
		a.colour = wantsColour(a.out)
		if err := a.readDSNFile(); err != nil {
			return err
		}
		return f(cmd.Context(), args)
	}
}

//go:embed help.txt
var helpText string

// page makes a command without code from its page of help.txt. name is the command's path, such as "dbq queue pause".
func page(name string) *cobra.Command {
	for _, text := range strings.Split(helpText, "\n# ")[1:] {
		head, body, _ := strings.Cut(text, "\n\n")
		usage, short, _ := strings.Cut(head, "\n")
		rest, found := strings.CutPrefix(usage+" ", name+" ")
		if !found || rest != "" && rest[0] >= 'a' { // another command, or one below this one
			continue
		}
		long, examples, _ := strings.Cut("\n"+body, "\nExamples:\n")
		return &cobra.Command{
			Use:     strings.TrimSpace(name[strings.LastIndex(name, " ")+1:] + " " + rest),
			Short:   strings.TrimSpace(short),
			Long:    strings.TrimSpace(long),
			Example: strings.TrimRight(examples, "\n"),
		}
	}
	panic("help.txt has no page on " + name)
}

// withClient makes a function that needs an open database the code of a command.
func (a *app) withClient(f func(ctx context.Context, c *dbq.Client, args []string) error) runFunc {
	return func(ctx context.Context, args []string) error {
		return a.use(ctx, false, func(c *dbq.Client) error { return f(ctx, c, args) })
	}
}

// use opens the database for f.
func (a *app) use(ctx context.Context, create bool, f func(*dbq.Client) error) error {
	c, err := a.open(ctx, create)
	if err != nil {
		return err
	}
	defer c.Close()
	return f(c)
}

// open opens a database that has the tables. With create, for the commands that a newcomer starts with, it makes the
// default SQLite file and its tables; in any other database an operator makes them, with dbq migrate.
func (a *app) open(ctx context.Context, create bool, opts ...dbq.Option) (*dbq.Client, error) {
	t, err := a.target()
	if create = create && t.isDefault; create {
		opts = append(opts, dbq.WithMigrate())
	} else if err == nil {
		err = t.mustExist()
	}
	if err != nil {
		return nil, err
	}
	c, err := dbq.Open(ctx, t.dsn, append(opts, a.options()...)...)
	if err == nil {
		a.caution(t.note)
	}
	return c, err
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
