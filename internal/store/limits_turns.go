package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

const (
	// dueFirst is how many due tasks a checkout reads to see whether these are all. If they are not, it goes by keys.
	dueFirst = 500
	// maxKeys is how many keys a checkout passes over, keysOnce how many it reads at once, and ofKeysOnce of how many it
	// reads tasks by one statement.
	maxKeys    = 1000
	keysOnce   = 500
	ofKeysOnce = 64
	// maxWalks is how many checkouts in a row begin at once where the one before has stopped in vain.
	maxWalks = 1000
)

// turns chooses due tasks of a queue whose keys are served in turn.
type turns struct {
	*checkoutWithin
	n    int            // tasks to choose
	busy map[string]int // leased tasks by key

	found  []dialect.Row
	tasks  map[uuid.UUID]bool // those of found and passed
	perKey map[string]int     // of found
	room   int                // of found, those for which there is a slot

	probe    bool                 // lock what is found before choosing from it: the search before has met locked rows
	want     int                  // tasks to find: n, or more if some may be locked
	locked   map[uuid.UUID]string // tasks that were locked a moment ago, with their keys
	lockedOf map[string]int       // of locked, by key
	passed   []dialect.Row        // of locked, those that are still due
	met      int                  // locked tasks that were not in locked
}

func newTurns(c *checkoutWithin, n int, busy map[string]int) *turns {
	t := &turns{checkoutWithin: c, n: n, busy: busy, want: n, tasks: map[uuid.UUID]bool{}, perKey: map[string]int{},
		locked: c.state.locked.get(), lockedOf: map[string]int{}}
	for _, key := range t.locked {
		t.lockedOf[key]++
	}
	return t
}

