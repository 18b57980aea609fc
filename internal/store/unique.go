package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// Unique is the rule by which a task excludes others of its queue with the same key.
type Unique struct {
	Key        string
	Unfinished bool          // the task excludes others until it ends; otherwise while it has a due time
	Period     time.Duration // it excludes others that are due in the same period, whatever its state; 0 is none
	Window     time.Duration // it excludes others for this time after it was added, whatever its state; 0 is none
	OnConflict OnConflict
	MaxWait    time.Duration // how long after its creation a task may be due because of others; 0 is no bound
}

// OnConflict is the effect of a task on the one that excludes it.
type OnConflict string

// What a task does with the one that excludes it.
const (
	Keep     OnConflict = "keep"
	Replace  OnConflict = "replace"
	Debounce OnConflict = "debounce"
)

// keyKept is for how long after its last use a key is not checked by cleaning.
const keyKept = 24 * time.Hour

// InsertUnique is Insert for tasks of which some are unique. It leaves tasks in their order.
func (s *Store) InsertUnique(ctx context.Context, queue string, tasks []InsertRow) ([]Inserted, error) {
	if swapOf(ctx) != nil {
		return nil, &errs.InvalidError{
			Text: "the task of a schedule cannot be unique: a hook has made it so", Of: errs.ErrUnique,
		}
	}
	var b *uniqueBatch // of the last try
	err := s.once(ctx, func() (bool, error) {
		b = s.newUniqueBatch(queue, tasks, true)
		err := s.sql.Tx(ctx, b.insert)
		if s.sql.Class(err) == dialect.Ambiguous && len(b.added) == 0 && len(b.changes) == 0 {
			return false, nil // it wrote nothing
		}
		return false, err
	}, func() bool { return s.findLost(ctx, queue, b.searchLost) })
	if err != nil {
		return nil, err
	}
	return b.out, nil
}

// InsertUniqueTx is InsertUnique in the caller's transaction, without any repetition.
func (s *Store) InsertUniqueTx(ctx context.Context, tx sqlrun.Tx, queue string, tasks []InsertRow) ([]Inserted, error) {
	conn, err := s.txConn(tx)
	if err != nil {
		return nil, err
	}
	b := s.newUniqueBatch(queue, tasks, false)
	if slices.ContainsFunc(tasks, func(r InsertRow) bool { return r.GivenID }) { // it can refuse all
		err = s.sql.Undoable(ctx, conn, func() error { return b.insert(ctx, conn) })
	} else {
		err = b.insert(ctx, conn)
	}
	return b.out, err
}

// uniqueBatch is one try of an insert of which some tasks are unique.
//
// The truth about a key is the state of the task that it names, so nothing has to free a key when a task ends. The
// batch locks the tasks that its keys name, then the keys, both in the order of ids, and adds the tasks whose keys are
// free. While it holds a key's lock, no other transaction can take that key, and while it holds a task's, the task can
// neither start nor end. The tasks come first because a transaction that completes a task and enqueues its successor
// with the same key locks in that order.
type uniqueBatch struct {
	s       *Store
	queue   string
	own     bool        // the transaction is dbq's own
	rows    []InsertRow // in the caller's order
	now     int64       // the database's clock, if a due time must be computed
	keys    []*uniqueKey
	locked  map[uuid.UUID]dialect.Row // tasks
	changes map[uuid.UUID]*taskChange
	added   []int // the rows to add
	out     []Inserted
}

// uniqueKey is a key of a batch, and the row that has it in the database.
type uniqueKey struct {
	id          uuid.UUID
	scope, name string
	unfinished  bool
	periodEnd   int64 // the end of the period or window; 0 is none
	takenAfter  int64 // with a periodEnd: the key is taken if it expires later than this
	expires     int64 // if one of the batch's tasks takes it
	rows        []int // the batch's rows with this key, in the caller's order
	winner      int   // the one that takes it, or -1

	found *sqlrun.KeyRow // before it was locked; nil if it did not exist
	row   sqlrun.KeyRow  // as it is locked
	fresh bool           // this batch has added it
}

// taskChange is the effect of a batch on a waiting task.
type taskChange struct {
	by  *InsertRow // replaces its payload; nil keeps it
	due int64
}

