package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// noArgs refuses arguments. hint suggests a correction.
func noArgs(hint string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		if hint != "" {
			hint = ": " + hint
		}
		return usagef("`%s` takes only flags, not an argument%s%s", cmd.CommandPath(), nameOf(args[0]), hint)
	}
}

// oneArg requires exactly one argument. The error calls it what.
func oneArg(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("give one %s, not %d", what, len(args))
		}
		return nil
	}
}

// oneID requires exactly one task id.
func oneID(cmd *cobra.Command, args []string) error {
	return cmp.Or(oneArg("task id")(cmd, args), taskIDs(cmd, args))
}

// taskIDs refuses arguments that are not task ids.
func taskIDs(_ *cobra.Command, args []string) error {
	for _, arg := range args {
		if _, err := parseID(arg); err != nil {
			return err
		}
	}
	return nil
}

// parseID reads a task's id. The zero id is none: a filter by it would select every task.
func parseID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || id == uuid.Nil {
		return id, usagef("this is not a task id; ids look like 0198c1f2-7a3b-7c4d-8e5f-0123456789ab")
	}
	return id, nil
}

// parent makes a command that only has subcommands.
func parent(name string, children ...*cobra.Command) *cobra.Command {
	cmd := page(name)
	var names []string
	for _, c := range children {
		names = append(names, c.Name())
	}
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return usagef("`%s` has no command%s, only %s", cmd.CommandPath(), nameOf(args[0]), orList(names))
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(children...)
	return cmd
}

// clash refuses flags that exclude each other.
func clash(flags *pflag.FlagSet, names ...string) error {
	var given []string
	for _, name := range names {
		if flags.Changed(name) {
			given = append(given, "--"+name)
		}
	}
	if len(given) > 1 {
		return usagef("%s exclude each other: give only one of them", strings.Join(given, " and "))
	}
	return nil
}

// intFlag is a number within limits as the value of a flag.
type intFlag struct {
	to          *int
	least, most int
}

func (f *intFlag) String() string { return strconv.Itoa(*f.to) }
func (*intFlag) Type() string     { return "int" }

// Set reads it.
func (f *intFlag) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < f.least || n > f.most {
		return fmt.Errorf("it must be a number, %d to %d", f.least, f.most)
	}
	*f.to = n
	return nil
}

// intWithin is an intFlag with its default and its limits.
func intWithin(to *int, value, least, most int) *intFlag {
	*to = value
	return &intFlag{to, least, most}
}

// filterFlags select tasks, for list and the operators' commands.
type filterFlags struct {
	admin.Filter
	states []string
}

