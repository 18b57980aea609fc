package conformance

import (
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
)

// nextVersion is a dialect whose next version adds a column. Programs from version oldest on work with it.
type nextVersion struct {
	dialect.Dialect
	oldest int
}

// Migrations are the dialect's own, and one more.
func (d nextVersion) Migrations(n dialect.Names) []dialect.Migration {
	steps := d.Dialect.Migrations(n)
	add := func(table string) string {
		return "ALTER TABLE " + n.Table(table) + fmt.Sprintf(" ADD added%d INTEGER", len(steps)+1)
	}
	return append(steps, dialect.Migration{Version: len(steps) + 1, Title: "one more column", Compatible: d.oldest,
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

// openLater opens a program of the next version, which migrates, on a pool of its own. SQLite's pools know its rules.
func (t *T) openLater(d dialect.Dialect) *dbq.Client {
	_, pool, err := dialect.Open(t.ctx, t.dsn)
	t.Must(err)
	t.Cleanup(func() { pool.Close() })
	c, err := dbq.New(t.ctx, pool.Write, d, t.options(dbq.WithMigrate())...)
	t.Must(err)
	t.adopt(c)
	return c
}

func schemaRollingDeploy(t *T) {
	older := t.Open()
	q := older.Queue("q")
	_, newest, err := t.migrate()
	t.Must(err)
	held := t.takeNew(q, dbq.NewTask{Payload: []byte("x")}, long)
	t.useAll(older, "before")

	newer := t.openLater(nextVersion{t.dialect(), newest})
	_, err = newer.DB().ExecContext(t.ctx, fmt.Sprintf("UPDATE %stask SET added%d = 7", t.prefix, newest+1))
	t.Must(err)
	t.useAll(newer, "newer")
	t.useAll(older, "older, still open")
	t.Must(q.Complete(t.ctx, held.Lease, nil))

	again, err := t.openAsIs()
	t.Must(err)
	t.useAll(again, "older, opened again")
	t.useAll(t.Open(), "older, opened with WithMigrate")
	if from, to, err := t.migrate(); err != nil || from != newest+1 || to != newest+1 {
		t.Errorf("migrating tables of a newer version that is compatible went from %d to %d, error %v, want %d to %[4]d", from, to, err, newest+1)
	}
	fromNewer := t.enqueue(newer.Queue("handed over"), dbq.NewTask{Payload: []byte("y")})
	task := t.take(again.Queue("handed over"), long)
	t.Must(again.Queue("handed over").Complete(t.ctx, task.Lease, nil))
	t.wantState(newer, fromNewer, dbq.StateCompleted)
}

// useAll sends tasks of a queue of its own through what a program does.
func (t *T) useAll(c *dbq.Client, name string) {
	const n, keep = 60, time.Millisecond // enough for the statements of batches
	q := c.Queue(name)
	t.enqueueMany(q, n-1, nil)
	t.enqueue(q, dbq.NewTask{Reference: name})
	_, err := q.Enqueue(t.ctx, dbq.NewTask{Reference: name})
	t.WantErr(name+": the same reference", err, dbq.ErrDuplicate)
	tasks := t.checkout(q, n, long)
	if len(tasks) != n {
		t.Fatalf("%s: %d tasks were checked out, want %d", name, len(tasks), n)
	}
	_, err = q.Extend(t.ctx, tasks[0].Lease, long)
	t.Must(err)
	t.Must(q.Fail(t.ctx, tasks[0].Lease, dbq.Park, errBoom))
	t.Must(c.Quarantine(t.ctx, tasks[0].ID))
	t.Must(c.Reenqueue(t.ctx, tasks[0].ID))
	t.Must(q.CompleteAndDelete(t.ctx, tasks[1].Lease))
	tx := t.begin(c)
	t.Must(q.CompleteTx(t.ctx, tx, tasks[2].Lease, []byte("result")))
	t.Must(tx.Commit())
	var rest []dbq.Lease
	var attempts []dbq.Attempt
	for _, task := range tasks[3:] {
		rest = append(rest, task.Lease)
		attempts = append(attempts, dbq.Attempt{Task: task.ID, Attempt: 1, Fence: task.Fence, Outcome: dbq.OutcomeCompleted})
	}
	lost, err := q.CompleteMany(t.ctx, rest)
	if err != nil || len(lost) > 0 {
		t.Fatalf("%s: completing %d tasks lost %d, error %v", name, len(rest), len(lost), err)
	}
	t.Must(q.Record(t.ctx, attempts))
	t.aged(c, rest[len(rest)-1].Task, keep)
	done, err := q.Clean(t.ctx, dbq.Retention{Completed: keep, Archive: true})
	if err != nil || done.Tasks != n-2 {
		t.Fatalf("%s: cleaned %+v, error %v, want %d tasks", name, done, err, n-2)
	}
	archived, err := c.Archived(t.ctx, dbq.Filter{Queue: name, Limit: n})
	if err != nil || len(archived) != n-2 || string(archived[0].Result) != "result" {
		t.Errorf("%s: the archive has %d tasks, error %v, want %d, the first with its result", name, len(archived), err, n-2)
	}
}

func schemaNewer(t *T) {
	_, newest, err := t.migrate()
	t.Must(err)
	t.openLater(nextVersion{t.dialect(), 0})
	_, err = t.openAsIs()
	t.WantErr("open", err, dbq.ErrSchemaNew)
	_, err = dbq.Open(t.ctx, t.dsn, t.options(dbq.WithMigrate())...)
	t.WantErr("open with WithMigrate", err, dbq.ErrSchemaNew)
	from, _, err := t.migrate()
	t.WantErr("migrate", err, dbq.ErrSchemaNew)
	if from != newest+1 {
		t.Errorf("migrate says the tables are at %d, want %d", from, newest+1)
	}
}
