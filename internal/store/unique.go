package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
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

// OnConflict is what a task does with the one that excludes it.
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
func (s *Store) InsertUnique(ctx context.Context, queue string, tasks []InsertRow) (out []Inserted, err error) {
	var lost error // why the outcome cannot be known
	err = s.repeat(ctx, func() (bool, error) {
		b := s.newUniqueBatch(queue, tasks, true)
		err := s.sql.Tx(ctx, func(ctx context.Context, conn dialect.Conn) error { return b.insert(ctx, conn) })
		out = b.out
		if s.sql.Class(err) != dialect.Ambiguous {
			return false, err
		}
		if !b.findLost(ctx) {
			lost = err
		}
		return true, nil // never insert again, as in Insert
	})
	if err == nil && lost != nil {
		err = maybeHappened(true, lost)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
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
	now     int64       // the database's clock, if a due time is to be computed
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

// taskChange is what a batch does to a waiting task.
type taskChange struct {
	by  *InsertRow // what replaces its payload; nil if nothing does
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
	if len(given) == 0 {
		return nil
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

// readClock reads the database's clock, if a due time is to be computed.
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

// key is the key of a row. The period is that of the due time, which the row then has.
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

// setKeys gives the keys to the tasks that were added. A key of a task whose reference was taken stays as it was, and
// those of the batch that it would have excluded are duplicates, too. If an id was taken since checkIDs, its key may be
// that of another call with this id, and setKeys returns ErrConflict.
func (b *uniqueBatch) setKeys(ctx context.Context, conn dialect.Conn) error {
	var id, task, unused dialect.Col[uuid.UUID]
	var expires dialect.Col[int64]
	for _, k := range b.keys {
		if k.winner < 0 {
			continue
		}
		out := b.out[k.winner]
		switch {
		case !out.Duplicate && !k.fresh:
			id, task, expires = append(id, k.id), append(task, out.ID), append(expires, k.expires)
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
	if len(id) > 0 {
		args := dialect.Args{"id": id, "task": task, "expires": expires}
		if _, err := b.s.sql.ExecBatch(ctx, conn, b.s.sql.Texts.SetKeys, args, len(id)); err != nil {
			return err
		}
	}
	return b.s.dropKeys(ctx, conn, unused)
}
