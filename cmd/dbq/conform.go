package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/dbq-go/dbq/conformance"
	"github.com/dbq-go/dbq/dialect"
	"github.com/spf13/cobra"
)

type conformFlags struct {
	conformance.Harness
	strategies []string
	match      string
	reports    []string
	list       bool
	verbose    bool
}

func newConform(a *app) *cobra.Command {
	var f conformFlags
	cmd := a.command("dbq conform", noArgs(""), func(ctx context.Context, _ []string) error { return a.conform(ctx, f) })
	l := cmd.Flags()
	l.StringArrayVar(&f.strategies, "strategy", nil,
		"a checkout `STRATEGY`, repeatable (default every strategy that the server supports)")
	l.StringVar(&f.match, "run", "", "only the cases whose group/name matches this `REGEXP`")
	l.BoolVar(&f.list, "list", false, "print the laws, and check nothing")
	l.StringArrayVar(&f.reports, "report", nil, "`FORMAT` or FORMAT=FILE, repeatable: text, json, junit")
	l.Var(intWithin(&f.Load, 1, 1, 1000), "load", "multiply the work of the contention cases by `N`")
	l.Var(intWithin(&f.Parallel, 0, 0, 100), "parallel", "run `N` cases at once (default 6, on SQLite 1)")
	l.Uint64Var(&f.Seed, "seed", 0, "`SEED` of the random choices; use the seed of a report to repeat its run")
	l.BoolVarP(&f.verbose, "verbose", "v", false, "print a line for each case")
	return cmd
}

// conform runs the suite and writes the reports.
func (a *app) conform(ctx context.Context, f conformFlags) error {
	h, err := f.harness()
	switch {
	case err != nil:
		return err
	case a.prefix != "":
		return usagef("conform chooses the prefixes of its tables: leave out --prefix")
	case a.schema != "":
		return usagef("conform creates its tables in the connection's own schema: leave out --schema")
	}
	if f.list {
		return a.listLaws(h)
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
	if d, err := dialect.Lookup(t.dsn); err == nil && d.Dialect.Name() == "postgres" {
		h.OddSession = inKathmandu
	}
	if t.file != "" && h.Parallel == 0 {
		h.Parallel = 1 // SQLite has one writer; a case that waits for it cannot keep a short lease
	}
	rep, err := a.check(ctx, h, f.verbose)
	if err != nil {
		return err
	}
	for _, target := range targets {
		if err := target.write(a.surroundings, rep); err != nil {
			return err
		}
	}
	return conformVerdict(rep)
}

// listLaws prints the cases that the harness selects, each with its law.
func (a *app) listLaws(h conformance.Harness) error {
	type law struct {
		Case string `json:"case"`
		Law  string `json:"law"`
	}
	laws := []law{}
	var text strings.Builder
	for _, c := range conformance.Cases() {
		if h.Match == nil || h.Match.MatchString(c.FullName()) {
			laws = append(laws, law{c.FullName(), c.Law})
			fmt.Fprintf(&text, "%s: %s\n", c.FullName(), c.Law)
		}
	}
	if a.json {
		return a.printJSON(laws)
	}
	_, err := io.WriteString(a.out, text.String())
	return err
}

// inKathmandu returns a PostgreSQL DSN whose sessions have an unusual time zone.
func inKathmandu(dsn string) string {
	if !schemeStart.MatchString(dsn) { // libpq's keywords and values
		return dsn + " timezone=Asia/Kathmandu"
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return dsn // Open will report the error
	}
	q := u.Query()
	q.Set("timezone", "Asia/Kathmandu")
	u.RawQuery = q.Encode()
	return u.String()
}

// harness returns the harness that the flags describe.
func (f conformFlags) harness() (h conformance.Harness, err error) {
	h = f.Harness
	h.Processes = true
	for _, s := range f.strategies {
		h.Strategies = append(h.Strategies, dialect.Strategy(s))
	}
	if f.match != "" {
		if h.Match, err = regexp.Compile(f.match); err != nil {
			return h, usagef("--run: it is not a regular expression of Go")
		}
	}
	return h, nil
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
				strings.Trim(fmt.Sprint(p.Report.Strategies), "[]"), p.Tables)
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

// conformTarget returns the database to check. done cleans up afterwards.
func (a *app) conformTarget() (t target, done func(), err error) {
	t, err = a.target()
	if err != nil {
		return t, nil, err
	}
	if t.isDefault { // `dbq stats` would take a leftover default file for a queue
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

// conformVerdict returns the error with which the program exits.
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

// reportFormats are the ways to write a report, by their names.
var reportFormats = map[string]func(conformance.Report, io.Writer) error{
	"text":  conformance.Report.WriteText,
	"json":  conformance.Report.WriteJSON,
	"junit": conformance.Report.WriteJUnit,
}

// reportTarget is a requested report.
type reportTarget struct {
	format string
	file   string // "" is stdout
}

// reportTargets reads --report, and adds a text report if no other goes to stdout. It finds mistakes before the suite
// runs.
func (a *app) reportTargets(texts []string) (out []reportTarget, err error) {
	if a.json {
		texts = append(texts, "json")
	}
	onStdout := 0
	for _, text := range texts {
		format, file, named := strings.Cut(text, "=")
		info, err := os.Stat(a.path(filepath.Dir(file)))
		switch {
		case reportFormats[format] == nil:
			return nil, usagef("--report: the formats are text, json and junit, as in --report junit=FILE")
		case named && file == "":
			return nil, usagef("--report %s: the file name is missing", format)
		case named && (err != nil || !info.IsDir()):
			return nil, usagef("--report %s: the directory of the file does not exist", format)
		case !named:
			onStdout++
		}
		out = append(out, reportTarget{format, file})
	}
	if onStdout > 1 {
		return nil, usagef("only one report can go to stdout: write the others to files with --report FORMAT=FILE")
	}
	if onStdout == 0 {
		out = append(out, reportTarget{format: "text"})
	}
	return out, nil
}

// write writes the report. A file is written completely or not at all.
func (t reportTarget) write(to surroundings, rep conformance.Report) error {
	var b bytes.Buffer
	if err := reportFormats[t.format](rep, &b); err != nil {
		return err
	}
	if t.format == "text" {
		text := visibleLines(b.String())
		b.Reset()
		b.WriteString(text)
	} else if t.format == "json" {
		b = *bytes.NewBuffer(visibleJSON(b.Bytes()))
	}
	if t.file == "" {
		_, err := to.out.Write(b.Bytes())
		return err
	}
	if err := os.WriteFile(to.path(t.file), b.Bytes(), 0o644); err != nil {
		return failedf("cannot write the report: %w", unnamed(err))
	}
	return nil
}
