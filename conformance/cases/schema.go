package cases

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
		Case{Name: "FromEmpty", Once: true, run: schemaFromEmpty,
			Law: "Migrating an empty database creates tables that work: a task goes through them to COMPLETED."},
		Case{Name: "TwiceIsNoop", Once: true, run: schemaTwice,
			Law: "Migrating tables that are up to date changes nothing and reports the same version twice."},
		Case{Name: "KeepsData", Once: true, run: schemaKeepsData,
			Law: "Migrating keeps the tasks and their leases."},
		Case{Name: "ConcurrentMigrations", Once: true, run: schemaConcurrent,
			Law: "Many processes may migrate at once: one does the work and all succeed."},
		Case{Name: "TwoPrefixesCoexist", Once: true, run: schemaTwoPrefixes,
			Law: "Two prefixes in one database are two independent sets of queues."},
		Case{Name: "OpenBeforeMigrateFails", Once: true, run: schemaOpenBeforeMigrate,
			Law: "Opening a database without tables returns ErrNotMigrated."},
		Case{Name: "OlderSchemaIsRefused", Once: true, run: schemaOlder,
			Law: "Opening tables of an older version without migrating them returns ErrSchemaOld."},
		Case{Name: "NewerSchemaIsRefused", Once: true, run: schemaNewer,
			Law: "Opening or migrating tables of a newer, incompatible version returns ErrSchemaNew."},
		Case{Name: "RollingDeploy", Once: true, run: schemaRollingDeploy,
			Law: "When a newer version is compatible, programs of the older version keep working, and may be started, beside " +
				"newer ones."},
		Case{Name: "MigrationSQLIsComplete", Once: true, run: schemaSQL,
			Law: "MigrationSQL contains every step, for a DBA to review and run."},
		Case{Name: "StepsAreNumbered", Once: true, run: schemaSteps,
			Law: "Migrations are numbered from 1 without gaps, and each has a title and statements."},
		Case{Name: "StatementsComplete", Once: true, run: schemaStatements,
			Law: "Every field of Statements is filled, and uses only the values that its comment names."},
		Case{Name: "PrefixIsUsed", Once: true, run: schemaNames,
			Law: "Every statement that names a table uses the schema and the prefix, so that it never touches another " +
				"prefix's tables."},
		Case{Name: "DropTablesLeavesNothing", Once: true, run: schemaDrop,
			Law: "DropTables removes everything and may be repeated; migrating starts from version 0 afterwards."},
	)
}

// migrate is dbq.Migrate on this case's tables.
func (t *test) migrate() (from, to int, err error) {
	return dbq.Migrate(t.ctx, t.DSN, t.options()...)
}

// openAsIs opens without migrating.
func (t *test) openAsIs() (*dbq.Client, error) {
	c, err := dbq.Open(t.ctx, t.DSN, t.options()...)
	if err == nil {
		t.register(c)
	}
	return c, err
}

func schemaFromEmpty(t *test) {
	from, to, err := t.migrate()
	t.must(err)
	if from != 0 || to < 1 {
		t.Errorf("migrate went from %d to %d, want from 0 to at least 1", from, to)
	}
	c, err := t.openAsIs()
	t.must(err)
	q := c.Queue("q")
	task := t.takeNew(q, dbq.NewTask{Payload: []byte("x")}, long)
	t.must(q.Complete(t.ctx, task.Lease, nil))
	t.wantState(c, task.ID, dbq.StateCompleted)
}

func schemaTwice(t *test) {
	_, newest, err := t.migrate()
	t.must(err)
	from, to, err := t.migrate()
	t.must(err)
	if from != newest || to != newest {
		t.Errorf("the second migrate went from %d to %d, want %d to %d", from, to, newest, newest)
	}
}

func schemaKeepsData(t *test) {
	c := t.open()
	q := c.Queue("q")
	leased := t.takeNew(q, dbq.NewTask{Payload: []byte("x"), Reference: "a", Headers: map[string]string{"k": "v"}}, long)
	waiting := t.enqueue(q, dbq.NewTask{Reference: "b", Delay: long})
	before := []dbq.Task{t.get(c, leased.ID), t.get(c, waiting)}
	_, _, err := t.migrate()
	t.must(err)
	for _, b := range before {
		t.wantUnchanged("migrate", c, b)
	}
	t.must(t.open().Queue("q").Complete(t.ctx, leased.Lease, nil))
}

