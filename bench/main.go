// Command bench measures dbq beside other task queues and beside the floor, what the database itself can do: in one run, on the same
// server, with the same payload, the contenders taking turns in every round. It fails when a contender lost a task or worked it twice.
//
//	go run . [-dsn postgres://...] [-n 50000] [-rounds 5] [-only REGEXP] [-json] [-out ../docs/benchmarks.md]
//	go run . -pickup [-dsn postgres://...] [-rounds 5]
//	go run . -smoke
//
// It makes its tables in a schema of its own and drops it at the end. Judge by the ratios.
package main

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// dsnVariables are where the DSN comes from without -dsn.
var dsnVariables = []string{"DBQ_BENCH_POSTGRES_DSN", "DBQ_TEST_POSTGRES_DSN", "DBQ_TEST_POSTGRES15_DSN", "DBQ_TEST_POSTGRES18_DSN"}

type options struct {
	dsn    string
	n      int
	rounds int
	only   *regexp.Regexp
	json   bool
	out    string
	pickup bool
}

func parse(args []string) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.dsn, "dsn", "", "PostgreSQL's DSN; without it, the first set of "+strings.Join(dsnVariables, ", "))
	flags.IntVar(&o.n, "n", 50_000, "tasks in each round")
	flags.IntVar(&o.rounds, "rounds", 5, "rounds")
	only := flags.String("only", "", "only contenders whose \"group: name\" matches this regular expression")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	flags.StringVar(&o.out, "out", "", "write the report as Markdown to this file")
	flags.BoolVar(&o.pickup, "pickup", false, "measure pick-up latency and what notifications cost instead")
	smoke := flags.Bool("smoke", false, "a short run that tells whether counts are right, not how fast it is: -n 2000 -rounds 2")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *smoke {
		o.n, o.rounds = 2000, 2
	}
	if o.n < 1 || o.rounds < 1 || flags.NArg() > 0 {
		return o, fmt.Errorf("-n and -rounds are at least 1, and there are no arguments but flags")
	}
	for _, name := range dsnVariables {
		o.dsn = cmp.Or(o.dsn, os.Getenv(name))
	}
	var err error
	o.only, err = regexp.Compile(*only)
	return o, err
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	folder, err := os.MkdirTemp("", "dbq-bench-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if o.pickup {
		return pickup(ctx, o, folder)
	}
	r := report{
		When: time.Now().UTC().Format("2006-01-02"), Rounds: o.rounds, Machine: fmt.Sprintf("%d cores, %s", runtime.NumCPU(), runtime.Version()),
		Command: fmt.Sprintf("go run . -n %d -rounds %d", o.n, o.rounds),
	}
	sqlite, err := sqliteVersion(ctx)
	if err != nil {
		return err
	}
	r.Engines = []string{sqlite}
	entries := sqliteEntries(folder)
	if o.dsn == "" {
		fmt.Fprintln(os.Stderr, "PostgreSQL is skipped: no -dsn, and none of these is set:", strings.Join(dsnVariables, ", "))
	} else {
		p, err := openPostgres(ctx, o.dsn)
		if err != nil {
			return err
		}
		defer p.pool.Close()
		facts, err := p.facts(ctx)
		if err != nil {
			return err
		}
		r.Engines = []string{"PostgreSQL: " + facts, sqlite}
		entries = append(postgresEntries(p), entries...)
	}
	entries = slices.DeleteFunc(entries, func(e *entry) bool { return !o.only.MatchString(e.group + ": " + e.name) })
	if len(entries) == 0 {
		return fmt.Errorf("-only leaves nothing to measure")
	}
	taken, err := measure(ctx, entries, o.n, o.rounds)
	if err != nil {
		return err
	}
	r.Results = results(entries, taken, o.n)
	return r.write(o)
}

func (r *report) write(o options) error {
	if o.out != "" {
		var b bytes.Buffer
		if err := r.writeMarkdown(&b); err != nil {
			return err
		}
		if err := os.WriteFile(o.out, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	if o.json {
		return r.writeJSON(os.Stdout)
	}
	return r.writeText(os.Stdout)
}
