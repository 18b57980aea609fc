package main

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// settingFlags are flags that set the fields of s. Without a flag a field stays as it is.
func settingFlags(s *admin.QueueSettings) *pflag.FlagSet {
	f := orderedFlags()
	f.IntVar(&s.Concurrency, "concurrency", s.Concurrency,
		"run up to `N` tasks at once in each worker (0: each worker's own)")
	f.IntVar(&s.Batch, "batch", s.Batch, "check out at most `N` tasks at once (0: each worker's own)")
	durationVar(f, &s.Poll, "poll", s.Poll, "look for tasks at least once in this `TIME` (0: each worker's own)")
	durationVar(f, &s.Lease, "lease", s.Lease, "lease tasks for this `TIME` (0: each worker's own)")
	f.IntVar(&s.MaxAttempts, "max-attempts", s.MaxAttempts, "cap a task's own number of attempts at `N` (0: no cap)")
	f.StringVar((*string)(&s.History), "history", string(s.History), "record these `ATTEMPTS`: all, failures or none")
	f.AddFlagSet(retentionFlags(&s.Retention))
	return f
}

// retentionFlags are flags that set the fields of r.
func retentionFlags(r *dbq.Retention) *pflag.FlagSet {
	f := orderedFlags()
	f.Var((*keepFlag)(&r.Completed), "keep-completed",
		"keep COMPLETED tasks for this `TIME`, such as 24h or 7d, or forever (0: the worker's default)")
	f.Var((*keepFlag)(&r.Poison), "keep-poison", "keep POISON tasks for this `TIME` (0: the worker's default)")
	f.Var((*keepFlag)(&r.Parked), "keep-parked", "keep parked tasks for this `TIME` (0: the worker's default)")
	f.Var((*keepFlag)(&r.Attempts), "keep-attempts",
		"keep the history of attempts for this `TIME` (0: the worker's default)")
	f.BoolVar(&r.Archive, "archive", r.Archive, "move tasks into the archive instead of removing them")
	return f
}

func orderedFlags() *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.SortFlags = false
	return f
}

// addInOrder adds flags to a command, whose help lists them in their order.
func addInOrder(cmd *cobra.Command, flags *pflag.FlagSet) {
	cmd.Flags().SortFlags = false
	cmd.Flags().AddFlagSet(flags)
}

// anyChanged reports whether any of the flags is given.
func anyChanged(flags *pflag.FlagSet) (changed bool) {
	flags.VisitAll(func(f *pflag.Flag) { changed = changed || f.Changed })
	return changed
}

// copyChanged sets the flags that are given in from.
func copyChanged(to, from *pflag.FlagSet) {
	from.VisitAll(func(f *pflag.Flag) {
		if !f.Changed {
			return
		}
		if err := to.Set(f.Name, f.Value.String()); err != nil {
			panic(err) // from has taken the same text
		}
	})
}

// eachSetting visits the settings that are set, as flags.
func eachSetting(s admin.QueueSettings, visit func(*pflag.Flag)) {
	settingFlags(&s).VisitAll(func(f *pflag.Flag) {
		if text := f.Value.String(); text != "0" && text != "" && text != "false" {
			visit(f)
		}
	})
}

// settingsText is settings as the flags of dbq queue set that make them.
func settingsText(s admin.QueueSettings) string {
	var parts []string
	eachSetting(s, func(f *pflag.Flag) {
		part := "--" + f.Name
		if f.Value.Type() != "bool" {
			part += " " + f.Value.String()
		}
		parts = append(parts, part)
	})
	return strings.Join(parts, " ")
}

// settingsView is settings as --json shows them: durations in seconds, of which -1 is forever.
func settingsView(s admin.QueueSettings) map[string]any {
	view := map[string]any{}
	eachSetting(s, func(f *pflag.Flag) {
		name := strings.ReplaceAll(f.Name, "-", "_")
		switch v := f.Value.(type) {
		case *durationFlag:
			view[name+"_seconds"] = time.Duration(*v).Seconds()
		case *keepFlag:
			if view[name+"_seconds"] = time.Duration(*v).Seconds(); time.Duration(*v) == dbq.Forever {
				view[name+"_seconds"] = -1
			}
		default:
			switch text := v.String(); v.Type() {
			case "int":
				view[name] = json.Number(text)
			case "bool":
				view[name] = true
			default:
				view[name] = text
			}
		}
	})
	return view
}
