// Command bench compares dbq with other task queues and with the floor, the limit of the database itself. All
// contenders run on the same server with the same payload, and take turns in every round. It fails when a contender
// loses a task or handles it twice.
//
//	go run . [-part throughput,million,processes,cost,pickup,growth,schedules,limits,http,console]
//	         [-n 50000] [-rounds 5] [-only REGEXP] [-json] [-save ../docs]
//	go run . -save ../docs -render
//	go run . -guard guard.json [-every] [-update]
//	go run . -smoke
//
// The flags -postgres, -mysql and -mariadb, or variables, name the servers; a server without a name is left out. The
// tables are in a schema of their own, which is dropped at the end. Compare ratios, not figures of different runs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// parts of a run, in the order of the page.
const (
	partThroughput = "throughput"
	partMillion    = "million"
	partProcesses  = "processes"
	partCost       = "cost"
	partPickup     = "pickup"
	partGrowth     = "growth"
	partSchedules  = "schedules"
	partLimits     = "limits"
	partHTTP       = "http"
	partConsole    = "console"
)

var allParts = []string{
	partThroughput, partMillion, partProcesses, partCost, partPickup, partGrowth, partSchedules, partLimits,
	partHTTP, partConsole,
}

type options struct {
	servers     serverDSNs
	parts       []string
	n           int
	rounds      int
	only        *regexp.Regexp
	json        bool
	save        string
	render      bool
	guard       string
	update      bool
	every       bool
	million     int
	grownDone   int
	grownFuture int
	held        time.Duration
	schedules   int
	console     int
	filled      string
	smoke       bool
}

func parse(args []string) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	o.servers.flags(flags)
	parts := flags.String("part", partThroughput, "what to measure, of "+strings.Join(allParts, ", ")+", or all")
	flags.IntVar(&o.n, "n", 50_000, "tasks in each round")
	flags.IntVar(&o.rounds, "rounds", 5, "rounds")
	only := flags.String("only", "", "only contenders whose \"group: name\" matches this regular expression")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	flags.StringVar(&o.save, "save", "",
		"add the results to benchmarks.json in this directory, and make benchmarks.md and its plots from it")
	flags.BoolVar(&o.render, "render", false, "measure nothing: only make the page from what is saved")
	flags.StringVar(&o.guard, "guard", "", "a short run that fails when a ratio is far below the one in this file")
	flags.BoolVar(&o.every, "every", false, "with -guard: a ratio that cannot be judged for want of a server is a failure")
	flags.IntVar(&o.million, "million", 1_000_000, "tasks of the part million")
	flags.BoolVar(&o.update, "update", false, "with -guard: write the ratios of this run to the file")
	grown := flags.String("grown", "10000000,1000000",
		"of the part growth: the numbers of COMPLETED and of future tasks in the table")
	flags.DurationVar(&o.held, "held", 2*time.Minute, "of the part growth: how long a transaction is held open")
	flags.IntVar(&o.schedules, "schedules", 10_000, "of the part schedules: schedules that are not due")
	flags.IntVar(&o.console, "console", 10_000_000, "of the part console: tasks in the table")
	flags.StringVar(&o.filled, "filled", "",
		"of the part console: keep the tables under this name, SQLite's files at this path, and fill them only once")
	flags.BoolVar(&o.smoke, "smoke", false,
		"a short run that checks the counts, not the speed: all parts but million, -n 1000 -rounds 1")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.parts = strings.Split(*parts, ","); *parts == "all" {
		o.parts = allParts
	}
	if o.smoke { // without what takes long and is measured like another part
		o.parts = slices.DeleteFunc(slices.Clone(allParts), func(p string) bool { return p == partMillion })
		o.n, o.rounds, o.million, o.held, *grown = 1000, 1, 2000, time.Second, "5000,500"
		o.schedules, o.console = 50, 5000
	}
	for _, p := range o.parts {
		if !slices.Contains(allParts, p) {
			return o, fmt.Errorf("-part %s: use %s, or all", p, strings.Join(allParts, ", "))
		}
	}
	done, future, _ := strings.Cut(*grown, ",")
	var err1, err2 error
	o.grownDone, err1 = strconv.Atoi(done)
	o.grownFuture, err2 = strconv.Atoi(future)
	if errors.Join(err1, err2) != nil || min(o.grownDone, o.grownFuture) < 1 {
		return o, fmt.Errorf("-grown %s: two numbers such as 10000000,1000000", *grown)
	}
	if min(o.n, o.million, o.schedules, o.console) < 1 || o.rounds < 1 || flags.NArg() > 0 {
		return o, errors.New(
			"-n, -million, -schedules, -console and -rounds are at least 1, and there are no arguments but flags")
	}
	if o.render && o.save == "" || (o.update || o.every) && o.guard == "" {
		return o, fmt.Errorf("-render is for -save, and -every and -update are for -guard")
	}
	var err error
	o.only, err = regexp.Compile(*only)
	return o, err
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if len(os.Args) == 2 && os.Args[1] == childFlag {
		err = child(ctx)
	} else {
		var o options
		if o, err = parse(os.Args[1:]); err == nil {
			err = run(ctx, o)
		}
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.render {
		return render(o.save)
	}
	directory, err := os.MkdirTemp("", "dbq-bench-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	s, err := openServers(ctx, o.servers, schemaName(), directory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	if o.guard == "" {
		s.addNode(ctx)
	}
	for _, reason := range s.skipped {
		fmt.Fprintln(os.Stderr, "skipped:", reason)
	}
	if o.guard != "" {
		return guard(ctx, o, s)
	}
	r := report{}
	for _, name := range o.parts {
		p, err := measurePart(ctx, o, s, name)
		if err != nil {
			return err
		}
		if len(p.Results) == 0 {
			fmt.Fprintf(os.Stderr, "nothing of the part %s can be measured with these servers and -only\n", name)
			continue
		}
		r.Parts = append(r.Parts, p)
		if o.save != "" { // each as soon as it is there: a whole run takes long
			if err := save(o.save, p); err != nil {
				return err
			}
		}
	}
	if len(r.Parts) == 0 {
		return errors.New("there was nothing to measure")
	}
	if o.json {
		return r.writeJSON(os.Stdout)
	}
	return r.writeText(os.Stdout)
}

