package dbq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// newTasks is a batch to enqueue: checked, with ids, and sorted by reference so that two batches with the same
// references never wait for each other in a circle.
type newTasks struct {
	q       *Queue
	given   []NewTask   // in the caller's order
	ids     []uuid.UUID // in the caller's order
	refs    []string    // in the caller's order
	callers []uuid.UUID // those of ids that the caller gave
	ordered []newRow
	chunks  [][2]int // from, to: the rows of one statement
	fresh   bool     // the rows have new ids and no references: all of them will be added
	alike   bool     // they are fresh, and share all but their ids and payloads

	inserted bool // all statements were answered, and not undone
	added    map[uuid.UUID]bool
}

// timedLeast is how many tasks are worth a question for the time; see Batch.Timed.
const timedLeast = 50

type newRow struct {
	NewTask
	headers *string
	reused  bool // the caller gave the id, so there may have been a task of this id
}

// like reports whether two rows differ in nothing but their ids, references and payloads.
func (r *newRow) like(o *newRow) bool {
	return r.Kind == o.Kind && r.Priority == o.Priority && r.MaxAttempts == o.MaxAttempts && r.Delay == o.Delay && r.RunAt.Equal(o.RunAt) &&
		text(r.headers) == text(o.headers)
}

func (q *Queue) newBatch(ctx context.Context, ts []NewTask) (*newTasks, error) {
	if err := checkQueueName(q.name); err != nil {
		return nil, err
	}
	if len(ts) > MaxBulk {
		return nil, checkCount(len(ts), MaxBulk)
	}
	alike := q.c.s.Statements.InsertAlike
	b := &newTasks{q: q, given: ts, fresh: true, alike: alike.SQL != "" && (len(ts) >= timedLeast || !alike.Timed),
		ids: make([]uuid.UUID, 0, len(ts)), refs: make([]string, 0, len(ts)), ordered: make([]newRow, 0, len(ts))}
	limit, added := q.c.MaxPayload(), q.c.added(ctx)
	for i, t := range ts {
		t.addHeaders(added)
		headers, err := t.check(limit)
		if err != nil && len(ts) > 1 {
			err = fmt.Errorf("task %d of %d: %w", i+1, len(ts), err)
		}
		if err != nil {
			return nil, err
		}
		reused := t.ID != uuid.Nil
		if reused {
			b.callers = append(b.callers, t.ID)
		} else {
			t.ID = q.c.ids.next(q.c.cfg.clock())
		}
		if t.MaxAttempts == 0 {
			t.MaxAttempts = q.c.cfg.maxAttempts
		}
		b.ids, b.refs = append(b.ids, t.ID), append(b.refs, t.Reference)
		row := newRow{t, headers, reused}
		b.fresh = b.fresh && t.Reference == "" && len(b.callers) == 0
		b.alike = b.alike && b.fresh && (i == 0 || row.like(&b.ordered[0]))
		b.ordered = append(b.ordered, row)
	}
	slices.SortStableFunc(b.ordered, func(x, y newRow) int {
		if x.Reference == "" && y.Reference == "" {
			return slices.Compare(x.ID[:], y.ID[:])
		}
		return cmp.Compare(x.Reference, y.Reference) // of two with one reference the first of the call stays the first
	})
	from, bytes := 0, 0
	for i, r := range b.ordered {
		if i > from && (bytes+len(r.Payload) > min(enqueueBytes, limit) || i-from == q.c.s.Statements.Insert.Max) {
			b.chunks = append(b.chunks, [2]int{from, i})
			from, bytes = i, 0
		}
		bytes += len(r.Payload)
	}
	b.chunks = append(b.chunks, [2]int{from, len(b.ordered)})
	return b, nil
}

// asksAfter reports whether a statement of its own may have to tell which rows were added. It must be in the insert's transaction: after that nobody
// would know if it failed, and a row that was done and deleted by then would look like one that was not added.
func (b *newTasks) asksAfter() bool {
	return b.q.c.s.Statements.Insert.After != "" && len(b.given) > 1 && !b.fresh
}

// moment is one time for all the statements when there are several, so that the tasks leave in the order given, or when they want to be told; nil leaves
// it to the statement.
func (b *newTasks) moment(ctx context.Context, conn dialect.Conn) (*int64, error) {
	if len(b.chunks) == 1 && !(b.alike && b.q.c.s.Statements.InsertAlike.Timed) {
		return nil, nil
	}
	now, err := b.q.c.now(ctx, conn)
	return &now, err
}

// insertAlike adds rows that cannot be there: there is nothing to find out about them.
func (b *newTasks) insertAlike(ctx context.Context, conn dialect.Conn) ([]Enqueued, error) {
	s := b.q.c.s
	now, err := b.moment(ctx, conn)
	if err != nil {
		return nil, err
	}
	for _, chunk := range b.chunks {
		rows := b.ordered[chunk[0]:chunk[1]]
		n, err := s.ExecBatch(ctx, conn, s.Statements.InsertAlike, b.alikeArgs(rows, now), len(rows))
		if err == nil && n != int64(len(rows)) {
			err = fmt.Errorf("the server says that it added %d rows instead of %d", n, len(rows))
		}
		if err != nil {
			return nil, err
		}
	}
	b.inserted = true
	out := make([]Enqueued, len(b.ids))
	for i, id := range b.ids {
		out[i].ID = id
	}
	return out, nil
}

