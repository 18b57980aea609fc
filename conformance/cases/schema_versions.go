package cases

import (
	"context"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

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

// RunBatch and NeedsTx are the dialect's own, or those of a dialect without them.
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
func (t *test) openNextVersion(d dialect.Dialect) *dbq.Client {
	_, pool, err := sqlrun.Open(t.ctx, t.DSN)
	t.must(err)
	t.Cleanup(func() { pool.Close() })
	c, err := dbq.New(t.ctx, pool.Write, d, t.options(dbq.WithMigrate())...)
	t.must(err)
	t.register(c)
	return c
}

func schemaRollingDeploy(t *test) {
	older := t.open()
	q := older.Queue("q")
	_, newest, err := t.migrate()
	t.must(err)
	held := t.takeNew(q, dbq.NewTask{Payload: []byte("x")}, long)
	t.useEverything(older, "before")

	newer := t.openNextVersion(nextVersion{t.dialect(), newest})
	_, err = newer.DB().ExecContext(t.ctx, fmt.Sprintf("UPDATE %stask SET added%d = 7", t.Prefix, newest+1))
	t.must(err)
	t.useEverything(newer, "newer")
	t.useEverything(older, "older, still open")
	t.must(q.Complete(t.ctx, held.Lease, nil))

	again, err := t.openAsIs()
	t.must(err)
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
	_, err = q.Extend(t.ctx, tasks[0].Lease, long)
	t.must(err)
	t.must(q.Settle(t.ctx, tasks[0].Lease, dbq.Parked(errBoom)))
	t.must(admin.New(c).Operate(t.ctx, admin.Quarantine, tasks[0].ID))
	t.must(admin.New(c).Operate(t.ctx, admin.Reenqueue, tasks[0].ID))
	t.must(q.Settle(t.ctx, tasks[1].Lease, dbq.Deleted()))
	tx := t.beginTx(c)
	t.must(q.CompleteTx(t.ctx, tx, tasks[2].Lease, []byte("result")))
	t.must(tx.Commit())
	var rest []dbq.Lease
	var attempts []dbq.Attempt
	for _, task := range tasks[3:] {
		rest = append(rest, task.Lease)
		attempts = append(attempts, dbq.Attempt{Task: task.ID, Attempt: 1, Fence: task.Fence, Outcome: dbq.AttemptCompleted})
	}
	lost, err := completeAll(t.ctx, q, rest)
	if err != nil || len(lost) > 0 {
		t.Fatalf("%s: completing %d tasks lost %d, error %v", name, len(rest), len(lost), err)
	}
	t.record(q, attempts...)
	t.awaitAge(c, rest[len(rest)-1].Task, keep)
	done, err := admin.New(c).Clean(t.ctx, q.Name(), dbq.Retention{Completed: keep, Archive: true})
	if err != nil || done.Tasks != n-2 {
		t.Fatalf("%s: cleaned %+v, error %v, want %d tasks", name, done, err, n-2)
	}
	archived, err := admin.New(c).Archived(t.ctx, admin.Filter{Queue: name, Limit: n})
	if err != nil || len(archived) != n-2 || string(archived[0].Result) != "result" {
		t.Errorf("%s: the archive has %d tasks, error %v, want %d, the first with its result", name, len(archived), err, n-2)
	}
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
	if from != newest+1 {
		t.Errorf("migrate says the tables are at %d, want %d", from, newest+1)
	}
}