func schemaConcurrent(t *test) {
	const processes = 8
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range processes {
		all.Go(func() {
			<-start
			c, err := dbq.Open(t.ctx, t.DSN, t.options(dbq.WithMigrate())...)
			if err != nil {
				t.Errorf("process %d: %v", i, err)
				return
			}
			t.register(c)
			if _, err := c.Queue("q").Enqueue(t.ctx, dbq.NewTask{}); err != nil {
				t.Errorf("process %d: enqueue: %v", i, err)
			}
		})
	}
	close(start)
	all.Wait()
	if got := t.count(t.open(), "q"); got != processes {
		t.Errorf("%d tasks are there, want %d", got, processes)
	}
}

func schemaTwoPrefixes(t *test) {
	second := t.Prefix + "2_"
	t.drops(Tables(t.DSN, second))
	a := t.open()
	b, err := dbq.Open(t.ctx, t.DSN, dbq.WithMigrate(), dbq.WithPrefix(second), dbq.WithStrategy(t.Strategy),
		dbq.WithLogger(quietLog))
	t.must(err)
	t.register(b)
	id := t.enqueue(a.Queue("q"), dbq.NewTask{Reference: "r"})
	t.wantGone(b, id)
	t.wantNone("the other prefix", b.Queue("q"))
	other := t.enqueue(b.Queue("q"), dbq.NewTask{Reference: "r"})
	t.wantGone(a, other)
	t.must(dbq.DropTables(t.ctx, t.DSN, dbq.WithPrefix(second)))
	if task := t.take(a.Queue("q"), long); task.ID != id {
		t.Errorf("got task %s after the other prefix was dropped, want %s", task.ID, id)
	}
}

func schemaOpenBeforeMigrate(t *test) {
	_, err := t.openAsIs()
	t.wantErr("open without tables", err, dbq.ErrNotMigrated)
	if from, _, err := t.migrate(); err != nil || from != 0 {
		t.Errorf("migrate after the refused open came from %d (error %v), want 0: open must make nothing", from, err)
	}
}

// setVersion changes the version that the tables record.
func (t *test) setVersion(expr string, newest int) {
	c := t.open()
	_, err := c.DB().ExecContext(t.ctx, fmt.Sprintf("UPDATE %smigration SET version = %s WHERE version = %d", t.Prefix,
		expr, newest))
	t.must(err)
	t.must(c.Close())
}

func schemaOlder(t *test) {
	_, newest, err := t.migrate()
	t.must(err)
	t.setVersion("-1", newest) // not 0, which is no tables, when there is but one step so far
	_, err = t.openAsIs()
	t.wantErr("open", err, dbq.ErrSchemaOld)
}

func schemaSQL(t *test) {
	d := t.dialect()
	text, err := dbq.MigrationSQL(d, dbq.WithPrefix(t.Prefix))
	t.must(err)
	names := dialect.Names{Prefix: t.Prefix}
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

func schemaSteps(t *test) {
	for i, m := range t.dialect().Migrations(dialect.Names{Prefix: t.Prefix}) {
		if m.Version != i || m.Title == "" || len(m.Statements) == 0 {
			t.Errorf("step %d is number %d with title %q and %d statements", i, m.Version, m.Title, len(m.Statements))
		}
	}
}

func schemaDrop(t *test) {
	c := t.open()
	t.enqueue(c.Queue("q"), dbq.NewTask{})
	t.must(c.Close())
	for range 2 {
		t.must(dbq.DropTables(t.ctx, t.DSN, t.options()...))
	}
	_, err := t.openAsIs()
	t.wantErr("open after DropTables", err, dbq.ErrNotMigrated)
	from, _, err := t.migrate()
	t.must(err)
	if from != 0 {
		t.Errorf("migrate after DropTables came from %d, want 0", from)
	}
	if n := t.count(t.open(), "q"); n != 0 {
		t.Errorf("%d tasks are there after DropTables, want none", n)
	}
}