func (s *Store) newUniqueBatch(queue string, rows []InsertRow, own bool) *uniqueBatch {
	return &uniqueBatch{
		s: s, queue: queue, own: own, rows: slices.Clone(rows), out: make([]Inserted, len(rows)),
		locked: map[uuid.UUID]dialect.Row{}, changes: map[uuid.UUID]*taskChange{},
	}
}

// insert adds the tasks whose keys are free, and applies OnConflict for the others.
func (b *uniqueBatch) insert(ctx context.Context, conn dialect.Conn) error {
	for _, step := range []func(context.Context, dialect.Conn) error{
		b.checkIDs, b.readClock, b.findKeys, b.lockTasks, b.lockKeys, b.lockChanged, b.decide, b.change, b.add, b.setKeys,
	} {
		if err := step(ctx, conn); err != nil {
			return err
		}
	}
	return nil
}

// checkIDs finds the rows whose ids are taken, before anything is changed: they are duplicates, whatever their keys. An
// id of another queue is refused.
func (b *uniqueBatch) checkIDs(ctx context.Context, conn dialect.Conn) error {
	var given []uuid.UUID
	for i := range b.rows {
		if b.rows[i].GivenID {
			given = append(given, b.rows[i].ID)
		}
	}
	taken, err := b.s.Peek(ctx, conn, given)
	if err != nil {
		return err
	}
	for i := range b.rows {
		if _, repeated := taken[b.rows[i].ID]; repeated {
			b.out[i] = Inserted{ID: b.rows[i].ID, Duplicate: true}
		}
	}
	return inQueue(taken, b.queue)
}

// readClock reads the database's clock, if a due time must be computed.
func (b *uniqueBatch) readClock(ctx context.Context, conn dialect.Conn) (err error) {
	for i := range b.rows {
		if u := b.rows[i].Unique; u != nil && (u.Period > 0 || u.Window > 0 || u.OnConflict != Keep) {
			b.now, err = b.s.sql.Now(ctx, conn)
			return err
		}
	}
	return nil
}

// due is when a row is due, after readClock.
func (b *uniqueBatch) due(r *InsertRow) int64 {
	if !r.RunAt.IsZero() {
		return r.RunAt.UnixMicro()
	}
	return b.now + r.Delay.Microseconds()
}

// setDue sets when a row is due.
func (r *InsertRow) setDue(due int64) { r.RunAt, r.Delay = time.UnixMicro(due), 0 }

// findKeys finds the batch's keys, without a lock. In a transaction of dbq's own, that decides about tasks that give
// way: nothing of the caller depends on how long the other task waits.
func (b *uniqueBatch) findKeys(ctx context.Context, conn dialect.Conn) error {
	keys := map[uuid.UUID]*uniqueKey{}
	for i := range b.rows {
		if b.out[i].Duplicate {
			continue
		}
		if b.rows[i].Unique == nil {
			b.added = append(b.added, i)
			continue
		}
		k := b.key(&b.rows[i])
		if keys[k.id] == nil {
			keys[k.id] = k
		}
		keys[k.id].rows = append(keys[k.id].rows, i)
	}
	b.keys = slices.SortedFunc(maps.Values(keys), func(x, y *uniqueKey) int { return compareIDs(x.id, y.id) })
	found, err := b.s.findKeys(ctx, conn, idsOfKeys(b.keys))
	if err != nil {
		return err
	}
	for i := range found {
		keys[found[i].ID].found = &found[i]
	}
	if b.own {
		b.keys = slices.DeleteFunc(b.keys, b.givesWay)
	}
	return nil
}

// key is the key of a row. The due time, which the row then has, determines the period.
func (b *uniqueBatch) key(r *InsertRow) *uniqueKey {
	u := r.Unique
	k := &uniqueKey{scope: "pending", name: u.Key, unfinished: u.Unfinished, winner: -1}
	last := max(time.Now().UnixMicro(), r.RunAt.UnixMicro()) + r.Delay.Microseconds()
	switch {
	case u.Period > 0:
		due, length := b.due(r), u.Period.Microseconds()
		start := due - due%length
		r.setDue(due)
		k.periodEnd = start + length
		k.scope = fmt.Sprintf("%v from %s", u.Period, time.UnixMicro(start).UTC().Format("2006-01-02T15:04:05.999999Z"))
		last = max(b.now, k.periodEnd)
	case u.Window > 0:
		k.scope, k.periodEnd = "window", b.now+u.Window.Microseconds()
		k.takenAfter, last = b.now+keyKept.Microseconds(), k.periodEnd
	case u.Unfinished:
		k.scope = "unfinished"
	}
	k.expires = last + keyKept.Microseconds()
	text := fmt.Sprintf("%d %s %d %s %s", len(b.queue), b.queue, len(k.scope), k.scope, k.name)
	k.id = uuid.NewHash(sha256.New(), uuid.Nil, []byte(text), 8)
	return k
}

