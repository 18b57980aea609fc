package cases

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
)

func schemaCases() []Case {
	return inGroup("Schema",
		Case{Name: "FromEmpty", Once: true, run: schemaFromEmpty,
			Law: "Migrating an empty database creates tables that work: a task goes through them to COMPLETED."},
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
			Law: "Beside a newer, compatible version, programs of the older one keep working and may be started."},
		Case{Name: "MigrationSQLIsComplete", Once: true, run: schemaSQL,
			Law: "MigrationSQL contains every step, for a DBA to review and run."},
		Case{Name: "StepsAreNumbered", Once: true, run: schemaSteps,
			Law: "Migrations are numbered from 1 without gaps, and each has a title and statements."},
		Case{Name: "StatementsComplete", Once: true, run: schemaStatements,
			Law: "Every field of Statements is filled, and uses only the values that its comment names."},
		Case{Name: "PrefixIsUsed", Once: true, run: schemaNames,
			Law: "Every statement that names a table uses the schema and the prefix, so that it touches no other tables."},
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
	t.failIf(from != 0 || to < 1, "migrate went from %d to %d, want from 0 to at least 1", from, to)
	c := must(t.openAsIs())
	q := c.Queue("q")
	task := t.settleNew(q, dbq.NewTask{Payload: []byte("x")}, dbq.Completed(nil))
	t.wantState(c, task.ID, dbq.StateCompleted)
}

func schemaKeepsData(t *test) {
	c, q := t.openQueue()
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
	t.concurrently(processes, func(ctx context.Context, _ int) {
		must(t.open().Queue("q").Enqueue(ctx, dbq.NewTask{}))
	})
	t.wantCount(t.open(), "q", processes)
}

func schemaTwoPrefixes(t *test) {
	second := t.Prefix + "2_"
	t.drops(Tables(t.DSN, second))
	a := t.open()
	b := must(dbq.Open(t.ctx, t.DSN, dbq.WithMigrate(), dbq.WithPrefix(second), dbq.WithStrategy(t.Strategy),
		dbq.WithLogger(quietLog)))
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
	must(c.DB().ExecContext(t.ctx, fmt.Sprintf("UPDATE %smigration SET version = %s WHERE version = %d", t.Prefix,
		expr, newest)))
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
	text := must(dbq.MigrationSQL(d, dbq.WithPrefix(t.Prefix)))
	names := dialect.Names{Prefix: t.Prefix}
	for _, m := range d.Migrations(names) {
		t.failIf(!strings.Contains(text, m.Title), "the title of step %d, %q, is missing", m.Version, m.Title)
		for _, st := range m.Statements {
			t.failIf(!strings.Contains(text, strings.TrimSpace(st)), "a statement of step %d is missing: %s", m.Version, st)
		}
	}
	t.failIf(!strings.Contains(text, names.Table("migration")), "the table of versions is missing in:\n%s", text)
	if placeholder := regexp.MustCompile(`[\s(,=]:[a-z_]+`).FindString(text); placeholder != "" {
		t.Errorf("%q is a placeholder, which no DBA can run", placeholder)
	}
}

