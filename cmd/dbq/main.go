// Command dbq is the task queue's command line: it enqueues and inspects tasks, does what an operator does, runs
// programs as workers, and shows with dbq demo what the queue is for. Each command has a file of its name.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/dbq-go/dbq/conformance"
	"github.com/dbq-go/dbq/state"
	"github.com/spf13/cobra"
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

const rootLong = `dbq is a durable task queue that lives in the database you already run.

Try it, with nothing to set up:
  dbq demo                                      three workers, one killed: no task is lost or done twice

Use a queue in a file, ./dbq.db:
  dbq enqueue --queue mail --payload hello      adds a task and prints its id
  dbq work --queue mail -- sh -c 'cat; sleep 1' runs a program for each task, with the payload on stdin
  dbq stats                                     counts the tasks of each queue by state
  dbq list --queue mail                         lists tasks, the newest first; then: dbq show ID

Use a queue on a server:
  export DBQ_DSN=postgres://app@db.example/app
  dbq conform                                   checks that the server passes dbq's conformance suite
  dbq migrate                                   creates the tables, or upgrades them to this version
  dbq stats --watch                             shows the counts again every two seconds
  dbq list --state poison                       lists the tasks that wait for an operator
  dbq reenqueue --queue mail --state poison     tries them again

The database comes from --dsn or --dsn-file, else from DBQ_DSN, else it is ./dbq.db. A plain path is a SQLite
file. "enqueue" and "work" create ./dbq.db when it is missing; for any other database, run "dbq migrate" first.
A DSN in --dsn is visible in the list of processes: use --dsn-file or DBQ_DSN for one that has a password.

Durations are numbers with units, the largest first: 250ms, 90s, 1h30m, 7d, 2w.

With --json, results are JSON on stdout: one document, or one on each line where the command's help says so.
An error is always one line on stderr. Colours appear on terminals only; NO_COLOR=1 turns them off.

` + exitCodesSection

// Help lists the commands in newRoot's order, and the state table's. Cobra keeps this for all commands of a process,
// so it is set once: several roots may be made at the same time.
func init() { cobra.EnableCommandSorting = false }

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:     "dbq",
		Short:   "A durable task queue in the database you already run",
		Long:    rootLong,
		Version: readVersion().String(),
		// Errors are one line, written by run.
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("dbq {{.Version}}\n")
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