// choose returns up to n due tasks, one of each key in turn, beginning after the key that was served last.
func (t *turns) choose(ctx context.Context) (chosen []dialect.Row, err error) {
	after, stopped := t.rec.After, false
	if !t.state.backlog.Load() {
		if err = t.few(ctx); err != nil {
			return nil, err
		}
	}
	if t.state.backlog.Load() {
		if stopped, err = t.walk(ctx); err == nil && t.room < t.want {
			err = t.moreOfKeys(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	if err = t.passLocked(ctx); err != nil {
		return nil, err
	}
	chosen, last := inTurn(t.found, after, t.n, t.free)
	switch {
	case len(chosen) > 0:
		t.rec.After = last
		version := t.old.Version
		if t.rec != t.written { // it will be written
			version++
		}
		t.state.turn.set(last, version, chosen)
		t.state.walked.Store(0)
		t.state.walk.ended()
	case stopped: // all of these keys were in vain: the next checkout goes on behind them
		if t.state.walk.stopped(after, t.rec.After) {
			t.more = t.state.walked.Add(1) < maxWalks || t.more
		} else {
			t.state.walked.Store(0)
		}
	default:
		t.state.walk.ended()
	}
	return chosen, nil
}

// few finds the due tasks of a queue that has few of them.
func (t *turns) few(ctx context.Context) error {
	first, all, err := t.first(ctx)
	if err != nil {
		return err
	}
	if !all {
		t.state.backlog.Store(true)
		return nil
	}
	if err := t.readKeyRates(ctx, first); err != nil {
		return err
	}
	if t.limits.Order != OrderNone {
		return t.headsOf(ctx, first)
	}
	t.add(first)
	return nil
}

// first returns the first due tasks, and whether these are all.
func (t *turns) first(ctx context.Context) (rows []dialect.Row, all bool, err error) {
	limit := dueFirst + len(t.locked)
	if rows := t.ahead.first; rows != nil && limit == t.ahead.limit {
		t.ahead.first = nil
		return *rows, len(*rows) < limit, nil
	}
	rows, err = t.s.sql.Query(ctx, t.conn, t.s.sql.Texts.DueFirst, dialect.Args{"queue": t.r.Queue, "limit": limit})
	return rows, len(rows) < limit, err
}

// walk finds one due task of each key, from the key that was served last on, until it has found enough, has come round,
// or has passed over maxKeys keys; only then stopped is true, and the next walk begins there. Tasks without a key come
// where it begins again from the first key, as far as they are among the first that are due.
func (t *turns) walk(ctx context.Context) (stopped bool, err error) {
	begin, at, round := t.rec.After, t.rec.After, false
	for seen := 0; t.room < t.want; {
		if seen >= maxKeys {
			t.rec.After = at
			return true, nil
		}
		limit := min(max(t.want-t.room+t.state.spare.count(), seen), keysOnce, maxKeys-seen)
		rows, wanted, ok := t.keysAfter(at)
		if ok {
			limit = wanted
		} else if rows, err = t.s.sql.Query(ctx, t.conn, t.s.sql.Texts.DueKeys,
			dialect.Args{"queue": t.r.Queue, "after": cmp.Or(at, beforeAll), "limit": limit}); err != nil {
			return false, err
		}
		seen += len(rows)
		read, room := len(rows), t.room
		slices.SortFunc(rows, func(a, b dialect.Row) int { return cmp.Compare(keyOf(a.TaskKey), keyOf(b.TaskKey)) })
		end := len(rows) < limit && !(ok && t.ahead.guessed) // keys may have been added since they were read ahead
		if len(rows) > 0 {
			at = keyOf(rows[len(rows)-1].TaskKey)
		}
		rows = slices.DeleteFunc(rows, func(row dialect.Row) bool {
			return row.WasDue > row.Now || t.free(keyOf(row.TaskKey)) == 0 || round && keyOf(row.TaskKey) > begin
		})
		if err = t.readKeyRates(ctx, rows); err != nil {
			return false, err
		}
		rows = slices.DeleteFunc(rows, func(row dialect.Row) bool { return t.free(keyOf(row.TaskKey)) == 0 })
		if t.limits.Order == OrderNone {
			err = t.firstOf(ctx, rows)
		} else {
			err = t.headsOf(ctx, rows)
		}
		if err != nil {
			return false, err
		}
		t.state.spare.unused(read - (t.room - room))
		if round && (end || at >= begin) {
			return false, nil
		}
		if end {
			at, round = "", true
			first, all, err := t.first(ctx)
			if err != nil {
				return false, err
			}
			t.state.backlog.Store(!all)
			t.add(slices.DeleteFunc(first, func(row dialect.Row) bool { return row.TaskKey != nil }))
			if begin == "" {
				return false, nil
			}
		}
	}
	return false, nil
}

// beforeAll is before every key: no key has a control character. Oracle would read the empty text as null.
const beforeAll = "\x01"

// firstOf adds rows, the first due tasks of their keys. Of keys whose first one is locked, it finds later ones.
func (t *turns) firstOf(ctx context.Context, rows []dialect.Row) error {
	t.add(rows)
	var behind []string
	for _, row := range rows {
		if _, locked := t.locked[row.ID]; locked {
			behind = append(behind, keyOf(row.TaskKey))
		}
	}
	return t.dueOf(ctx, behind, 1)
}

// moreOfKeys finds more tasks of the keys of which walk has found one, if they may have more.
func (t *turns) moreOfKeys(ctx context.Context) error {
	var keys []string
	for key := range t.perKey {
		if key != "" && t.free(key) > 1 {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	limit := min(t.want, (4*t.want+len(keys)-1)/len(keys)) // some keys have fewer
	if most := t.limits.perKey(); most > 0 {
		limit = min(limit, most)
	}
	if most := t.limits.KeyRate.Burst; most > 0 {
		limit = min(limit, most)
	}
	return t.dueOf(ctx, keys, limit)
}

// headsOf finds the first task in order of each key of rows, if it is due and no other blocks it, and those of rows
// that have no key.
func (t *turns) headsOf(ctx context.Context, rows []dialect.Row) error {
	var keys []string
	for _, row := range rows {
		if row.TaskKey == nil {
			t.add([]dialect.Row{row})
		} else if t.free(*row.TaskKey) > 0 {
			keys = append(keys, *row.TaskKey)
		}
	}
	args := dialect.Args{"block": int64(0)}
	if t.limits.Order == OrderBlock {
		args["block"] = int64(1)
	}
	return t.ofKeys(ctx, t.s.sql.Texts.HeadsOfKeys, keys, args)
}

// ofKeys finds tasks of keys by a statement, until there are enough.
func (t *turns) ofKeys(ctx context.Context, text dialect.Batch, keys []string, args dialect.Args) error {
	slices.Sort(keys)
	keys = slices.Compact(keys)
	at, _ := slices.BinarySearch(keys, t.rec.After+"\x00")
	for part := range slices.Chunk(slices.Concat(keys[at:], keys[:at]), ofKeysOnce) {
		if t.room >= t.want {
			return nil
		}
		args["queue"], args["task_key"] = t.r.Queue, dialect.Col[string](part)
		rows, err := t.s.sql.QueryBatch(ctx, t.conn, text, args, len(part))
		if err != nil {
			return err
		}
		t.add(rows)
	}
	return nil
}

// add adds rows to those found, except those that were locked a moment ago.
func (t *turns) add(rows []dialect.Row) {
	for _, row := range rows {
		if t.tasks[row.ID] {
			continue
		}
		t.tasks[row.ID] = true
		if _, locked := t.locked[row.ID]; locked {
			t.passed = append(t.passed, row)
			continue
		}
		t.found = append(t.found, row)
		if key := keyOf(row.TaskKey); t.perKey[key] < t.free(key) {
			t.perKey[key]++
			t.room++
		}
	}
}

// inTurn chooses up to n of rows: one of each key in turn, in the order of the keys, beginning with the first key after
// a given one. Of a key it chooses as many as are free, the earliest due first. It returns the key of the last.
func inTurn(rows []dialect.Row, after string, n int, free func(key string) int) (out []dialect.Row, last string) {
	byKey := map[string][]dialect.Row{}
	slices.SortFunc(rows, dialect.HandOutOrder)
	for _, row := range rows {
		if key := keyOf(row.TaskKey); len(byKey[key]) < free(key) {
			byKey[key] = append(byKey[key], row)
		}
	}
	keys := make([]string, 0, len(byKey))
	for key := range byKey {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	at, exact := slices.BinarySearch(keys, after)
	if exact {
		at++
	}
	keys = slices.Concat(keys[at:], keys[:at])
	for len(keys) > 0 && len(out) < n {
		left := keys[:0]
		for _, key := range keys {
			if len(out) == n {
				break
			}
			out, last = append(out, byKey[key][0]), key
			if byKey[key] = byKey[key][1:]; len(byKey[key]) > 0 {
				left = append(left, key)
			}
		}
		keys = left
	}
	return out, last
}