// givesWay reports whether a key's tasks give way to the one that it names, according to findKeys.
func (b *uniqueBatch) givesWay(k *uniqueKey) bool {
	for _, i := range k.rows {
		if b.rows[i].Unique.OnConflict != Keep {
			return false
		}
	}
	if k.found == nil || !k.excludes(k.found.Expires, k.found.State, k.found.Due) {
		return false
	}
	for _, i := range k.rows {
		b.out[i] = Inserted{ID: k.found.Task, Duplicate: true}
	}
	return true
}

// excludes reports whether the task that a key names excludes others. A period without an end was given up.
func (k *uniqueKey) excludes(expires int64, taskState, due *int64) bool {
	switch {
	case k.periodEnd > 0:
		return expires > k.takenAfter
	case due != nil:
		return true
	}
	return k.unfinished && taskState != nil && *taskState == int64(state.Processing)
}

// add adds the rows that decide has chosen.
func (b *uniqueBatch) add(ctx context.Context, conn dialect.Conn) error {
	if len(b.added) == 0 {
		return nil
	}
	rows := make([]InsertRow, len(b.added))
	for k, i := range b.added {
		rows[k] = b.rows[i]
	}
	batch := b.s.newInsertBatch(b.queue, rows)
	batch.callersTx = !b.own
	inserted, err := batch.insert(ctx, conn)
	if err != nil {
		return err
	}
	for k, i := range b.added {
		b.out[i] = inserted[k]
	}
	return nil
}

// setKeys gives the keys to the tasks that were added. A key of a task whose reference was taken stays as it was. Tasks
// of the batch that it would have excluded are duplicates, too. If an id was taken since checkIDs, its key may belong
// to another call with this id, and setKeys returns ErrConflict.
func (b *uniqueBatch) setKeys(ctx context.Context, conn dialect.Conn) error {
	var set []sqlrun.KeyRow
	var unused []uuid.UUID
	for _, k := range b.keys {
		if k.winner < 0 {
			continue
		}
		out := b.out[k.winner]
		switch {
		case !out.Duplicate && !k.fresh:
			set = append(set, sqlrun.KeyRow{ID: k.id, Task: out.ID, Expires: k.expires})
		case out.Duplicate && b.rows[k.winner].GivenID && (out.ID == b.rows[k.winner].ID || out.ID == uuid.Nil):
			return errIDTaken
		case out.Duplicate && k.fresh:
			unused = append(unused, k.id)
		}
		if out.Duplicate {
			for _, i := range k.rows {
				b.out[i] = out
			}
		}
	}
	return b.s.changeKeys(ctx, conn, set, unused)
}

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
	var replaced, postponed []changedTask
	for _, id := range slices.SortedFunc(maps.Keys(b.changes), compareIDs) {
		c := b.changes[id]
		to := changedTask{ID: id, Due: &c.due}
		if r := c.by; r != nil {
			to.Kind, to.Priority, to.Headers = r.Kind, int64(r.Priority), r.Headers
			to.Payload, to.Size = r.Payload, sizeOf(r.Payload)
			if r.Key != "" {
				to.Key = &r.Key
			}
			replaced = append(replaced, to)
		} else if c.due > *b.locked[id].Due {
			postponed = append(postponed, to)
		}
	}
	texts := &b.s.sql.Texts
	if _, err := b.s.sql.ExecBatch(ctx, conn, texts.Replace, sqlrun.ColumnsOf(replaced), len(replaced)); err != nil {
		return err
	}
	_, err := b.s.sql.ExecBatch(ctx, conn, texts.Postpone, sqlrun.ColumnsOf(postponed), len(postponed))
	return err
}

// changedTask has the values of Replace. Postpone takes the id and the due time.
type changedTask struct {
	ID       uuid.UUID `db:"id"`
	Due      *int64    `db:"at"`
	Kind     string    `db:"kind"`
	Key      *string   `db:"task_key"`
	Priority int64     `db:"priority"`
	Headers  *string   `db:"headers"`
	Payload  []byte    `db:"payload"`
	Size     *int64    `db:"payload_size"`
}

