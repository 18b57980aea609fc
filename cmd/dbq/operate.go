package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	osuser "os/user"
	"slices"
	"strings"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
)

// operatorVerb is what the state table does not know about an operator's event.
type operatorVerb struct {
	past    string
	note    string // what an operator should know
	example string
	alias   string
	confirm bool // by filter, it asks first
}

var operatorVerbs = map[state.Event]operatorVerb{
	state.Reject: {past: "rejected", example: "dbq reject --queue mail --kind newsletter",
		note: "`dbq reenqueue` lets it run after all."},
	state.Revoke: {past: "revoked", example: "dbq revoke --queue mail --older-than 1h",
		note: "The worker's program is ended within 2 seconds, on PostgreSQL at once. `dbq reenqueue` lets the task run again."},
	state.Reenqueue: {past: "reenqueued", example: "dbq reenqueue --queue mail --state poison",
		note: "This is what to do once the cause of a failure is gone."},
	state.Quarantine: {past: "quarantined", example: "dbq quarantine --parked --older-than 24h", alias: "poison",
		note: "It takes tasks in ERROR; `dbq poison` is the same. (A worker's program poisons its own task by exit code 65.)"},
	state.Restore: {past: "restored", example: "dbq restore --queue mail",
		note: "Nothing retries it by itself there; `dbq reenqueue` does."},
	state.Purge: {past: "purged", example: "dbq purge --state completed --older-than 30d --yes", confirm: true,
		note: "It cannot be undone. By filter it asks first; --yes answers, and is needed where there is no terminal to ask on."},
}

func newOperate(a *app, t state.Transition) *cobra.Command {
	v := operatorVerbs[t.Event]
	var f filterFlags
	var all, yes bool
	op := dbq.Operation{Event: t.Event}
	cmd := &cobra.Command{
		Use:   string(t.Event) + " [ID...] [FILTER]",
		Short: fmt.Sprintf("%s (%s)", strings.TrimSuffix(t.Doc, "."), path(t)),
		Long: fmt.Sprintf(`%s (%s) %s

Name tasks by id, or select them by filter flags; "dbq list" with the same flags shows them first. A filter takes only tasks
whose state allows it. One that leaves nothing out needs --all.

With --json it prints one document: {"event":"%s","changed":2}, with "failed" for ids that were refused.`,
			t.Doc, path(t), v.note, t.Event),
		Example: fmt.Sprintf("  dbq %s 0198c1f2-7a3b-7c4d-8e5f-0123456789ab\n  %s", t.Event, v.example),
	}
	if v.alias != "" {
		cmd.Aliases = []string{v.alias}
	}
	f.add(cmd, t.FromStates())
	a.completeQueueFlag(cmd)
	cmd.Flags().IntVar(&f.limit, "limit", dbq.MaxBulk, "tasks that a filter takes at most")
	cmd.Flags().BoolVar(&all, "all", false, "take every task whose state allows it, in every queue")
	cmd.Flags().StringVar(&op.Reason, "reason", "", "why, kept with the task")
	cmd.Flags().StringVar(&op.By, "by", operatorName(), "who, kept with the task")
	cmd.Flags().Lookup("by").DefValue = "user@host"
	if v.confirm {
		cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	}
	cmd.RunE = a.verb(func(ctx context.Context, args []string) error {
		if len(args) > 0 {
			if all || f.narrows() {
				return usagef("name tasks by id or by filter flags, not both")
			}
			return a.operateIDs(ctx, op, args)
		}
		filter, err := f.operatorFilter(t, all)
		if err != nil {
			return err
		}
		if v.confirm && !yes {
			if err := a.confirm(fmt.Sprintf("%s what the filter selects, up to %d tasks?", t.Event, f.limit)); err != nil {
				return err
			}
		}
		return a.operateFilter(ctx, op, filter)
	})
	return cmd
}

// operatorName is user@host, as far as the system says them.
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

