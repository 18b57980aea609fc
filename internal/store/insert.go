package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

// InsertRow is a task to insert, checked and complete.
type InsertRow struct {
	ID          uuid.UUID
	GivenID     bool // the caller gave the id, so there may have been a task with this id before
	Kind        string
	Payload     []byte
	Reference   string // "" is none
	Key         string // "" is none
	Priority    int
	MaxAttempts int
	Headers     *string // as JSON; nil is none
	RunAt       time.Time
	Delay       time.Duration // counted from the database's now when RunAt is zero
	Unique      *Unique       // nil is none; for InsertUnique
}

// Inserted is the outcome of one task of an insert.
type Inserted struct {
	// ID is the task's id. For a duplicate it is the existing task's id, or zero if the transaction cannot see that
	// task.
	ID uuid.UUID
	// Duplicate reports that the queue has a task with the id, the reference or the unique key. Nothing was changed.
	Duplicate bool
	// Replaced and Debounced are set when the task with the same unique key was changed instead.
	Replaced, Debounced bool
}

// insertBytes bounds the payloads of one statement.
const insertBytes = 8 << 20

// Insert adds tasks to a queue in one transaction: all of them or, on an error, none. It returns the outcomes in the
// order of tasks, and sorts tasks. If the answer is lost, it searches for the tasks for a few hundred milliseconds, and
// returns ErrMayHaveHappened if the outcome stays unknown. It never inserts again after that.
func (s *Store) Insert(ctx context.Context, queue string, tasks []InsertRow) (out []Inserted, err error) {
	b, audit, swap := s.newInsertBatch(queue, tasks), auditOf(ctx), swapOf(ctx)
	run, autocommit := s.sql.Tx, false
	if len(b.chunks) == 1 {
		b.only = b.args(b.rows, nil)
	}
	one := len(tasks) == 1 || len(b.given) == 0 // an id of another queue refuses the whole call
	if b.only != nil && one && audit == nil && swap == nil && !s.sql.NeedsTx(dialect.Insert, b.only, len(b.rows)) {
		run, autocommit = s.sql.Autocommit, true // one statement is its own transaction
	}
	err = s.once(ctx, func() (maybe bool, err error) {
		if !autocommit {
			b.inserted = false // an earlier try was rolled back
		}
		err = run(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
			if out, err = b.insert(ctx, conn); err != nil {
				return err
			}
			if err := s.swapKV(ctx, conn, swap, out[0].ID); err != nil || audit == nil {
				return err
			}
			audit.TaskID = out[0].ID
			return s.addAudit(ctx, conn, audit, "", "", len(out))
		})
		if err != nil && autocommit && b.inserted { // only a query after the insert failed
			return b.all || len(b.added) > 0, &sqlrun.TxError{Err: err}
		}
		return false, err
	}, func() bool {
		return s.findLost(ctx, queue, func(ctx context.Context, conn dialect.Conn) (_ bool, err error) {
			out, err = b.searchLost(ctx, conn)
			return out != nil, err
		})
	})
	return out, err
}

// InsertTx is Insert in the caller's transaction. It tries once.
func (s *Store) InsertTx(
	ctx context.Context, tx sqlrun.Tx, queue string, tasks []InsertRow,
) (out []Inserted, err error) {
	conn, err := s.txConn(tx)
	if err != nil {
		return nil, err
	}
	b := s.newInsertBatch(queue, tasks)
	b.callersTx = true
	insert := func() error {
		out, err = b.insert(ctx, conn)
		return err
	}
	if len(tasks) > 1 && len(b.given) > 0 { // an id of another queue refuses all
		err = s.sql.Undoable(ctx, conn, insert)
	} else {
		err = insert()
	}
	return out, err
}

// errIDTaken means that another transaction has used an id that the caller gave, and that its outcome is unknown.
var errIDTaken = fmt.Errorf("%w: another transaction has enqueued a task with this id", errs.ErrConflict)

// inQueue returns ErrWrongQueue if one of some tasks, whose ids an enqueue gave, is in another queue.
func inQueue(tasks map[uuid.UUID]dialect.Row, queue string) error {
	for id, row := range tasks {
		if row.Queue != queue {
			return fmt.Errorf("%w: it has the id %s", errs.ErrWrongQueue, id)
		}
	}
	return nil
}

// insertBatch is one insert. Its rows are sorted by reference, so that two batches with the same references never
// deadlock.
type insertBatch struct {
	s      *Store
	queue  string
	ids    []uuid.UUID  // in the caller's order
	refs   []string     // in the caller's order; nil when no task has one
	given  []uuid.UUID  // the ids that the caller gave
	rows   []InsertRow  // sorted
	chunks [][2]int     // from, to: the rows of one statement
	only   dialect.Args // the arguments of a single statement, once they are made; nil for several statements

	callersTx bool // it may not see a task that another transaction has committed

	inserted bool               // all statements were answered, and were not rolled back
	all      bool               // they added all rows
	added    map[uuid.UUID]bool // else the rows that they added
}