// searchLost reports whether the batch has happened, after the answer to its commit was lost. Like the search for plain
// tasks, it looks for values that only this batch can have written; see insertBatch.searchLost. A batch that has only
// changed waiting tasks leaves no such trace.
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

// keyTries bounds how often a key is added again that cleaning removes at the same time.
const keyTries = 3

// lockTries and lockPause bound how long a task may be locked that a key names since it was found: a checkout locks it
// for a moment.
const (
	lockTries = 3
	lockPause = 5 * time.Millisecond
)

// lockTasks locks the tasks that the keys name. One that was removed, or has completed, cannot return.
func (b *uniqueBatch) lockTasks(ctx context.Context, conn dialect.Conn) error {
	var keys []*uniqueKey
	for _, k := range b.keys {
		if k.found != nil && k.found.State != nil && *k.found.State != int64(state.Completed) {
			k.row = *k.found
			keys = append(keys, k)
		}
	}
	return b.lock(ctx, conn, keys)
}

// lock locks the tasks that some keys name, if they wait and, where a key is held until its task ends, if they run. A
// task that moved to another queue under its id is not one of them.
func (b *uniqueBatch) lock(ctx context.Context, conn dialect.Conn, keys []*uniqueKey) error {
	ids := map[bool][]uuid.UUID{}
	for _, k := range keys {
		ids[k.unfinished] = append(ids[k.unfinished], k.row.Task)
	}
	for _, unfinished := range []bool{false, true} {
		sorted := slices.SortedFunc(slices.Values(ids[unfinished]), compareIDs)
		sorted = slices.Compact(sorted)
		args := dialect.Args{"id": dialect.Col[uuid.UUID](sorted), "running": int64(0)}
		if unfinished {
			args["running"] = int64(1)
		}
		rows, err := b.s.sql.QueryBatch(ctx, conn, b.s.sql.Texts.LockWaiting, args, len(sorted))
		if err != nil {
			return err
		}
		rows = slices.DeleteFunc(rows, func(r dialect.Row) bool { return r.Queue != b.queue })
		maps.Copy(b.locked, byID(rows))
	}
	return nil
}

// lockKeys locks the keys, and adds those that do not exist.
func (b *uniqueBatch) lockKeys(ctx context.Context, conn dialect.Conn) error {
	todo := b.keys
	for range keyTries {
		if len(todo) == 0 {
			return nil
		}
		if err := b.addKeys(ctx, conn, todo); err != nil {
			return err
		}
		rows, err := queryIDs[sqlrun.KeyRow](ctx, b.s, conn, b.s.sql.Texts.LockKeys, idsOfKeys(todo))
		if err != nil {
			return err
		}
		locked := map[uuid.UUID]sqlrun.KeyRow{}
		for _, r := range rows {
			locked[r.ID] = r
		}
		todo = slices.DeleteFunc(slices.Clone(todo), func(k *uniqueKey) bool {
			row, exists := locked[k.id]
			k.row, k.fresh = row, exists && k.found == nil && row.Task == b.rows[k.rows[0]].ID
			if !exists { // cleaning has removed it, or this transaction cannot see it
				k.found = nil
			}
			return exists
		})
	}
	if len(todo) == 0 {
		return nil
	}
	return fmt.Errorf("%w: another transaction has taken the unique key", errs.ErrConflict)
}

// addKeys adds the keys that were not found.
func (b *uniqueBatch) addKeys(ctx context.Context, conn dialect.Conn, keys []*uniqueKey) error {
	var id, task dialect.Col[uuid.UUID]
	var scope, name dialect.Col[string]
	var expires dialect.Col[int64]
	for _, k := range keys {
		if k.found == nil {
			id, task = append(id, k.id), append(task, b.rows[k.rows[0]].ID)
			scope, name, expires = append(scope, k.scope), append(name, k.name), append(expires, k.expires)
		}
	}
	args := dialect.Args{"queue": b.queue, "id": id, "task": task, "scope": scope, "name": name, "expires": expires}
	_, err := b.s.sql.ExecBatch(ctx, conn, b.s.sql.Texts.AddKeys, args, len(id))
	return err
}

