package main

import (
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
)

// filterFlags select tasks, for list and the operators' verbs.
type filterFlags struct {
	queue, kind, reference string
	states                 []string
	parked                 bool
	olderThan              time.Duration
	limit                  int
}

func (f *filterFlags) add(cmd *cobra.Command, states []state.State) {
	l := cmd.Flags()
	var names []string
	for _, s := range states {
		names = append(names, strings.ToLower(s.String()))
	}
	l.StringVarP(&f.queue, "queue", "q", "", "only tasks of this `QUEUE`")
	if len(states) > 1 {
		l.StringSliceVar(&f.states, "state", nil, "only tasks in these `STATES`: "+strings.Join(names, ", "))
		complete := cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)
		// It fails only for a flag that is not there or has one already.
		if err := cmd.RegisterFlagCompletionFunc("state", complete); err != nil {
			panic(err)
		}
	}
	if slices.Contains(states, state.Error) {
		l.BoolVar(&f.parked, "parked", false, "only parked tasks: in ERROR, and not retried by themselves")
	}
	l.StringVar(&f.kind, "kind", "", "only tasks of this `KIND`")
	l.StringVar(&f.reference, "reference", "", "only tasks with this `REFERENCE`")
	durationVar(l, &f.olderThan, "older-than", 0, "only tasks that have been in their state for at least this `TIME`, such as 36h or 7d")
}

// narrows reports whether any flag leaves tasks out.
func (f *filterFlags) narrows() bool {
	return f.queue != "" || f.kind != "" || f.reference != "" || len(f.states) > 0 || f.parked || f.olderThan != 0
}

func (f *filterFlags) filter() (dbq.Filter, error) {
	out := dbq.Filter{Queue: f.queue, Kind: f.kind, Reference: f.reference, ParkedOnly: f.parked, OlderThan: f.olderThan, Limit: f.limit}
	for _, name := range f.states {
		s, err := state.Parse(name)
		if err != nil {
			return out, usagef("--state: %s", strings.TrimPrefix(err.Error(), "state: "))
		}
		out.States = append(out.States, s)
	}
	return out, nil
}

// parseID reads a task's id.
func parseID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return id, usagef("%q is not a task's id, which looks like 0198c1f2-7a3b-7c4d-8e5f-0123456789ab", text)
	}
	return id, nil
}