func (s *Store) newInsertBatch(queue string, rows []InsertRow) *insertBatch {
	b := &insertBatch{s: s, queue: queue, rows: rows, ids: make([]uuid.UUID, len(rows))}
	for i := range rows {
		r := &rows[i]
		b.ids[i] = r.ID
		if r.GivenID {
			b.given = append(b.given, r.ID)
		}
		if r.Reference != "" && b.refs == nil {
			b.refs = make([]string, len(rows))
		}
		if b.refs != nil {
			b.refs[i] = r.Reference
		}
	}
	slices.SortStableFunc(rows, func(x, y InsertRow) int {
		if x.Reference == "" && y.Reference == "" {
			return compareIDs(x.ID, y.ID)
		}
		return cmp.Compare(x.Reference, y.Reference) // a stable sort: of two tasks with one reference, the first stays first
	})
	b.chunks = s.insertChunks(rows)
	return b
}

// insertChunks cuts rows into chunks of one statement each.
func (s *Store) insertChunks(rows []InsertRow) (chunks [][2]int) {
	most := min(insertBytes, s.MaxPayload)
	from, bytes := 0, 0
	for i := range rows {
		size := len(rows[i].Payload)
		if i > from && (bytes+size > most || i-from == s.sql.Texts.Insert.Max) {
			chunks = append(chunks, [2]int{from, i})
			from, bytes = i, 0
		}
		bytes += size
	}
	return append(chunks, [2]int{from, len(rows)})
}

// insert adds the rows, and then reads which of them existed before. If only that query failed, a second call does not
// add the rows again, unless inserted was reset.
func (b *insertBatch) insert(ctx context.Context, conn dialect.Conn) ([]Inserted, error) {
	if !b.inserted {
		if err := b.add(ctx, conn); err != nil {
			return nil, err
		}
		b.inserted = true
	}
	if b.all {
		out := make([]Inserted, len(b.ids))
		for i, id := range b.ids {
			out[i].ID = id
		}
		return out, nil
	}
	return b.outcomes(ctx, conn)
}

// add adds the rows.
func (b *insertBatch) add(ctx context.Context, conn dialect.Conn) error {
	var now *int64          // one time for all statements, so that tasks are handed out in the given order
	if len(b.chunks) != 1 { // a single statement uses its own time
		t, err := b.s.sql.Now(ctx, conn)
		if err != nil {
			return err
		}
		now = &t
	}
	b.all, b.added = true, map[uuid.UUID]bool{}
	all := make([]bool, len(b.chunks))
	for k, chunk := range b.chunks {
		rows := b.rows[chunk[0]:chunk[1]]
		args := b.only
		if args == nil {
			args = b.args(rows, now)
		}
		got, err := b.s.sql.RunBatch(ctx, conn, dialect.Insert, args, len(rows))
		if err != nil {
			return err
		}
		for _, r := range got.Rows {
			b.added[r.ID] = true
		}
		all[k], b.all = got.All, b.all && got.All
	}
	if b.all {
		return nil
	}
	for k, chunk := range b.chunks {
		if all[k] {
			for _, r := range b.rows[chunk[0]:chunk[1]] {
				b.added[r.ID] = true
			}
		}
	}
	return nil
}

// outcomes returns the outcome of each task.
func (b *insertBatch) outcomes(ctx context.Context, conn dialect.Conn) ([]Inserted, error) {
	added := maps.Clone(b.added) // another try may need it
	var missing []uuid.UUID
	for _, id := range b.ids {
		if !added[id] {
			missing = append(missing, id)
		}
	}
	existing, err := b.s.Peek(ctx, conn, missing)
	if err == nil {
		err = inQueue(existing, b.queue)
	}
	if err != nil {
		return nil, err
	}
	out := make([]Inserted, len(b.ids))
	for i, id := range b.ids {
		out[i].ID = id
		first, ours := added[id]
		if first {
			added[id] = false
			continue
		}
		out[i].Duplicate = true
		if _, exists := existing[id]; ours || exists { // ours: the same id twice in one call
			continue
		}
		other, err := b.s.findReference(ctx, conn, b.queue, b.reference(i))
		if err != nil && !errors.Is(err, errs.ErrNotFound) {
			return nil, err
		}
		if other == uuid.Nil && b.callersTx && slices.Contains(b.given, id) { // of which queue is unknown
			return nil, errIDTaken
		}
		out[i].ID = other
	}
	return out, nil
}