// lockChanged locks the tasks of keys that another transaction took after findKeys. It does not wait for them, because
// their keys are locked by now: a transaction that has locked such a task, to complete it, may wait for its key.
func (b *uniqueBatch) lockChanged(ctx context.Context, conn dialect.Conn) error {
	var keys []*uniqueKey
	for _, k := range b.keys {
		same := k.found != nil && k.found.Task == k.row.Task && k.found.Expires == k.row.Expires
		if !same && !k.fresh {
			keys = append(keys, k)
		}
	}
	if len(keys) > 0 && b.s.sql.Texts.LockFree.SQL != "" {
		if err := b.lockFree(ctx, conn, keys); err != nil {
			return err
		}
	}
	return b.lock(ctx, conn, keys)
}

// lockFree locks the tasks that some keys name. If others keep one of them locked, or it was removed, it returns
// ErrConflict, and the transaction must be repeated from findKeys.
func (b *uniqueBatch) lockFree(ctx context.Context, conn dialect.Conn, keys []*uniqueKey) error {
	ids := make([]uuid.UUID, len(keys))
	for i, k := range keys {
		ids[i] = k.row.Task
	}
	slices.SortFunc(ids, compareIDs)
	ids = slices.Compact(ids)
	for range lockTries {
		rows, err := queryIDs[dialect.Row](ctx, b.s, conn, b.s.sql.Texts.LockFree, ids)
		if err != nil || len(rows) == len(ids) {
			return err
		}
		if err := Sleep(ctx, lockPause); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: another transaction has taken the unique key", errs.ErrConflict)
}

// findKeys reads keys, and the states of their tasks.
func (s *Store) findKeys(ctx context.Context, conn dialect.Conn, ids []uuid.UUID) ([]sqlrun.KeyRow, error) {
	return queryIDs[sqlrun.KeyRow](ctx, s, conn, s.sql.Texts.FindKeys, ids)
}

func idsOfKeys(keys []*uniqueKey) []uuid.UUID {
	ids := make([]uuid.UUID, len(keys))
	for i, k := range keys {
		ids[i] = k.id
	}
	return ids
}

// cleanKeys removes the unique keys that have expired and whose tasks are completed or removed. Other tasks exclude
// others, or can return to the queue and do so again: their keys are checked again later.
func (s *Store) cleanKeys(ctx context.Context) error {
	return inBatches(ctx, func() (checked int, err error) {
		err = s.writeTx(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) (err error) {
			checked, err = s.cleanKeysOnce(ctx, conn)
			return err
		})
		return checked, err
	})
}

// cleanKeysOnce checks some keys, and returns how many.
func (s *Store) cleanKeysOnce(ctx context.Context, conn dialect.Conn) (checked int, err error) {
	old, err := s.sql.Query(ctx, conn, s.sql.Texts.OldKeys, dialect.Args{"limit": cleanBatch})
	if err != nil || len(old) == 0 {
		return 0, err
	}
	ids := slices.SortedFunc(slices.Values(idsOf(old)), compareIDs)
	if _, err := queryIDs[sqlrun.KeyRow](ctx, s, conn, s.sql.Texts.LockKeys, ids); err != nil {
		return 0, err
	}
	now, err := s.sql.Now(ctx, conn)
	if err != nil {
		return 0, err
	}
	rows, err := s.findKeys(ctx, conn, ids) // as they are now, under lock
	if err != nil {
		return 0, err
	}
	var set []sqlrun.KeyRow
	var ended []uuid.UUID
	for _, k := range rows {
		switch {
		case k.Expires > now: // a task has taken it
		case k.State != nil && *k.State != int64(state.Completed):
			set = append(set, sqlrun.KeyRow{ID: k.ID, Task: k.Task, Expires: now + keyKept.Microseconds()})
		default:
			ended = append(ended, k.ID)
		}
	}
	return len(old), s.changeKeys(ctx, conn, set, ended)
}

// changeKeys writes the tasks and ends of keys that the transaction has locked, and removes others.
func (s *Store) changeKeys(ctx context.Context, conn dialect.Conn, set []sqlrun.KeyRow, drop []uuid.UUID) error {
	if _, err := s.sql.ExecBatch(ctx, conn, s.sql.Texts.SetKeys, sqlrun.ColumnsOf(set), len(set)); err != nil {
		return err
	}
	return s.execIDs(ctx, conn, s.sql.Texts.DropKeys, drop)
}
