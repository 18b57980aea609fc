package main

import (
	"github.com/dbq-go/dbq/state"
	"github.com/spf13/cobra"
)

const rootLong = `dbq is a durable task queue that lives in the database you already run.

Try it, with nothing to set up:
  dbq demo                                      three workers, one of them killed: nothing lost, nothing doubled

A queue in a file, dbq.db in the current folder:
  dbq enqueue --queue mail --payload hello      prints the new task's id
  dbq work --queue mail -- sh -c 'cat; sleep 1' runs a program for each task, payload on stdin
  dbq stats                                     queues and how many tasks are in which state
  dbq list --queue mail                         tasks; then: dbq show ID

On a server:
  export DBQ_DSN=postgres://app@db.example/app
  dbq conform                                   checks that this server keeps the promises
  dbq migrate                                   makes the tables, or brings them to this version
  dbq list --state poison                       what waits for a person
  dbq reenqueue --queue mail --state poison     try these again

The database is --dsn or --dsn-file, else DBQ_DSN, else the SQLite file dbq.db in the current folder. A plain path is a SQLite file.
"enqueue" and "work" make that default file and its tables if need be; every other database wants "dbq migrate" first.

With --json results are JSON on stdout: one document, or one on each line where the verb's help says so. Errors are one
line on stderr, always.

` + exitCodesSection

func newRoot(a *app) *cobra.Command {
	cobra.EnableCommandSorting = false // the order below, and the state table's, is the one to read them in
	root := &cobra.Command{
		Use:   "dbq",
		Short: "A durable task queue in the database you already run",
		Long:  rootLong,
		// Errors are one line, written by run.
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	f := root.PersistentFlags()
	f.StringVar(&a.dsn, "dsn", "", "the `DATABASE`: postgres://…, mysql://…, sqlite:FILE or a file (default $DBQ_DSN, else "+defaultDSN+")")
	f.StringVar(&a.dsnFile, "dsn-file", "", "read the DSN from `FILE`, so that it is in no list of processes")
	f.StringVar(&a.prefix, "prefix", "", "`BEGIN` of the tables' names (default dbq_)")
	f.StringVar(&a.schema, "schema", "", "the `SCHEMA` that the tables are in (default the connection's own)")
	f.StringVar(&a.strategy, "strategy", "", "the `WAY` tasks are checked out: skip-locked, advisory or cas, or update on Oracle (default the server's best)")
	f.BoolVar(&a.json, "json", false, "print JSON")
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)

	root.AddGroup(
		&cobra.Group{ID: groupStart, Title: "To begin with:"},
		&cobra.Group{ID: groupLook, Title: "To look:"},
		&cobra.Group{ID: groupOperate, Title: "To operate:"},
	)
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupStart, newDemo(a), newConform(a), newMigrate(a), newEnqueue(a), newWork(a))
	add(groupLook, newStats(a), newList(a), newShow(a), newWait(a))
	add(groupOperate, newQueue(a), newWorker(a))
	for _, t := range state.ByOperator() {
		add(groupOperate, newOperate(a, t))
	}
	add("", newVersion(a), newDemoWorker(a))
	return root
}

const (
	groupStart   = "start"
	groupLook    = "look"
	groupOperate = "operate"
)