// reference returns the reference of task i, in the caller's order.
func (b *insertBatch) reference(i int) string {
	if b.refs == nil {
		return ""
	}
	return b.refs[i]
}

// args returns the values of rows. A row without a time of its own is due at now or, if now is nil, at the statement's
// own time.
func (b *insertBatch) args(rows []InsertRow, now *int64) dialect.Args {
	n := len(rows)
	id, ref, kind := make(dialect.Col[uuid.UUID], n), make(dialect.Col[*string], n), make(dialect.Col[string], n)
	priority, attempts := make(dialect.Col[int64], n), make(dialect.Col[int64], n)
	at, delay, reused := make(dialect.Col[*int64], n), make(dialect.Col[int64], n), make(dialect.Col[int64], n)
	headers, payload := make(dialect.Col[*string], n), make(dialect.Col[[]byte], n)
	size, key := make(dialect.Col[*int64], n), make(dialect.Col[*string], n)
	for i := range rows {
		r := &rows[i]
		if r.GivenID {
			reused[i] = 1
		}
		id[i], kind[i], headers[i], payload[i] = r.ID, r.Kind, r.Headers, r.Payload
		size[i] = sizeOf(r.Payload)
		priority[i], attempts[i], delay[i] = int64(r.Priority), int64(r.MaxAttempts), r.Delay.Microseconds()
		if r.Reference != "" {
			ref[i] = &r.Reference
		}
		if r.Key != "" {
			key[i] = &r.Key
		}
		at[i] = r.dueAt(now)
	}
	return dialect.Args{
		"queue": b.queue, "id": id, "reused": reused, "clock": time.Now().UnixMicro(), "reference": ref, "kind": kind,
		"task_key": key,
		"priority": priority, "max_attempts": attempts, "at": at, "delay": delay, "headers": headers,
		"payload": payload, "payload_size": size, "now": now,
	}
}

// dueAt returns when a row is due, or nil for the statement's own time; see args.
func (r *InsertRow) dueAt(now *int64) *int64 {
	at := micros(r.RunAt)
	if at == nil && now != nil {
		due := *now + r.Delay.Microseconds()
		at = &due
	}
	return at
}

// micros returns a time as it is stored. The zero time is null.
func micros(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	us := t.UnixMicro()
	return &us
}

// searchPauses are the pauses before each search for the effect of a call whose answer was lost. The server can still
// commit after the connection is gone, so the effect may become visible later.
var searchPauses = []time.Duration{
	0, 10 * time.Millisecond, 30 * time.Millisecond, 90 * time.Millisecond, 270 * time.Millisecond,
}

// searchTimeout bounds these searches. The call has already waited for the server.
const searchTimeout = 5 * time.Second

// findLost reports whether an enqueue has happened, after its answer was lost.
func (s *Store) findLost(
	ctx context.Context, queue string, happened func(context.Context, dialect.Conn) (bool, error),
) bool {
	ctx, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	for _, pause := range searchPauses {
		if Sleep(ctx, pause) != nil {
			return false
		}
		found, err := read(ctx, s, happened)
		if found {
			return true
		}
		if err != nil {
			s.Logger.Debug("dbq: cannot search for the tasks of a lost enqueue",
				"queue", queue, "error", s.Scrub(err))
			return false
		}
	}
	return false
}

// searchLost returns the outcome of each task after the answer to the insert was lost, or nil if it does not see it.
// The rows were added in one transaction, so one that only it can have added proves that it happened.
func (b *insertBatch) searchLost(ctx context.Context, conn dialect.Conn) ([]Inserted, error) {
	rows, err := b.s.Peek(ctx, conn, b.ids)
	if err != nil {
		return nil, err
	}
	given := make(map[uuid.UUID]bool, len(b.given))
	for _, id := range b.given {
		given[id] = true
	}
	if inQueue(rows, b.queue) != nil {
		return nil, nil
	}
	happened := false
	for id := range rows {
		happened = happened || !given[id]
	}
	out, seen := make([]Inserted, len(b.ids)), make(map[uuid.UUID]bool, len(b.ids))
	for i, id := range b.ids {
		out[i].ID, out[i].Duplicate = id, seen[id] // the second of one id in a call
		seen[id] = true
		if _, exists := rows[id]; exists || out[i].Duplicate {
			continue
		}
		ref := b.reference(i)
		if ref == "" {
			if !happened || given[id] {
				return nil, nil
			}
			continue // it was added, and is completed and removed
		}
		other, err := b.s.findReference(ctx, conn, b.queue, ref)
		switch {
		case errors.Is(err, errs.ErrNotFound):
			return nil, nil
		case err != nil:
			return nil, err
		}
		out[i] = Inserted{ID: other, Duplicate: true}
	}
	return out, nil
}
