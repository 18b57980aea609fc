package store

import (
	"context"
	"maps"
	"slices"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// decide decides about each row with a key: it is added, or gives way to the task that excludes it.
func (b *uniqueBatch) decide(context.Context, dialect.Conn) error {
	for _, k := range b.keys {
		task, taken := k.row.Task, !k.fresh && b.excludes(k)
		for _, i := range k.rows {
			r := &b.rows[i]
			switch {
			case !taken:
				k.winner, task, taken = i, r.ID, true
				b.added = append(b.added, i)
			case task == r.ID: // the enqueue is repeated
				b.out[i] = Inserted{ID: task, Duplicate: true}
			default:
				b.out[i] = b.giveWay(k, task, r)
			}
		}
	}
	return nil
}

// excludes reports whether the task that a locked key names excludes others.
func (b *uniqueBatch) excludes(k *uniqueKey) bool {
	var taskState *int64
	row, found := b.locked[k.row.Task]
	if found {
		s := int64(row.State)
		taskState = &s
	}
	return k.excludes(k.row.Expires, taskState, row.Due)
}

// giveWay applies the OnConflict of r to the task that has its key. It changes only a task that waits, in the
// database or in this batch; the rows of a batch take effect one after the other.
func (b *uniqueBatch) giveWay(k *uniqueKey, task uuid.UUID, r *InsertRow) Inserted {
	out, how := Inserted{ID: task}, r.Unique.OnConflict
	waiting, locked := b.locked[task]
	if how == Keep || k.winner < 0 && (!locked || waiting.Due == nil) {
		out.Duplicate = true
		return out
	}
	out.Replaced, out.Debounced = how == Replace, how == Debounce
	due := b.due(r)
	if k.winner >= 0 {
		w := &b.rows[k.winner]
		if how == Replace {
			w.Kind, w.Key, w.Payload, w.Headers, w.Priority = r.Kind, r.Key, r.Payload, r.Headers, r.Priority
		} else {
			due = max(due, b.due(w))
		}
		w.setDue(due)
		return out
	}
	if most := r.Unique.MaxWait; most > 0 {
		due = min(due, max(waiting.Created+most.Microseconds(), b.now))
	}
	c := b.changes[task]
	if c == nil {
		c = &taskChange{due: *waiting.Due}
		b.changes[task] = c
	}
	if how == Replace {
		c.by = r
	}
	if how == Debounce || waiting.State == state.Error { // the backoff of a task that has failed stays
		due = max(due, c.due)
	}
	c.due = due
	return out
}

// change changes the tasks that wait.
func (b *uniqueBatch) change(ctx context.Context, conn dialect.Conn) error {
	var replaced, postponed changedTasks
	for _, id := range slices.SortedFunc(maps.Keys(b.changes), compareIDs) {
		c := b.changes[id]
		if c.by != nil {
			replaced.add(id, c)
		} else if c.due > *b.locked[id].Due {
			postponed.add(id, c)
		}
	}
	if n := len(replaced.id); n > 0 {
		if _, err := b.s.sql.ExecBatch(ctx, conn, b.s.sql.Texts.Replace, replaced.args(), n); err != nil {
			return err
		}
	}
	if n := len(postponed.id); n > 0 {
		args := dialect.Args{"id": postponed.id, "at": postponed.at}
		if _, err := b.s.sql.ExecBatch(ctx, conn, b.s.sql.Texts.Postpone, args, n); err != nil {
			return err
		}
	}
	return nil
}

// changedTasks are the values of Replace and Postpone.
type changedTasks struct {
	id dialect.Col[uuid.UUID]
	at dialect.Col[*int64]
	by []*InsertRow
}

func (t *changedTasks) add(id uuid.UUID, c *taskChange) {
	t.id, t.at, t.by = append(t.id, id), append(t.at, &c.due), append(t.by, c.by)
}

func (t *changedTasks) args() dialect.Args {
	n := len(t.by)
	kind, priority := make(dialect.Col[string], n), make(dialect.Col[int64], n)
	headers, payload := make(dialect.Col[*string], n), make(dialect.Col[[]byte], n)
	size, key := make(dialect.Col[*int64], n), make(dialect.Col[*string], n)
	for i, r := range t.by {
		kind[i], priority[i], headers[i] = r.Kind, int64(r.Priority), r.Headers
		payload[i], size[i] = r.Payload, sizeOf(r.Payload)
		if r.Key != "" {
			key[i] = &r.Key
		}
	}
	return dialect.Args{
		"id": t.id, "at": t.at, "kind": kind, "task_key": key, "priority": priority, "headers": headers,
		"payload": payload, "payload_size": size,
	}
}

// findLost reports whether the batch has happened, after the answer to its commit was lost. Like the search for plain
// tasks, it looks for what only this batch can have written; see insertBatch.findLost. A batch that has only changed
// waiting tasks leaves no such trace.
func (b *uniqueBatch) findLost(ctx context.Context) bool {
	if len(b.added) == 0 && len(b.changes) == 0 {
		return true // it wrote nothing
	}
	ctx, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	for _, pause := range searchPauses {
		if Sleep(ctx, pause) != nil {
			return false
		}
		happened := false
		err := b.s.read(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
			happened, err = b.searchLost(ctx, conn)
			return err
		})
		if happened {
			return true
		}
		if err != nil {
			b.s.Logger.Debug("dbq: cannot search for the tasks of a lost enqueue",
				"queue", b.queue, "error", b.s.Scrub(err))
			return false
		}
	}
	return false
}

func (b *uniqueBatch) searchLost(ctx context.Context, conn dialect.Conn) (happened bool, err error) {
	var ids []uuid.UUID
	given := map[uuid.UUID]bool{}
	for _, i := range b.added {
		if !b.out[i].Duplicate {
			ids = append(ids, b.rows[i].ID)
			given[b.rows[i].ID] = b.rows[i].GivenID
		}
	}
	if len(ids) == 0 {
		return len(b.changes) == 0, nil
	}
	tasks, err := b.s.Peek(ctx, conn, ids)
	if err != nil {
		return false, err
	}
	for id := range tasks {
		if !given[id] {
			return true, nil
		}
	}
	if len(tasks) == len(ids) && len(b.changes) == 0 { // an earlier call with the same ids has the same outcome
		return true, nil
	}
	keys, err := b.s.findKeys(ctx, conn, idsOfKeys(b.keys)) // they name tasks that have been removed since, too
	for _, k := range keys {
		if isGiven, ours := given[k.Task]; ours && !isGiven {
			return true, err
		}
	}
	return false, err
}