// operatorFilter refuses filters that are a mistake rather than a wish.
func (f *filterFlags) operatorFilter(t state.Transition, all bool) (dbq.Filter, error) {
	filter, err := f.filter()
	switch {
	case err != nil:
		return filter, err
	case !f.narrows() && !all:
		return filter, usagef("%s what? Give task ids, filter flags such as --queue, or --all for every task it may take", t.Event)
	case all && f.narrows():
		return filter, usagef("--all and a filter contradict each other")
	case f.limit < 1 || f.limit > dbq.MaxBulk:
		return filter, usagef("--limit %d: it must be between 1 and %d", f.limit, dbq.MaxBulk)
	}
	for _, s := range filter.States {
		if !slices.Contains(t.FromStates(), s) {
			return filter, usagef("%s takes %s, not %v", t.Event, sourceStates(t), s)
		}
	}
	return filter, nil
}

// confirm asks a person.
func (a *app) confirm(question string) error {
	if !isTerminal(a.in) || !isTerminal(a.err) {
		return usagef("this removes tasks for good: add --yes (`dbq list` with the same flags shows them)")
	}
	fmt.Fprint(a.err, visible(question)+" [y/N] ")
	line, _ := bufio.NewReader(a.in).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return failedf("nothing was done")
	}
	return nil
}

// operated is the outcome as --json shows it.
type operated struct {
	Event   state.Event `json:"event"`
	Changed int         `json:"changed"`
	Failed  []refused   `json:"failed,omitempty"`
}

type refused struct {
	ID    uuid.UUID `json:"id"`
	Error string    `json:"error"`
}

func (a *app) operateIDs(ctx context.Context, op dbq.Operation, args []string) error {
	var ids []uuid.UUID
	for _, arg := range args {
		id, err := parseID(arg)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	c, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	out := operated{Event: op.Event}
	var first error
	for _, id := range ids {
		err := c.Operate(ctx, op, id)
		if err == nil {
			out.Changed++
			continue
		}
		out.Failed = append(out.Failed, refused{id, oneLine(err.Error())})
		if first == nil {
			first = err
		}
		if code := exitCode(ctx, err, true); code != exitNotFound && code != exitState {
			break // it is not about this task
		}
	}
	if err := a.printOperated(out); err != nil {
		return err
	}
	if first != nil && len(ids) > 1 {
		return fmt.Errorf("%w (%d of %d tasks %s)", first, out.Changed, len(ids), operatorVerbs[op.Event].past)
	}
	return first
}

func (a *app) operateFilter(ctx context.Context, op dbq.Operation, f dbq.Filter) error {
	c, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	changed, err := c.OperateMany(ctx, op, f)
	if err != nil {
		if changed > 0 {
			err = fmt.Errorf("%w (until then %s %s)", err, plural(changed, "task"), operatorVerbs[op.Event].past)
		}
		return err
	}
	if changed == f.Limit {
		a.note("there may be more: the limit of %d was reached, run it again for the rest", f.Limit)
	}
	return a.printOperated(operated{Event: op.Event, Changed: changed})
}

func (a *app) printOperated(o operated) error {
	if a.json {
		return a.printJSON(o)
	}
	if o.Changed == 0 && len(o.Failed) > 0 {
		return nil // the error says it all
	}
	return a.say("%s %s", plural(o.Changed, "task"), operatorVerbs[o.Event].past)
}

// sourceStates are the states an event starts from, as text.
func sourceStates(t state.Transition) string {
	var names []string
	for _, src := range t.From {
		name := src.State.String()
		if src.When != state.Always {
			name = string(src.When) + " " + name
		}
		names = append(names, name)
	}
	return orList(names)
}

// orList is "a", "a or b", "a, b or c".
func orList(names []string) string {
	if len(names) > 1 {
		names = append(names[:len(names)-2:len(names)-2], names[len(names)-2]+" or "+names[len(names)-1])
	}
	return strings.Join(names, ", ")
}

// path is where an event leads from and to.
func path(t state.Transition) string {
	if t.To == state.None {
		return sourceStates(t)
	}
	return sourceStates(t) + " to " + t.To.String()
}
