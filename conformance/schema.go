package conformance

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
)

func schemaCases() []Case {
	return inGroup("Schema",
		Case{Name: "FromEmpty", Law: "Migrating an empty database makes tables that a task can go through.",
			run: schemaFromEmpty, once: true},
		Case{Name: "TwiceIsNoop", Law: "Migrating what is migrated changes nothing and says so.",
			run: schemaTwice, once: true},
		Case{Name: "KeepsData", Law: "Migrating keeps the tasks and their leases.",
			run: schemaKeepsData, once: true},
		Case{Name: "ConcurrentMigrations", Law: "Many processes may migrate at once: one does the work and all succeed.",
			run: schemaConcurrent, once: true},
		Case{Name: "TwoPrefixesCoexist", Law: "Two prefixes in one database are two sets of queues that know nothing of each other.",
			run: schemaTwoPrefixes, once: true},
		Case{Name: "OpenBeforeMigrateSaysSo", Law: "Opening without tables is ErrNotMigrated.",
			run: schemaOpenBeforeMigrate, once: true},
		Case{Name: "OlderSchemaSaysSo", Law: "Opening tables of an older version without migrating is ErrSchemaOld.",
			run: schemaOlder, once: true},
		Case{Name: "NewerSchemaSaysSo", Law: "Opening or migrating tables of a newer version that older programs do not work with is ErrSchemaNew.",
			run: schemaNewer, once: true},
		Case{Name: "RollingDeploy", Law: "When a newer version is compatible, older programs go on, and open, beside newer ones.",
			run: schemaRollingDeploy, once: true},
		Case{Name: "SQLForADBA", Law: "MigrationSQL holds every step, for a DBA to read and run.",
			run: schemaSQL, once: true},
		Case{Name: "StepsAreNumbered", Law: "Migrations are numbered from 1 without gaps, and each has a title and statements.",
			run: schemaSteps, once: true},
		Case{Name: "StatementsComplete", Law: "Every field of Statements is filled, and asks only for the values its comment names.",
			run: schemaStatements, once: true},
		Case{Name: "NamesAreUsed", Law: "Schema and prefix are in every statement that names a table, so that no statement meets another prefix's tables.",
			run: schemaNames, once: true},
		Case{Name: "DropTablesLeavesNothing", Law: "DropTables removes everything, so that migrating starts from nothing again, and may be repeated.",
			run: schemaDrop, once: true},
	)
}

// migrate is dbq.Migrate on this case's tables.
func (t *T) migrate() (from, to int, err error) {
	return dbq.Migrate(t.ctx, t.dsn, t.options()...)
}

// openAsIs opens without migrating.
func (t *T) openAsIs() (*dbq.Client, error) {
	c, err := dbq.Open(t.ctx, t.dsn, t.options()...)
	if err == nil {
		t.adopt(c)
	}
	return c, err
}

func schemaFromEmpty(t *T) {
	from, to, err := t.migrate()
	t.Must(err)
	if from != 0 || to < 1 {
		t.Errorf("migrate went from %d to %d, want from 0 to at least 1", from, to)
	}
	c, err := t.openAsIs()
	t.Must(err)
	q := c.Queue("q")
	task := t.takeNew(q, dbq.NewTask{Payload: []byte("x")}, long)
	t.Must(q.Complete(t.ctx, task.Lease, nil))
	t.wantState(c, task.ID, dbq.StateCompleted)
}

func schemaTwice(t *T) {
	_, newest, err := t.migrate()
	t.Must(err)
	from, to, err := t.migrate()
	t.Must(err)
	if from != newest || to != newest {
		t.Errorf("the second migrate went from %d to %d, want %d to %d", from, to, newest, newest)
	}
}

func schemaKeepsData(t *T) {
	c := t.Open()
	q := c.Queue("q")
	leased := t.takeNew(q, dbq.NewTask{Payload: []byte("x"), Reference: "a", Headers: map[string]string{"k": "v"}}, long)
	waiting := t.enqueue(q, dbq.NewTask{Reference: "b", Delay: long})
	before := []dbq.Task{t.get(c, leased.ID), t.get(c, waiting)}
	_, _, err := t.migrate()
	t.Must(err)
	for _, b := range before {
		t.wantUnchanged("migrate", c, b)
	}
	t.Must(t.Open().Queue("q").Complete(t.ctx, leased.Lease, nil))
}