func (f *filterFlags) add(a *app, cmd *cobra.Command, states []state.State) {
	l := cmd.Flags()
	a.addQueueFlag(cmd, &f.Queue, "only tasks of this `QUEUE`")
	if len(states) > 1 {
		var names []string
		for _, s := range states {
			names = append(names, strings.ToLower(s.String()))
		}
		l.StringSliceVar(&f.states, "state", nil, "only tasks in these `STATES`: "+strings.Join(names, ", "))
		completeFlag(cmd, "state", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	}
	if slices.Contains(states, state.Error) {
		l.BoolVar(&f.ParkedOnly, "parked", false, "only parked tasks: in ERROR and not retried automatically")
	}
	if slices.Contains(states, state.Processing) {
		l.StringVar(&f.Holder, "holder", "", "only tasks in PROCESSING that this `WORKER` holds")
	}
	if slices.Contains(states, state.Poison) {
		l.BoolVar(&f.CancelledOnly, "cancelled", false, "only cancelled tasks, which are in POISON")
		l.BoolVar(&f.NotCancelled, "not-cancelled", false, "leave out cancelled tasks")
	}
	l.Func("workflow", "only tasks of the workflow with this `ID`", func(text string) (err error) {
		f.Workflow, err = parseID(text)
		return err
	})
	l.StringVar(&f.Kind, "kind", "", "only tasks of this `KIND`")
	l.StringVar(&f.Reference, "reference", "", "only tasks with this `REFERENCE`")
	l.StringVar(&f.Key, "key", "", "only tasks with this `KEY`")
	durationVar(l, &f.InStateFor, "in-state-for", 0,
		"only tasks that have been in their state for at least this `TIME`, such as 36h or 7d")
	durationVar(l, &f.EnteredWithin, "entered-within", 0, "only tasks that came into their state at most this `TIME` ago").
		within(time.Millisecond, 0) // 0 would select all tasks
}

// narrows reports whether any flag restricts the tasks.
func (f *filterFlags) narrows() bool {
	return f.Queue != "" || f.Kind != "" || f.Reference != "" || f.Key != "" || f.Workflow != uuid.Nil ||
		len(f.states) > 0 || f.Holder != "" ||
		f.ParkedOnly || f.CancelledOnly || f.NotCancelled || f.InStateFor != 0 || f.EnteredWithin != 0
}

// filter is the filter that the flags describe.
func (f *filterFlags) filter() (admin.Filter, error) {
	out := f.Filter
	for _, name := range f.states {
		s, err := state.Parse(name)
		if err != nil {
			return out, usagef("--state: %s", strings.TrimPrefix(err.Error(), "state: "))
		}
		out.States = append(out.States, s)
	}
	return out, nil
}

// addQueueFlag adds --queue, which completes the names of queues.
func (a *app) addQueueFlag(cmd *cobra.Command, to *string, usage string) {
	cmd.Flags().StringVarP(to, "queue", "q", "", usage)
	completeFlag(cmd, "queue", a.completeBy(queueNames))
}

// completeFlag sets a flag's completion. It fails only for a flag that does not exist or has one already.
func completeFlag(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

// completionTimeout bounds how long a shell waits for names.
const completionTimeout = 2 * time.Second

// completeBy makes a completion from names in the database. Without an answer in time it completes nothing.
func (a *app) completeBy(names func(context.Context, *dbq.Client) ([]string, error)) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begin string) (found []string, _ cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
		defer cancel()
		var all []string
		err := a.readDSNFile()
		if err == nil {
			err = a.use(ctx, false, func(c *dbq.Client) (err error) { all, err = names(ctx, c); return err })
		}
		for _, name := range all {
			// Omit names that would control the terminal.
			if err == nil && strings.HasPrefix(name, begin) && visible(name) == name {
				found = append(found, name)
			}
		}
		slices.Sort(found)
		return slices.Compact(found), cobra.ShellCompDirectiveNoFileComp
	}
}

// firstArg completes the first argument alone.
func firstArg(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, begin)
	}
}

// orList is "a", "a or b", "a, b or c".
func orList(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// span formats a duration for people: like duration.Format, but rounded down to about two units.
func span(d time.Duration) string {
	if d < time.Millisecond {
		return "0ms"
	}
	const day = 24 * time.Hour
	unit := day
	for _, u := range []struct{ under, unit time.Duration }{
		{10 * day, time.Hour}, {day, time.Minute}, {time.Hour, time.Second}, {10 * time.Second, 100 * time.Millisecond},
		{time.Second, time.Millisecond},
	} {
		if d < u.under {
			unit = u.unit
		}
	}
	return duration.Format(d.Truncate(unit))
}

// durationFlag is a duration as the value of a flag. Every duration on the command line is read by it.
type durationFlag struct {
	to          *time.Duration
	least, most time.Duration // its limits; a most of 0 means no limit
	orForever   bool          // "forever" is dbq.Forever
}

// durationVar adds a flag for a duration.
func durationVar(f *pflag.FlagSet, to *time.Duration, name string, value time.Duration, usage string) *durationFlag {
	*to = value
	d := &durationFlag{to: to}
	f.Var(d, name, usage)
	return d
}

// within sets the limits.
func (d *durationFlag) within(least, most time.Duration) { d.least, d.most = least, most }

func (*durationFlag) Type() string { return "duration" }

func (d *durationFlag) String() string {
	if d.orForever && *d.to == dbq.Forever {
		return duration.ForeverText
	}
	return duration.Format(*d.to)
}

// Set reads it.
func (d *durationFlag) Set(text string) error {
	if d.orForever && text == duration.ForeverText {
		*d.to = dbq.Forever
		return nil
	}
	v, err := duration.Parse(text)
	switch {
	case err != nil:
		return err
	case d.most > 0 && (v < d.least || v > d.most):
		return fmt.Errorf("it must be %s to %s", duration.Format(d.least), duration.Format(d.most))
	case v < d.least:
		return fmt.Errorf("it must be at least %s", duration.Format(d.least))
	}
	*d.to = v
	return nil
}
