package main

import (
	"context"
	"io"
	"strings"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/spf13/cobra"
)

func newMigrate(a *app) *cobra.Command {
	var print bool
	var dialectName string
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create dbq's tables, or upgrade them to this version",
		Long: `Create dbq's tables, or upgrade them to this version. Data is kept. Tables that are current are left alone.
Several processes may run it at once: one migrates and the others wait.

--print prints the SQL for an empty database instead, for DBA review. It needs no server.`,
		Example: `  dbq migrate
  dbq migrate --dsn postgres://app@db.example/app --schema jobs
  dbq migrate --print --dialect postgres > dbq.sql`,
		Args: noArgs("name the database by --dsn"),
		RunE: a.verb(func(ctx context.Context, _ []string) error {
			t, err := a.target()
			if err != nil {
				return err
			}
			if dialectName != "" && !print {
				return usagef("--dialect is for --print; the database's own dialect comes from its DSN")
			}
			if print {
				return a.printMigration(t, dialectName)
			}
			from, to, err := dbq.Migrate(ctx, t.dsn, a.options()...)
			if err != nil {
				return err
			}
			a.caution(t.note)
			name := dialect.TargetOf(t.dsn)
			if a.json {
				return a.printJSON(map[string]any{"database": name, "from": from, "to": to})
			}
			switch from {
			case to:
				return a.say("%s is at version %d already", name, to)
			case 0:
				return a.say("made dbq's tables in %s, version %d", name, to)
			}
			return a.say("brought dbq's tables in %s from version %d to %d", name, from, to)
		}),
	}
	cmd.Flags().BoolVar(&print, "print", false, "print the SQL instead of running it")
	cmd.Flags().StringVar(&dialectName, "dialect", "",
		"with --print: whose SQL, such as postgres, mysql, oracle or sqlite (default the DSN's)")
	return cmd
}

func (a *app) printMigration(t target, name string) error {
	if name == "" {
		name = t.dsn
	} else if strings.Contains(name, ":") {
		return usagef("--dialect wants a name such as postgres or sqlite, not a DSN")
	}
	d, err := dialect.Lookup(name)
	if err != nil {
		return usagef("this dbq knows no dialect %q, only %s", name, strings.Join(dialect.Schemes(), ", "))
	}
	text, err := dbq.MigrationSQL(d.Dialect, a.options()...)
	if err != nil {
		return err
	}
	a.caution(d.Note)
	if a.json {
		return a.printJSON(map[string]string{"dialect": d.Dialect.Name(), "sql": text})
	}
	_, err = io.WriteString(a.out, visibleLines(text))
	return err
}
