package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
)

func newAudit(a *app) *cobra.Command {
	return parent("dbq audit", newAuditList(a), newAuditClean(a))
}

func newAuditList(a *app) *cobra.Command {
	var f admin.AuditFilter
	var within time.Duration
	var limit int
	cmd := a.command("dbq audit list", noArgs(""), a.withClient(
		func(ctx context.Context, c *dbq.Client, _ []string) error {
			if within > 0 {
				now, err := c.Now(ctx)
				if err != nil {
					return err
				}
				f.Since = now.Add(-within)
			}
			var entries []admin.AuditEntry
			for more := true; more && len(entries) < limit; {
				f.Limit = limit - len(entries)
				page, err := admin.New(c).Audit(ctx, f)
				if err != nil {
					return err
				}
				entries, more, f = append(entries, page.Entries...), page.More, f.From(page.Next)
			}
			if err := mustBeKnownIfEmpty(ctx, c, f.Queue, len(entries)); err != nil {
				return err
			}
			if f.Before != uuid.Nil && !a.json {
				a.note("there may be more: --before %s", f.Before)
			}
			return auditListing.print(ctx, a, c, entries)
		}))
	l := cmd.Flags()
	l.SortFlags = false
	a.addQueueFlag(cmd, &f.Queue, "only changes of this `QUEUE`")
	l.StringVar(&f.Action, "action", "", "only this `ACTION`, such as purge or \"pause queue\"")
	l.StringVar(&f.By, "by", "", "only changes by this `OPERATOR`")
	id := func(to *uuid.UUID) func(string) error {
		return func(text string) (err error) { *to, err = parseID(text); return err }
	}
	l.Func("task", "only changes of the one task with this `ID`", id(&f.TaskID))
	durationVar(l, &within, "within", 0, "only changes of this last `TIME`, such as 36h or 7d")
	l.Func("before", "only entries before the one with this `ID`: the next page", id(&f.Before))
	l.Var(intWithin(&limit, 100, 1, dbq.MaxCheckout), "limit", "at most `N` entries")
	return cmd
}

var auditListing = listing[admin.AuditEntry]{
	none:      "no changes",
	columns:   []string{"AGE", "WHO", "PROGRAM", "ACTION", "OF", "CHANGED", "REASON"},
	rightFrom: 7,
	row: func(e admin.AuditEntry, now time.Time) []string {
		of := cmp.Or(e.Subject, e.Queue)
		switch {
		case e.TaskID != uuid.Nil:
			of = e.TaskID.String()
		case e.Filter != nil:
			of = string(e.Filter)
		}
		return []string{span(now.Sub(e.At)), e.By, e.Program, e.Action, cmp.Or(of, "-"), fmt.Sprint(e.Changed),
			cmp.Or(e.Reason, "-")}
	},
	json: func(e admin.AuditEntry) any { return e },
}

func newAuditClean(a *app) *cobra.Command {
	var keep time.Duration
	var yes bool
	cmd := a.command("dbq audit clean", noArgs(""), a.withClient(
		func(ctx context.Context, c *dbq.Client, _ []string) error {
			if keep == 0 {
				return usagef("--keep is missing: entries that are older are removed")
			}
			if !yes {
				question := fmt.Sprintf("remove the entries that are older than %s?", duration.Format(keep))
				if err := a.confirm(question, "this removes old entries of the audit permanently"); err != nil {
					return err
				}
			}
			removed, err := admin.New(c).CleanAudit(ctx, keep)
			if err != nil {
				return err
			}
			return a.result(map[string]int{"removed": removed}, "removed %d entries", removed)
		}))
	durationVar(cmd.Flags(), &keep, "keep", 0, "keep the entries of this last `TIME`, such as 365d").
		within(time.Microsecond, dbq.MaxDelay)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return a.addNote(cmd)
}