func schemaConcurrent(t *T) {
	const processes = 8
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range processes {
		all.Go(func() {
			<-start
			c, err := dbq.Open(t.ctx, t.dsn, t.options(dbq.WithMigrate())...)
			if err != nil {
				t.Errorf("process %d: %v", i, err)
				return
			}
			t.adopt(c)
			if _, err := c.Queue("q").Enqueue(t.ctx, dbq.NewTask{}); err != nil {
				t.Errorf("process %d: enqueue: %v", i, err)
			}
		})
	}
	close(start)
	all.Wait()
	if got := t.count(t.Open(), "q"); got != processes {
		t.Errorf("%d tasks are there, want %d", got, processes)
	}
}

func schemaTwoPrefixes(t *T) {
	second := t.suite.newPrefix()
	t.makes(t.suite.tables(t.dsn, second))
	a := t.Open()
	b, err := dbq.Open(t.ctx, t.dsn, dbq.WithMigrate(), dbq.WithPrefix(second), dbq.WithStrategy(t.strategy),
		dbq.WithLogger(quietLog))
	t.Must(err)
	t.adopt(b)
	id := t.enqueue(a.Queue("q"), dbq.NewTask{Reference: "r"})
	t.wantGone(b, id)
	t.wantNone("the other prefix", b.Queue("q"))
	other := t.enqueue(b.Queue("q"), dbq.NewTask{Reference: "r"})
	t.wantGone(a, other)
	t.Must(dbq.DropTables(t.ctx, t.dsn, dbq.WithPrefix(second)))
	if task := t.take(a.Queue("q"), long); task.ID != id {
		t.Errorf("got task %s after the other prefix was dropped, want %s", task.ID, id)
	}
}

func schemaOpenBeforeMigrate(t *T) {
	_, err := t.openAsIs()
	t.WantErr("open without tables", err, dbq.ErrNotMigrated)
	if from, _, err := t.migrate(); err != nil || from != 0 {
		t.Errorf("migrate after the refused open came from %d (error %v), want 0: open must make nothing", from, err)
	}
}

// setVersion changes what the tables say they are.
func (t *T) setVersion(expr string, newest int) {
	c := t.Open()
	_, err := c.DB().ExecContext(t.ctx, fmt.Sprintf("UPDATE %smigration SET version = %s WHERE version = %d", t.prefix, expr, newest))
	t.Must(err)
	t.Must(c.Close())
}

func schemaOlder(t *T) {
	_, newest, err := t.migrate()
	t.Must(err)
	t.setVersion("-1", newest) // not 0, which is no tables, when there is but one step so far
	_, err = t.openAsIs()
	t.WantErr("open", err, dbq.ErrSchemaOld)
}

func schemaSQL(t *T) {
	d := t.dialect()
	text, err := dbq.MigrationSQL(d, dbq.WithPrefix(t.prefix))
	t.Must(err)
	names := dialect.Names{Prefix: t.prefix}
	for _, m := range d.Migrations(names) {
		if !strings.Contains(text, m.Title) {
			t.Errorf("the title of step %d, %q, is missing", m.Version, m.Title)
		}
		for _, st := range m.Statements {
			if !strings.Contains(text, strings.TrimSpace(st)) {
				t.Errorf("a statement of step %d is missing: %s", m.Version, st)
			}
		}
	}
	if !strings.Contains(text, names.Table("migration")) {
		t.Errorf("the table of versions is missing in:\n%s", text)
	}
	if placeholder := regexp.MustCompile(`[\s(,=]:[a-z_]+`).FindString(text); placeholder != "" {
		t.Errorf("%q is a placeholder, which no DBA can run", placeholder)
	}
}

func schemaSteps(t *T) {
	for i, m := range t.dialect().Migrations(dialect.Names{Prefix: t.prefix}) {
		if m.Version != i+1 || m.Title == "" || len(m.Statements) == 0 {
			t.Errorf("step %d is number %d with title %q and %d statements", i+1, m.Version, m.Title, len(m.Statements))
		}
	}
}

func schemaDrop(t *T) {
	c := t.Open()
	t.enqueue(c.Queue("q"), dbq.NewTask{})
	t.Must(c.Close())
	for range 2 {
		t.Must(dbq.DropTables(t.ctx, t.dsn, t.options()...))
	}
	_, err := t.openAsIs()
	t.WantErr("open after DropTables", err, dbq.ErrNotMigrated)
	from, _, err := t.migrate()
	t.Must(err)
	if from != 0 {
		t.Errorf("migrate after DropTables came from %d, want 0", from)
	}
	if n := t.count(t.Open(), "q"); n != 0 {
		t.Errorf("%d tasks are there after DropTables, want none", n)
	}
}