func schemaSteps(t *test) {
	for i, m := range t.dialect().Migrations(dialect.Names{Prefix: t.Prefix}) {
		t.failIf(m.Version != i || m.Title == "" || len(m.Statements) == 0,
			"step %d is number %d with title %q and %d statements", i, m.Version, m.Title, len(m.Statements))
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
	t.failIf(from != 0, "migrate after DropTables came from %d, want 0", from)
	t.wantCount(t.open(), "q", 0)
}

// valueName finds the names of values. It also finds the type of a PostgreSQL cast (::int): statements say CAST.
var valueName = regexp.MustCompile(`:([a-z_]+)`)

func schemaStatements(t *test) {
	st := reflect.ValueOf(sqlrun.NewTexts(t.dialect(), dialect.Names{Prefix: t.Prefix}).Statements)
	for _, f := range reflect.VisibleFields(st.Type()) {
		field, v := f.Name, st.FieldByIndex(f.Index)
		if f.Anonymous {
			continue
		}
		mayBeEmpty := sqlrun.FieldOf(field).Optional
		switch x := v.Interface().(type) {
		case dialect.PlaceholderStyle, bool:
		case string:
			t.checkStatement(field, x, mayBeEmpty)
		case []string:
			t.failIf(len(x) == 0 && !mayBeEmpty, "%s is empty", field)
			for _, s := range x {
				t.checkStatement(field, s, false)
			}
		case map[state.State]dialect.Index:
			for _, index := range x {
				t.checkStatement(field, index.Where+index.Filter, true)
			}
		case dialect.Lock:
			t.checkStatement(field, x.Take, mayBeEmpty)
			t.checkStatement(field, x.Free, true)
		case dialect.Batch:
			if x.SQL != "" || !mayBeEmpty {
				t.checkBatch(field, x)
			}
		case map[string]dialect.Batch:
			t.failIf(len(x) == 0, "%s is empty: Checkout has no statement", field)
			for _, b := range x {
				if b.Max == 0 { // a plain text
					t.checkStatement(field, b.SQL, false)
				} else {
					t.checkBatch(field, b)
				}
			}
		default:
			t.Errorf("this suite does not know how to check the field %s", field)
		}
	}
}

func (t *test) checkBatch(field string, b dialect.Batch) {
	t.failIf(b.Max < 1, "%s takes %d rows in one statement", field, b.Max)
	if rows := strings.Count(b.SQL, "{rows}"); (b.Row != "") != (rows == 1) || rows > 1 {
		t.Errorf("%s has the row %q and %d times {rows} in %s", field, b.Row, rows, b.SQL)
	}
	t.checkStatement(field, b.SQL, false)
	t.checkStatement(field, b.Row, true)
}

func (t *test) checkStatement(field, text string, mayBeEmpty bool) {
	t.failIf(strings.TrimSpace(text) == "" && !mayBeEmpty, "%s is empty", field)
	t.failIf(field == "Limit" && strings.Count(text, ":limit") != 1, "Limit must hold :limit once: %s", text)
	t.failIf(strings.Contains(text, "?"),
		"%s holds a question mark, which the core takes for a placeholder: %s", field, text)
	if _, asks := t.dialect().(dialect.Searcher); field == "Private" || field == "Next" && asks {
		return // only the dialect knows the values
	}
	f := sqlrun.FieldOf(field)
	documented := slices.Concat(f.Args, f.Columns)
	for _, m := range valueName.FindAllStringSubmatch(text, -1) {
		t.failIf(!slices.Contains(documented, strings.TrimSuffix(m[1], "_size")),
			"%s asks for :%s, which is not one of %q", field, m[1], documented)
	}
}

func schemaNames(t *test) {
	st := reflect.ValueOf(sqlrun.NewTexts(t.dialect(), dialect.Names{Prefix: "otherprefix_"}))
	usual := regexp.MustCompile(`\bdbq_\w`)
	var look func(field string, v reflect.Value)
	look = func(field string, v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			if found := usual.FindString(v.String()); found != "" {
				t.Errorf("%s names a table of the default prefix under another one: %s", field, v.String())
			}
		case reflect.Struct:
			for i := range v.NumField() {
				look(field, v.Field(i))
			}
		case reflect.Slice:
			for i := range v.Len() {
				look(field, v.Index(i))
			}
		case reflect.Map:
			for _, k := range v.MapKeys() {
				look(field, v.MapIndex(k))
			}
		}
	}
	for i := range st.NumField() {
		look(st.Type().Field(i).Name, st.Field(i))
	}
}

// A nextVersion is a dialect whose next schema version adds a column. Programs from version oldest on work with it.
type nextVersion struct {
	dialect.Dialect
	oldest int
}

// Migrations are the dialect's own, and one more.
func (d nextVersion) Migrations(n dialect.Names) []dialect.Migration {
	steps := d.Dialect.Migrations(n)
	add := func(table string) string {
		return "ALTER TABLE " + n.Table(table) + fmt.Sprintf(" ADD added%d INTEGER", len(steps))
	}
	return append(steps, dialect.Migration{Version: len(steps), Title: "one more column", Compatible: d.oldest,
		Statements: []string{add("task"), add("archive")}})
}

// BindValue is the dialect's own.
func (d nextVersion) BindValue(v any) any {
	if own, ok := d.Dialect.(dialect.ValueBinder); ok {
		return own.BindValue(v)
	}
	return v
}

// Inline is the dialect's own.
func (d nextVersion) Inline(text []byte, v any) ([]byte, bool) {
	if own, ok := d.Dialect.(dialect.Inliner); ok {
		return own.Inline(text, v)
	}
	return text, false
}

// RunBatch and NeedsTx are the dialect's own methods, or the defaults of a dialect without them.
func (d nextVersion) RunBatch(
	ctx context.Context, s *dialect.Session, c dialect.Conn, op dialect.Op, args dialect.Args, n int,
) (dialect.Changed, error) {
	if own, ok := d.Dialect.(dialect.BatchRunner); ok {
		return own.RunBatch(ctx, s, c, op, args, n)
	}
	rows, err := s.QueryBatch(ctx, c, s.Statements.Batch(op), args, n)
	return dialect.Changed{Rows: rows}, err
}

func (d nextVersion) NeedsTx(s *dialect.Session, op dialect.Op, args dialect.Args, n int) bool {
	own, ok := d.Dialect.(dialect.BatchRunner)
	return !ok || own.NeedsTx(s, op, args, n)
}

