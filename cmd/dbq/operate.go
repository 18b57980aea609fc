package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	osuser "os/user"
	"slices"
	"strings"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
)

// operatorVerb holds the texts of an operator's event that the state table does not have.
type operatorVerb struct {
	name    string // of the command, if a person would use another word than the event; that is an alias then
	past    string // for such a name: "1 task deleted"
	rare    bool   // listed apart from what an operator needs every day
	does    string
	note    string // a hint for the operator
	example string
	confirm bool // with a filter, it requires a confirmation
}

var operatorVerbs = map[state.Event]operatorVerb{
	state.Reject: {rare: true, does: "Park tasks before they run",
		example: "dbq reject --queue mail --kind newsletter",
		note:    "`dbq retry` lets it run after all."},
	state.Revoke: {rare: true, does: "Take leases away and park the tasks",
		example: "dbq revoke --queue mail --in-state-for 1h",
		note: "The worker's program is killed within 2 seconds, on PostgreSQL at once. " +
			"`dbq retry` lets the task run again."},
	state.Cancel: {does: "Stop tasks for good", example: "dbq cancel --queue mail --kind newsletter",
		note: "The worker's program is killed as by `dbq revoke`. `dbq list --cancelled` shows what was cancelled, and " +
			"`dbq retry` lets it run after all."},
	state.Reenqueue: {name: "retry", past: "made due again", does: "Make failed tasks due again, with all their attempts",
		example: "dbq retry --queue mail --state poison --entered-within 2h --dry-run",
		note: "Use it once the cause of a failure is gone. A filter leaves out cancelled tasks, unless --cancelled selects " +
			"them."},
	state.Finish: {rare: true, confirm: true, does: "Complete tasks without running them",
		example: `dbq finish --queue mail --state poison --yes --reason "sent by hand"`,
		note: "It cannot be undone. Use it if the work was done in another way, or for a step of a workflow that waits " +
			"for it. --result sets the result, which otherwise names you and the reason. A filter leaves out cancelled " +
			"tasks, unless --cancelled selects them, and asks first; --yes answers, and is required without a terminal."},
	state.Quarantine: {rare: true, does: "End the retries of failed tasks",
		example: "dbq quarantine --parked --in-state-for 24h",
		note:    "A worker's program poisons its own task by exit code 65."},
	state.Restore: {rare: true, does: "Park poisoned tasks for inspection", example: "dbq restore --queue mail",
		note: "Nothing retries it there; `dbq retry` does."},
	state.Purge: {name: "delete", past: "deleted", does: "Remove ended and parked tasks", confirm: true,
		example: "dbq delete --state completed --in-state-for 30d --yes",
		note:    "It cannot be undone. With a filter it asks first; --yes answers, and is required without a terminal."},
}

func newOperate(a *app, t state.Transition) *cobra.Command {
	v := operatorVerbs[t.Event]
	name, aliases := v.name, []string{string(t.Event)}
	if name == "" {
		name, aliases = string(t.Event), nil
	}
	op := operation{app: a, event: t.Event, name: name, past: cmp.Or(v.past, t.Past)}
	var f filterFlags
	var all, yes bool
	var result string
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use:     name + " [ID...] [FILTER]",
		Aliases: aliases,
		GroupID: map[bool]string{false: groupOperate, true: groupAdvanced}[v.rare],
		Short:   fmt.Sprintf("%s (%s)", v.does, path(t)),
		Long: fmt.Sprintf(`%s (%s).
%s
%s

Give task ids, or select tasks by filter flags; "dbq list" with the same flags shows the selected tasks. A filter
takes only tasks whose state allows it. To select every task that the command may take, give --all.

With --json, it prints one document: {"event":"%s","changed":2}, with "failed" for ids that were refused, and
"more" if there may be more tasks than the limit.`,
			v.does, path(t), t.Doc, v.note, t.Event),
		Example: fmt.Sprintf("  dbq %s 0198c1f2-7a3b-7c4d-8e5f-0123456789ab\n  %s", name, v.example),
		Args:    taskIDs,
		RunE: a.runE(func(ctx context.Context, ids []string) error {
			if cmd.Flags().Changed("result") {
				op.opts = []admin.Option{admin.Result([]byte(result))}
			}
			switch {
			case len(ids) == 0:
			case op.dryRun:
				return usagef("--dry-run counts what filter flags select; give no ids")
			case all || f.narrows():
				return usagef("select tasks by id or by filter flags, not both")
			default:
				return a.use(ctx, false, func(c *dbq.Client) error { return op.onIDs(ctx, c, ids) })
			}
			filter, err := op.filter(&f, t, all)
			if err == nil && v.confirm && !yes && !op.dryRun {
				err = a.confirm(fmt.Sprintf("%s up to %d tasks that the filter selects?", name, f.Limit),
					"it cannot be undone (`dbq list` with the same flags shows the tasks)")
			}
			if err != nil {
				return err
			}
			return a.use(ctx, false, func(c *dbq.Client) error { return op.onFilter(ctx, c, filter) })
		}),
	}
	f.add(a, cmd, t.FromStates())
	l := cmd.Flags()
	l.Var(intWithin(&f.Limit, dbq.MaxBulk, 1, dbq.MaxBulk), "limit", "change at most `N` tasks that a filter selects")
	l.BoolVar(&op.dryRun, "dry-run", false, "only count the tasks that the filter selects, up to the limit")
	l.BoolVar(&all, "all", false, "select every task whose state allows it, in every queue")
	if t.Event == state.Finish {
		l.StringVar(&result, "result", "", "the `RESULT` of the tasks; steps of workflows expect JSON")
	}
	a.addNote(cmd)
	if v.confirm {
		l.BoolVar(&yes, "yes", false, "do not ask")
	}
	return cmd
}

