package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/dbq-go/dbq/conformance"
	"github.com/dbq-go/dbq/dialect"
	"github.com/spf13/cobra"
)

const conformLong = `Check whether this database keeps dbq's promises: run the conformance suite on it, under each
strategy, and report.

It makes tables of its own, under prefixes that begin with what it prints first, and drops them, also after an
interrupt. Other tables are not touched; the load is that of a busy minute, with large payloads, many
connections and, where the DSN names a host and a port, connections that are cut. The user in the DSN must be
allowed to create tables and views.

Without a DSN it uses a SQLite file in a temporary folder. A SQLite file that does not exist is created, and
removed afterwards.

Progress goes to stderr, on a terminal in one line. The report goes to stdout as text; --report FORMAT writes
another one there, --report FORMAT=FILE one to a file, as often as needed. The formats are text, json, junit
(XML for CI systems) and markdown. --json is --report json. No report is written after an interrupt.

Each report lists the cases that were skipped with the reason; they neither pass nor fail. Exit code 0 when no
case failed, 8 when one did.`

type conformFlags struct {
	strategies []string
	match      string
	reports    []string
	load       int
	parallel   int
	seed       uint64
	verbose    bool
}

func newConform(a *app) *cobra.Command {
	var f conformFlags
	cmd := &cobra.Command{
		Use:   "conform",
		Short: "Check whether a database keeps the promises, and report",
		Long:  conformLong,
		Example: `  dbq conform --dsn postgres://app@db.example/app
  dbq conform --dsn sqlite:/mnt/data/try.db --run Contention -v
  dbq conform --strategy cas --strategy advisory --report junit=conform.xml --report markdown=conform.md`,
		Args: noArgs(""),
		RunE: a.verb(func(ctx context.Context, _ []string) error { return a.conform(ctx, f) }),
	}
	l := cmd.Flags()
	l.StringArrayVar(&f.strategies, "strategy", nil,
		"a checkout `STRATEGY`, repeatable (default each one that the server supports)")
	l.StringVar(&f.match, "run", "", "only the cases whose group/name matches this `REGEXP`")
	l.StringArrayVar(&f.reports, "report", nil, "`FORMAT` or FORMAT=FILE, repeatable: text, json, junit, markdown")
	l.IntVar(&f.load, "load", 1, "multiply the work of the contention cases by `N`")
	l.IntVar(&f.parallel, "parallel", 0, "run `N` cases at once (default 6, on SQLite 1)")
	l.Uint64Var(&f.seed, "seed", 0, "of the random choices, to repeat those of a report (default from the clock)")
	l.BoolVarP(&f.verbose, "verbose", "v", false, "a line for each case")
	return cmd
}

// oddSessions are conformance.Harness.OddSession by the dialect's name, for those whose DSNs can ask for a time zone.
var oddSessions = map[string]func(dsn string) string{}

// conform runs the suite and writes the reports.
func (a *app) conform(ctx context.Context, f conformFlags) error {
	h, err := f.harness()
	switch {
	case err != nil:
		return err
	case a.prefix != "":
		return usagef("conform makes tables under prefixes of its own: leave out --prefix")
	case a.schema != "":
		return usagef("conform makes its tables where the DSN leads: leave out --schema")
	}
	targets, err := a.reportTargets(f.reports)
	if err != nil {
		return err
	}
	t, done, err := a.conformTarget()
	if err != nil {
		return err
	}
	defer done()
	a.caution(t.note)
	h.DSN = func(string) string { return t.dsn }
	if d, err := dialect.Lookup(t.dsn); err == nil {
		h.OddSession = oddSessions[d.Dialect.Name()]
	}
	if t.file != "" && h.Parallel == 0 {
		h.Parallel = 1 // SQLite has one writer; a case that waits for it cannot keep a short lease
	}
	rep, err := a.check(ctx, h, f.verbose)
	if err != nil {
		return err
	}
	for _, target := range targets {
		if err := target.write(a.out, rep); err != nil {
			return err
		}
	}
	return conformVerdict(rep)
}

// harness is the suite that the flags describe.
func (f conformFlags) harness() (h conformance.Harness, err error) {
	h = conformance.Harness{Processes: true, Load: f.load, Parallel: f.parallel, Seed: f.seed}
	for _, s := range f.strategies {
		h.Strategies = append(h.Strategies, dialect.Strategy(s))
	}
	if f.match != "" {
		if h.Match, err = regexp.Compile(f.match); err != nil {
			return h, usagef("--run: %v", err)
		}
	}
	if err := between("load", f.load, 1, 1000); err != nil {
		return h, err
	}
	if f.parallel == 0 { // the default
		return h, nil
	}
	return h, between("parallel", f.parallel, 1, 100)
}

// check runs the suite and reports its progress.
func (a *app) check(ctx context.Context, h conformance.Harness, verbose bool) (conformance.Report, error) {
	show := newProgress(a.err)
	defer show.end()
	failed, done, total := 0, 0, 0
	rep, err := conformance.Check(ctx, h, func(p conformance.Progress) {
		done, total = p.Done, p.Total
		if p.Result == nil {
			show.line("%s, dialect %s, strategies %s, tables %s*", p.Report.Server(), p.Report.Dialect,
				joinStrategies(p.Report.Strategies), p.Tables)
			return
		}
		if p.Result.Status() == conformance.Failed {
			failed++
		}
		if verbose || p.Result.Status() == conformance.Failed {
			show.line("%v", p.Result)
		}
		show.update("%d of %d, %d failed, last %s", done, total, failed, p.Result.Name())
	})
	switch {
	case errors.Is(err, conformance.ErrNoCase):
		return rep, usagef("--run: %s", strings.TrimPrefix(err.Error(), "conformance: "))
	case ctx.Err() != nil && total > 0:
		what := fmt.Sprintf("%d of %d cases had ended, %d failed; its tables were dropped", done, total, failed)
		if len(rep.Leftovers) > 0 {
			what = "these tables could not be dropped: " + strings.Join(rep.Leftovers, ", ")
		}
		return rep, &interrupted{what}
	}
	return rep, err
}

// conformTarget is the database to check. done cleans up after it.
func (a *app) conformTarget() (t target, done func(), err error) {
	t, err = a.target()
	if err != nil {
		return t, nil, err
	}
	if t.isDefault { // nobody's queue: what is made here must not be found by `dbq stats`
		dir, err := os.MkdirTemp("", "dbq-conform-")
		if err != nil {
			return t, nil, err
		}
		t, err = newTarget("sqlite:" + filepath.Join(dir, "conform.db"))
		return t, func() { os.RemoveAll(dir) }, err
	}
	if t.file != "" {
		if _, err := os.Stat(t.file); errors.Is(err, os.ErrNotExist) {
			return t, func() {
				for _, suffix := range sqliteSuffixes {
					_ = os.Remove(t.file + suffix) // most of them are gone with the last connection
				}
			}, nil
		}
	}
	return t, func() {}, nil
}

// conformVerdict is how the program ends.
func conformVerdict(rep conformance.Report) error {
	var all []error
	if n := len(rep.Failed()); n > 0 {
		all = append(all, &exitError{exitBroken, fmt.Errorf("%s broken: see the report", plural(n, "promise"))})
	}
	if len(rep.Leftovers) > 0 {
		all = append(all, failedf("these tables could not be dropped: %s", strings.Join(rep.Leftovers, ", ")))
	}
	return errors.Join(all...)
}

func joinStrategies(list []dialect.Strategy) string {
	return strings.Trim(fmt.Sprint(list), "[]")
}
