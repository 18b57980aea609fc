package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// app is what the verbs share: the streams and the flags that every verb has.
type app struct {
	in       io.Reader
	out, err io.Writer

	dsn      string // as --dsn or the file gave it; "" when neither did
	dsnFile  string
	prefix   string
	schema   string
	strategy string
	json     bool
	colour   bool // the output is a terminal that shows colours

	began bool // a verb's own code ran: what fails from here on is no mistake in the command line by itself
}

// verb makes a function the RunE of a command.
func (a *app) verb(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.began = true
		a.colour = wantsColour(a.out)
		if err := a.readDSNFile(); err != nil {
			return err
		}
		return f(cmd.Context(), args)
	}
}

// options are the client's options that the global flags ask for.
func (a *app) options() []dbq.Option {
	// A command says what it did, or in one line why not; only a worker has a log.
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

// open opens the database for a verb that wants tables to be there.
func (a *app) open(ctx context.Context, more ...dbq.Option) (*dbq.Client, error) {
	t, err := a.target()
	if err != nil {
		return nil, err
	}
	if err := t.mustExist(); err != nil {
		return nil, err
	}
	c, err := dbq.Open(ctx, t.dsn, append(a.options(), more...)...)
	if err == nil {
		a.caution(t.note)
	}
	return c, err
}

// openOrMake is open for the verbs that a newcomer starts with: on the default SQLite file they make file and tables. On
// any other database the tables are somebody's decision: `dbq migrate`.
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

// printJSON writes one JSON document on a line of its own.
func (a *app) printJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := a.out.Write(visibleJSON(b.Bytes()))
	return err
}

// say prints a line of the result.
func (a *app) say(format string, args ...any) error {
	_, err := fmt.Fprintln(a.out, visible(fmt.Sprintf(format, args...)))
	return err
}

// sayLines prints a result of several lines.
func (a *app) sayLines(text string) error {
	_, err := io.WriteString(a.out, visibleLines(text))
	return err
}

// note prints a line for people that is not part of the result.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.err, visible(fmt.Sprintf(format, args...)))
}

// clash refuses flags of which only one can be meant.
func clash(flags *pflag.FlagSet, names ...string) error {
	var given []string
	for _, name := range names {
		if flags.Changed(name) {
			given = append(given, "--"+name)
		}
	}
	if len(given) > 1 {
		return usagef("%s contradict each other: give one of them", strings.Join(given, " and "))
	}
	return nil
}

// isTerminal reports whether a person sits at the other end of a stream.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// plural is "1 task", "2 tasks".
func plural[N int | int64](n N, noun string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s", noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