// insert adds the rows and finds out about those that were left out. What an earlier call of it was told stays true as long as that
// was not undone, and is not asked again; see newTasks.undone.
func (b *newTasks) insert(ctx context.Context, conn dialect.Conn) ([]Enqueued, error) {
	if b.alike {
		return b.insertAlike(ctx, conn)
	}
	if !b.inserted {
		added, err := b.add(ctx, conn)
		if err != nil {
			return nil, err
		}
		b.added, b.inserted = added, true
	}
	return b.tell(ctx, conn)
}

// undone is called before a transaction that is to insert the rows, after others may have been rolled back.
func (b *newTasks) undone() { b.inserted = false }

// add adds the rows, and says which were added.
func (b *newTasks) add(ctx context.Context, conn dialect.Conn) (map[uuid.UUID]bool, error) {
	s := b.q.c.s
	before, err := b.existing(ctx, conn)
	if err != nil {
		return nil, err
	}
	added := make(map[uuid.UUID]bool, len(b.ids))
	now, err := b.moment(ctx, conn)
	if err != nil {
		return nil, err
	}
	for _, chunk := range b.chunks {
		rows := b.ordered[chunk[0]:chunk[1]]
		got, err := s.QueryBatch(ctx, conn, s.Statements.Insert, b.args(rows, now), len(rows))
		if err != nil {
			return nil, err
		}
		for _, r := range got {
			if _, old := before[r.ID]; !old {
				added[r.ID] = true
			}
		}
	}
	return added, nil
}

// tell says what became of each task.
func (b *newTasks) tell(ctx context.Context, conn dialect.Conn) ([]Enqueued, error) {
	added := maps.Clone(b.added) // it may be asked once more
	var missing []uuid.UUID
	for _, id := range b.ids {
		if !added[id] {
			missing = append(missing, id)
		}
	}
	existing := map[uuid.UUID]bool{}
	if len(missing) > 0 {
		rows, err := b.q.c.peek(ctx, conn, missing)
		if err != nil {
			return nil, err
		}
		for id := range rows {
			existing[id] = true
		}
	}
	out := make([]Enqueued, len(b.ids))
	for i, id := range b.ids {
		out[i].ID = id
		first, ours := added[id]
		switch {
		case first:
			added[id] = false
		case ours: // the same id twice in one call: the second is the duplicate
			out[i].Duplicate = true
		case existing[id]:
			out[i].Duplicate = true
		default:
			out[i].Duplicate = true
			ref, err := b.q.findReference(ctx, conn, b.refs[i])
			if err != nil && !errors.Is(err, ErrNotFound) {
				return nil, err
			}
			out[i].ID = ref
		}
	}
	return out, nil
}

// existing finds the tasks that are there already under ids that the caller gave, for engines that cannot say what they inserted.
func (b *newTasks) existing(ctx context.Context, conn dialect.Conn) (map[uuid.UUID]dialect.Row, error) {
	if b.q.c.s.Statements.Insert.After == "" || len(b.callers) == 0 {
		return nil, nil
	}
	return b.q.c.peek(ctx, conn, b.callers)
}

// args are the columns of rows. now, if not nil, is when those that do not say are due; else it is the statement's own time.
func (b *newTasks) args(rows []newRow, now *int64) dialect.Args {
	n := len(rows)
	id, ref, kind := make(dialect.Col[uuid.UUID], n), make(dialect.Col[*string], n), make(dialect.Col[string], n)
	priority, attempts := make(dialect.Col[int64], n), make(dialect.Col[int64], n)
	at, delay := make(dialect.Col[*int64], n), make(dialect.Col[int64], n)
	headers, payload, size := make(dialect.Col[*string], n), make(dialect.Col[[]byte], n), make(dialect.Col[*int64], n)
	reused := make(dialect.Col[int64], n)
	for i := range rows {
		r := &rows[i]
		if r.reused {
			reused[i] = 1
		}
		id[i], kind[i], headers[i], payload[i] = r.ID, r.Kind, r.headers, r.Payload
		size[i] = dialect.SizeOf(r.Payload)
		priority[i], attempts[i], delay[i] = int64(r.Priority), int64(r.MaxAttempts), r.Delay.Microseconds()
		if r.Reference != "" {
			ref[i] = &r.Reference
		}
		at[i] = r.dueAt(now)
	}
	return dialect.Args{"queue": b.q.name, "id": id, "reused": reused, "clock": time.Now().UnixMicro(), "reference": ref, "kind": kind,
		"priority": priority, "max_attempts": attempts, "at": at, "delay": delay, "headers": headers, "payload": payload, "payload_size": size}
}

// alikeArgs are args for rows that are alike: only what differs is a column.
func (b *newTasks) alikeArgs(rows []newRow, now *int64) dialect.Args {
	id, payload, size := make(dialect.Col[uuid.UUID], len(rows)), make(dialect.Col[[]byte], len(rows)), make(dialect.Col[*int64], len(rows))
	for i := range rows {
		id[i], payload[i], size[i] = rows[i].ID, rows[i].Payload, dialect.SizeOf(rows[i].Payload)
	}
	r := &rows[0]
	args := dialect.Args{"queue": b.q.name, "id": id, "kind": r.Kind, "priority": int64(r.Priority), "max_attempts": int64(r.MaxAttempts),
		"at": r.dueAt(now), "delay": r.Delay.Microseconds(), "headers": r.headers, "payload": payload, "payload_size": size}
	if now != nil {
		args["now"] = *now
	}
	return args
}

// dueAt is when a row is due, or null, when the statement's own time decides; see args.
func (r *newRow) dueAt(now *int64) *int64 {
	at := micros(r.RunAt)
	if at == nil && now != nil {
		due := *now + r.Delay.Microseconds()
		at = &due
	}
	return at
}

// micros is a time as it is stored; the zero time is null.
func micros(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	us := t.UnixMicro()
	return &us
}
