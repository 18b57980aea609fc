// Command bench compares dbq with other task queues and with the floor, the limit of the database itself. All
// contenders run on the same server with the same payload, and take turns in every round. It fails when a contender
// loses a task or handles it twice.
//
//	go run . [-part throughput,cost,pickup,growth,schedules,limits,http] [-n 50000] [-rounds 5] [-only REGEXP]
//	         [-save ../docs]
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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type options struct {
	servers     serverDSNs
	parts       []string
	n           int
	rounds      int
	only        *regexp.Regexp
	save        string
	render      bool
	guard       string
	update      bool
	every       bool
	grownDone   int
	grownFuture int
	held        time.Duration
	schedules   int
	smoke       bool
}

func parse(args []string) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	o.servers.flags(flags)
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	all := strings.Join(names, ", ")
	chosen := flags.String("part", names[0], "what to measure, of "+all+", or all")
	flags.IntVar(&o.n, "n", 50_000, "tasks in each round")
	flags.IntVar(&o.rounds, "rounds", 5, "rounds")
	only := flags.String("only", "", "only contenders whose \"group: name\" matches this regular expression")
	flags.StringVar(&o.save, "save", "",
		"add the results to benchmarks.json in this directory, and make benchmarks.md and its plot from it")
	flags.BoolVar(&o.render, "render", false, "measure nothing: only make the page from what is saved")
	flags.StringVar(&o.guard, "guard", "", "a short run that fails when a ratio is far below the one in this file")
	flags.BoolVar(&o.every, "every", false, "with -guard: a ratio that cannot be judged for want of a server is a failure")
	flags.BoolVar(&o.update, "update", false, "with -guard: write the ratios of this run to the file")
	grown := flags.String("grown", "10000000,1000000",
		"of the part growth: the numbers of COMPLETED and of future tasks in the table")
	flags.DurationVar(&o.held, "held", 2*time.Minute, "of the part growth: how long a transaction is held open")
	flags.IntVar(&o.schedules, "schedules", 10_000, "of the part schedules: schedules that are not due")
	flags.BoolVar(&o.smoke, "smoke", false,
		"a short run that checks the counts, not the speed: all parts, -n 1000 -rounds 1")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.parts = strings.Split(*chosen, ","); *chosen == "all" {
		o.parts = names
	}
	if o.smoke {
		o.parts, o.n, o.rounds, o.held, o.schedules, *grown = names, 1000, 1, time.Second, 50, "5000,500"
	}
	for _, p := range o.parts {
		if !slices.Contains(names, p) {
			return o, fmt.Errorf("-part %s: use %s, or all", p, all)
		}
	}
	done, future, _ := strings.Cut(*grown, ",")
	var err1, err2 error
	o.grownDone, err1 = strconv.Atoi(done)
	o.grownFuture, err2 = strconv.Atoi(future)
	if errors.Join(err1, err2) != nil || min(o.grownDone, o.grownFuture) < 1 {
		return o, fmt.Errorf("-grown %s: two numbers such as 10000000,1000000", *grown)
	}
	if min(o.n, o.schedules, o.rounds) < 1 || flags.NArg() > 0 {
		return o, errors.New("-n, -schedules and -rounds are at least 1, and there are no arguments but flags")
	}
	if o.render && o.save == "" || (o.update || o.every) && o.guard == "" {
		return o, errors.New("-render is for -save, and -every and -update are for -guard")
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
	s, err := openServers(ctx, o.servers, fmt.Sprintf("dbqbench%d", os.Getpid()), directory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	for _, reason := range s.skipped {
		fmt.Fprintln(os.Stderr, "skipped:", reason)
	}
	if o.guard != "" {
		return guard(ctx, o, s)
	}
	measured := false
	for _, p := range parts {
		if !slices.Contains(o.parts, p.name) {
			continue
		}
		got, err := p.run(ctx, o, s)
		if err != nil {
			return err
		}
		if len(got.Results) == 0 {
			fmt.Fprintf(os.Stderr, "nothing of the part %s can be measured with these servers and -only\n", p.name)
			continue
		}
		measured = true
		if _, err := os.Stdout.WriteString(got.page(map[string]bool{})); err != nil {
			return err
		}
		if o.save != "" { // each as soon as it is there: a whole run takes long
			if err := save(o.save, got); err != nil {
				return err
			}
		}
	}
	if !measured {
		return errors.New("there was nothing to measure")
	}
	return nil
}
