// Command dbq is the task queue's command line: it enqueues and inspects tasks, does what an operator does, runs
// programs as workers, and shows with dbq demo what the queue is for. A command is in the file of its name, or of its
// group's, and its help is a page of help.txt.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/dbq-go/dbq/conformance"
	"github.com/dbq-go/dbq/state"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func main() {
	conformance.Child() // a worker process of dbq conform runs nothing else
	// The first signal ends the context, so that running work ends in order; the second one ends the process, as if it
	// had not been caught.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{in: stdin, out: stdout, err: stderr}
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := exitCode(ctx, err, a.began)
	a.complain(err, code)
	return code
}

// Help lists the commands in newRoot's order, and the state table's. Cobra keeps this for all commands of a process,
// so it is set once: several roots may be made at the same time.
func init() { cobra.EnableCommandSorting = false }

func newRoot(a *app) *cobra.Command {
	root := page("dbq")
	root.Long += "\n\n" + exitCodesSection()
	root.Version = readVersion().Version
	root.SetVersionTemplate("dbq {{.Version}}\n")
	root.SilenceErrors, root.SilenceUsage = true, true // run writes errors, each in one line
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		bad := (*pflag.InvalidValueError)(nil)
		if !errors.As(err, &bad) {
			return err
		}
		cause := bad.Unwrap()
		if number := (*strconv.NumError)(nil); errors.As(cause, &number) {
			cause = errors.New("it is not a number")
		}
		return usagef("--%s %s: %w", bad.GetFlag().Name, bad.GetValue(), cause)
	})
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	f := root.PersistentFlags()
	f.StringVar(&a.dsn, "dsn", "",
		"the `DATABASE`: postgres://…, mysql://…, sqlite:FILE, or a file (default $DBQ_DSN, else "+defaultDSN+")")
	f.StringVar(&a.dsnFile, "dsn-file", "", "read the DSN from `FILE`, which keeps it out of the list of processes")
	f.StringVar(&a.prefix, "prefix", "", "`PREFIX` of the tables' names (default dbq_)")
	f.StringVar(&a.schema, "schema", "", "`SCHEMA` of the tables (default the connection's own)")
	f.StringVar(&a.strategy, "strategy", "",
		"checkout `STRATEGY`: skip-locked, advisory or cas; on Oracle also update (default the server's best)")
	f.BoolVar(&a.json, "json", false, "print JSON")

	group := func(id, title string, cmds ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: id, Title: title})
		for _, c := range cmds {
			c.GroupID = id
		}
		root.AddCommand(cmds...)
	}
	group("start", "Getting started:", newDemo(a), newConform(a), newMigrate(a), newEnqueue(a), newWork(a))
	group("inspect", "Inspecting:", newStats(a), newList(a), newShow(a), newWait(a))
	operate := []*cobra.Command{newQueue(a), newWorker(a)}
	for _, t := range state.ByOperator() {
		operate = append(operate, newOperate(a, t))
	}
	group("operate", "Operating:", operate...)
	root.AddCommand(newVersion(a), newDemoWorker(a))
	return root
}
