package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/dsnredact"
	"github.com/spf13/cobra"
)

func newMigrate(a *app) *cobra.Command {
	var print bool
	var dialectName string
	cmd := a.command("dbq migrate", noArgs("set the database with --dsn"), func(ctx context.Context, _ []string) error {
		t, err := a.target()
		switch {
		case err != nil:
			return err
		case print:
			return a.printMigration(t, dialectName)
		case dialectName != "":
			return usagef("--dialect is for --print; the database's own dialect comes from its DSN")
		}
		from, to, err := dbq.Migrate(ctx, t.dsn, a.options()...)
		if err != nil {
			return err
		}
		a.caution(t.note)
		name := dsnredact.TargetOf(t.dsn)
		text := fmt.Sprintf("upgraded dbq's tables in %s from version %d to %d", name, from, to)
		switch from {
		case to:
			text = fmt.Sprintf("%s is already at version %d", name, to)
		case 0:
			text = fmt.Sprintf("created dbq's tables in %s, version %d", name, to)
		}
		return a.result(map[string]any{"database": name, "from": from, "to": to}, "%s", text)
	})
	cmd.Flags().BoolVar(&print, "print", false, "print the SQL instead of running it")
	cmd.Flags().StringVar(&dialectName, "dialect", "",
		"with --print: the dialect of the SQL, such as postgres, mysql, oracle or sqlite (default the DSN's)")
	return cmd
}

func (a *app) printMigration(t target, name string) error {
	if name == "" {
		name = t.dsn
	} else if strings.Contains(name, ":") {
		return usagef("--dialect takes a name such as postgres or sqlite, not a DSN")
	}
	d, err := dialect.Lookup(name)
	if err != nil {
		return usagef("this dbq was built without this dialect; it has %s", strings.Join(dialect.Schemes(), ", "))
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