// openNextVersion opens a client as a program of the next version does, which migrates, on a pool of its own.
func (t *test) openNextVersion(d dialect.Dialect) *dbq.Client { return t.openOn(t.openPool().Write, d) }

func schemaRollingDeploy(t *test) {
	older := t.open()
	q := older.Queue("q")
	_, newest, err := t.migrate()
	t.must(err)
	held := t.takeNew(q, dbq.NewTask{Payload: []byte("x")}, long)
	t.useEverything(older, "before")

	newer := t.openNextVersion(nextVersion{t.dialect(), newest})
	must(newer.DB().ExecContext(t.ctx, fmt.Sprintf("UPDATE %stask SET added%d = 7", t.Prefix, newest+1)))
	t.useEverything(newer, "newer")
	t.useEverything(older, "older, still open")
	t.must(q.Complete(t.ctx, held.Lease, nil))

	again := must(t.openAsIs())
	t.useEverything(again, "older, opened again")
	t.useEverything(t.open(), "older, opened with WithMigrate")
	if from, to, err := t.migrate(); err != nil || from != newest+1 || to != newest+1 {
		t.Errorf("migrating tables of a newer version that is compatible went from %d to %d, error %v, want %d to %[4]d",
			from, to, err, newest+1)
	}
	fromNewer := t.enqueue(newer.Queue("handed over"), dbq.NewTask{Payload: []byte("y")})
	task := t.take(again.Queue("handed over"), long)
	t.must(again.Queue("handed over").Complete(t.ctx, task.Lease, nil))
	t.wantState(newer, fromNewer, dbq.StateCompleted)
}

// useEverything sends tasks of a queue of its own through everything that a program does.
func (t *test) useEverything(c *dbq.Client, name string) {
	const n, keep = 60, time.Millisecond // enough for the statements of batches
	q := c.Queue(name)
	t.enqueueMany(q, n-1, nil)
	t.enqueue(q, dbq.NewTask{Reference: name})
	_, err := q.Enqueue(t.ctx, dbq.NewTask{Reference: name})
	t.wantErr(name+": the same reference", err, dbq.ErrDuplicate)
	tasks := t.checkout(q, n, long)
	if len(tasks) != n {
		t.Fatalf("%s: %d tasks were checked out, want %d", name, len(tasks), n)
	}
	must(q.Extend(t.ctx, tasks[0].Lease, long))
	t.must(q.Settle(t.ctx, tasks[0].Lease, dbq.Parked(errBoom)))
	t.operate(c, admin.Quarantine, tasks[0].ID)
	t.operate(c, admin.Reenqueue, tasks[0].ID)
	t.must(q.Settle(t.ctx, tasks[1].Lease, dbq.Deleted()))
	t.inTx(c, func(tx *sql.Tx) error { return q.CompleteTx(t.ctx, tx, tasks[2].Lease, []byte("result")) })
	var rest []dbq.Lease
	var attempts []dbq.Attempt
	for _, task := range tasks[3:] {
		rest = append(rest, task.Lease)
		attempts = append(attempts, dbq.Attempt{TaskID: task.ID, Number: 1, Fence: task.Fence, Outcome: dbq.AttemptCompleted})
	}
	lost, err := completeAll(t.ctx, q, rest)
	if err != nil || len(lost) > 0 {
		t.Fatalf("%s: completing %d tasks lost %d, error %v", name, len(rest), len(lost), err)
	}
	t.record(q, attempts...)
	t.awaitAge(c, rest[len(rest)-1].TaskID, keep)
	if done := t.clean(q, dbq.Retention{Completed: keep, Archive: true}); done.Tasks != n-2 {
		t.Fatalf("%s: cleaned %+v, want %d tasks", name, done, n-2)
	}
	archived := must(admin.New(c).Archived(t.ctx, admin.Filter{Queue: name, Limit: n})).Tasks
	t.failIf(len(archived) != n-2 || string(archived[0].Result) != "result",
		"%s: the archive has %d tasks, want %d, the first with its result", name, len(archived), n-2)
}

func schemaNewer(t *test) {
	_, newest, err := t.migrate()
	t.must(err)
	t.openNextVersion(nextVersion{t.dialect(), 0})
	_, err = t.openAsIs()
	t.wantErr("open", err, dbq.ErrSchemaNew)
	_, err = dbq.Open(t.ctx, t.DSN, t.options(dbq.WithMigrate())...)
	t.wantErr("open with WithMigrate", err, dbq.ErrSchemaNew)
	from, _, err := t.migrate()
	t.wantErr("migrate", err, dbq.ErrSchemaNew)
	t.failIf(from != newest+1, "migrate returned version %d of the tables, want %d", from, newest+1)
}