func measurePart(ctx context.Context, o options, s *servers, name string) (part, error) {
	p := part{
		Name: name, When: time.Now().UTC().Format("2006-01-02"), Rounds: o.rounds, Skipped: s.skipped,
		Machine: fmt.Sprintf("%d cores, %s", runtime.NumCPU(), runtime.Version()),
		Command: fmt.Sprintf("go run . -part %s -n %d -rounds %d", name, o.n, o.rounds),
	}
	engines, err := s.settings(ctx)
	if err != nil {
		return p, err
	}
	p.Engines = engines
	entries := slices.DeleteFunc(s.entries(), func(e *entry) bool { return !o.only.MatchString(e.group + ": " + e.name) })
	begin := time.Now()
	taken := samples{}
	switch name {
	case partThroughput:
		err = taken.throughput(ctx, entries, o.n, o.rounds)
	case partMillion:
		phaseTimeout = max(leastTimeout, time.Duration(o.million)*taskTimeout)
		defer func() { phaseTimeout = leastTimeout }()
		p.Command = fmt.Sprintf("go run . -part %s -million %d -rounds %d", name, o.million, o.rounds)
		err = taken.throughput(ctx, longRun(entries), o.million, o.rounds)
	case partProcesses:
		err = taken.processes(ctx, s, entries, o.n, o.rounds)
	case partCost:
		p.Results, err = costs(ctx, s, o)
	case partPickup:
		p.Results, err = pickup(ctx, o, s)
	case partGrowth:
		p.Command += fmt.Sprintf(" -grown %d,%d -held %v", o.grownDone, o.grownFuture, o.held)
		p.Results, err = growth(ctx, o, s)
	case partSchedules:
		p.Command = fmt.Sprintf("go run . -part %s -schedules %d -rounds %d", name, o.schedules, o.rounds)
		p.Results, err = schedules(ctx, o, s)
	case partLimits:
		p.Results, err = limited(ctx, o, s)
	case partHTTP:
		p.Results, err = overHTTP(ctx, o, s)
	case partConsole:
		p.Command = fmt.Sprintf("go run . -part %s -console %d -rounds %d", name, o.console, o.rounds)
		p.Results, err = consoles(ctx, o, s)
	}
	if err != nil {
		return p, fmt.Errorf("%s: %w", name, err)
	}
	if only := o.only.String(); only != "" {
		p.Command += fmt.Sprintf(" -only '%s'", only)
	}
	if p.Results == nil {
		p.Results = results(entries, taken)
	}
	p.Took = time.Since(begin).Round(time.Second).String()
	return p, nil
}