// addNote adds --reason and --by, which the audit keeps of a command that changes something.
func (a *app) addNote(cmd *cobra.Command) *cobra.Command {
	l := cmd.Flags()
	l.StringVar(&a.origin.Reason, "reason", "", "`WHY`, shown to other operators")
	l.StringVar(&a.origin.By, "by", a.origin.By, "`WHO`, shown to other operators")
	l.Lookup("by").DefValue = "user@host"
	return cmd
}

// operatorName returns user@host, or the part of it that the system reports.
func operatorName() string {
	name := "unknown"
	if u, err := osuser.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

// filter returns the filter of an event. It refuses probable mistakes.
func (op *operation) filter(f *filterFlags, t state.Transition, all bool) (admin.Filter, error) {
	filter, err := f.filter()
	switch {
	case err != nil:
		return filter, err
	case !f.narrows() && !all:
		return filter, usagef("%s: no tasks selected; give task ids, filter flags such as --queue, or --all",
			op.name)
	case all && f.narrows():
		return filter, usagef("--all and filter flags exclude each other")
	}
	for _, s := range filter.States {
		if !slices.Contains(t.FromStates(), s) {
			return filter, usagef("%s takes %s, not %v", op.name, orList(t.Sources()), s)
		}
	}
	return filter, nil
}

// confirm requests a confirmation, and returns an error unless the answer is yes. Without a terminal, the error has the
// reason for the question.
func (a *app) confirm(question, reason string) error {
	if !isTerminal(a.in) || !isTerminal(a.err) {
		return usagef("%s: add --yes", reason)
	}
	fmt.Fprint(a.err, visible(question)+" [y/N] ")
	line, _ := bufio.NewReader(a.in).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return failedf("not confirmed: nothing was changed")
	}
	return nil
}

// operation is a run of an operator's command.
type operation struct {
	*app
	event  state.Event
	name   string // of the command
	past   string
	dryRun bool
	opts   []admin.Option
}

// operated is the result as --json shows it.
type operated struct {
	Event   state.Event `json:"event"`
	Changed int         `json:"changed"`
	More    bool        `json:"more,omitempty"`    // the filter may select more tasks
	DryRun  bool        `json:"dry_run,omitempty"` // nothing was changed: it would have been
	Failed  []refusal   `json:"failed,omitempty"`
}

type refusal struct {
	ID    uuid.UUID `json:"id"`
	Error string    `json:"error"`
}

func (op *operation) onIDs(ctx context.Context, c *dbq.Client, ids []string) error {
	out := operated{Event: op.event}
	var first error
	for _, text := range ids {
		id := uuid.MustParse(text)
		err := admin.New(c).Operate(ctx, op.event, id, op.opts...)
		if err == nil {
			out.Changed++
			continue
		}
		out.Failed = append(out.Failed, refusal{id, oneLine(err.Error())})
		first = cmp.Or(first, err)
		if code := exitCode(ctx, err, true); code != exitNotFound && code != exitState {
			break // the next task would fail too
		}
	}
	if op.json || first == nil || out.Changed > 0 { // otherwise the error is enough
		if err := op.result(out, "%s %s", plural(out.Changed, "task"), op.past); err != nil {
			return err
		}
	}
	if first != nil && len(ids) > 1 {
		return fmt.Errorf("%w (%d of %d tasks %s)", first, out.Changed, len(ids), op.past)
	}
	return first
}

// maxParts is how often a command looks for more tasks, if many that the filter selects cannot be changed.
const maxParts = 1000

// changeUpTo changes up to f.Limit tasks. What cannot be changed, such as a task to purge that a workflow still needs,
// does not count.
func (op *operation) changeUpTo(ctx context.Context, c *dbq.Client, f admin.Filter, opts []admin.Option) (
	all admin.Operated, err error) {
	limit := f.Limit
	for range maxParts {
		var part admin.Operated
		part, err = admin.New(c).OperateMany(ctx, op.event, f, opts...)
		all.Changed, all.More = all.Changed+part.Changed, part.More
		if err != nil || !part.More || all.Changed == limit {
			break
		}
		f.After, f.Limit = part.Last, limit-all.Changed
	}
	return all, err
}

func (op *operation) onFilter(ctx context.Context, c *dbq.Client, f admin.Filter) error {
	past, opts := op.past, op.opts
	if op.dryRun {
		past, opts = "would be "+past, append(opts, admin.DryRun())
	}
	done, err := op.changeUpTo(ctx, c, f, opts)
	if err == nil {
		err = mustBeKnownIfEmpty(ctx, c, f.Queue, done.Changed)
	}
	changed := plural(done.Changed, "task")
	switch {
	case err != nil && done.Changed > 0:
		return fmt.Errorf("%w (until then %s %s)", err, changed, op.past)
	case err != nil:
		return err
	case !done.More || op.dryRun:
	case done.Changed == f.Limit:
		op.note("the limit of %d was reached and there may be more tasks: run the command again for the rest", f.Limit)
	default:
		op.note("there may be more tasks behind many that cannot be changed: narrow the filter")
	}
	return op.result(operated{Event: op.event, Changed: done.Changed, More: done.More, DryRun: op.dryRun},
		"%s %s", changed, past)
}

// path returns the states before and after an event, as text.
func path(t state.Transition) string {
	if t.To == state.None {
		return orList(t.Sources())
	}
	return orList(t.Sources()) + " to " + t.To.String()
}
