package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

const (
	// dueFirst is how many due tasks a checkout reads to find those without a key.
	dueFirst = 500
	// maxKeys is how many keys a checkout passes over, and keysOnce how many it reads at once.
	maxKeys  = 10_000
	keysOnce = 500
	// ofKeysOnce is of how many keys it reads tasks by one statement, and lockOnce how many rows it tries to lock.
	ofKeysOnce = 64
	lockOnce   = 500
	// deeper is how many times as many tasks of a key it reads if the first ones are too few, up to maxDeep.
	deeper  = 8
	maxDeep = 1 << 15
)

// turns chooses due tasks of a queue whose keys are served in turn.
type turns struct {
	*checkoutWithin
	n    int            // tasks to choose
	busy map[string]int // leased tasks by key

	found  []dialect.Row
	seen   map[uuid.UUID]bool // those of found, and locked ones
	keys   []string           // of which it has looked for a task
	perKey map[string]int     // of found
	room   int                // of found, those for which there is a slot
}

// leaseInTurn leases up to n due tasks, of the keys in turn. busy counts the leased tasks of each key. It returns
// errLocked if others have locked some that it has chosen.
func (c *checkoutWithin) leaseInTurn(ctx context.Context, n int, busy map[string]int) error {
	after, had := c.rec.After, len(c.leased.Rows)
	t := turns{checkoutWithin: c, n: n, busy: busy, seen: map[uuid.UUID]bool{}, perKey: map[string]int{}}
	chosen, err := t.choose(ctx)
	if err == nil && len(chosen) > 0 {
		err = c.add(ctx, dialect.CheckoutRequest{Only: dialect.OnlyDue, Limit: n, Given: chosen})
	}
	if err != nil {
		return err
	}
	leased := map[uuid.UUID]bool{}
	for _, row := range c.leased.Rows[had:] {
		leased[row.ID] = true
		c.countStart(row)
	}
	switch {
	case len(leased) == len(chosen):
	case c.leased.More: // the payloads of the last ones did not fit: it is the turn of these keys
		c.rec.After = after
		for _, row := range chosen {
			if leased[row.ID] {
				c.rec.After = keyOf(row.TaskKey)
			}
		}
	case !c.passLocked && c.s.sql.Texts.LockFree.SQL != "":
		return errLocked
	}
	return nil
}

// choose returns up to n due tasks, one of each key in turn, beginning after the key that was served last.
func (t *turns) choose(ctx context.Context) (chosen []dialect.Row, err error) {
	after := t.rec.After
	if err = t.walk(ctx); err == nil && t.room < t.n {
		err = t.moreOfKeys(ctx)
	}
	if err != nil {
		return nil, err
	}
	chosen, last := inTurn(t.found, after, t.n, t.free)
	if len(chosen) > 0 {
		t.rec.After = last
	}
	return chosen, nil
}

// walk finds one due task of each key, from the key that was served last on, until it has found enough, has come round,
// or has passed over maxKeys keys; the next walk then begins there. Tasks without a key come where it begins again from
// the first key.
func (t *turns) walk(ctx context.Context) error {
	begin, at, round := t.rec.After, t.rec.After, false
	for seen := 0; t.room < t.n; {
		if seen >= maxKeys {
			t.rec.After = at
			return nil
		}
		limit := min(max(t.n-t.room, seen), keysOnce)
		rows, err := t.s.sql.Query(ctx, t.conn, t.s.sql.Texts.DueKeys,
			dialect.Args{"queue": t.r.Queue, "after": cmp.Or(at, beforeAll), "limit": limit})
		if err != nil {
			return err
		}
		seen += len(rows)
		slices.SortFunc(rows, func(a, b dialect.Row) int { return cmp.Compare(keyOf(a.TaskKey), keyOf(b.TaskKey)) })
		end := len(rows) < limit
		if len(rows) > 0 {
			at = keyOf(rows[len(rows)-1].TaskKey)
		}
		if err = t.firstOf(ctx, slices.DeleteFunc(rows, func(row dialect.Row) bool {
			return row.WasDue > row.Now || t.free(*row.TaskKey) == 0 || round && *row.TaskKey > begin
		})); err != nil || round && (end || at >= begin) {
			return err
		}
		if end {
			if err = t.keyless(ctx); err != nil || begin == "" {
				return err
			}
			at, round = "", true
		}
	}
	return nil
}

// beforeAll is before every key: no key has a control character. Oracle would read the empty text as null.
const beforeAll = "\x01"

// firstOf adds a task of each key of rows, which are the first due tasks of their keys.
func (t *turns) firstOf(ctx context.Context, rows []dialect.Row) error {
	if err := t.readKeyRates(ctx, rows); err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(row dialect.Row) bool { return t.free(*row.TaskKey) == 0 })
	keys := make([]string, len(rows))
	for i, row := range rows {
		keys[i] = *row.TaskKey
	}
	if t.limits.Order != OrderNone {
		args := dialect.Args{"block": int64(0)}
		if t.limits.Order == OrderBlock {
			args["block"] = int64(1)
		}
		_, err := t.ofKeys(ctx, t.s.sql.Texts.HeadsOfKeys, keys, args, func(string) bool { return t.room < t.n })
		return err
	}
	t.keys = append(t.keys, keys...)
	if err := t.add(ctx, rows); err != nil {
		return err
	}
	return t.deepOf(ctx, keys, deeper, func(key string) bool { return t.perKey[key] == 0 })
}

// keyless adds the tasks without a key that are among the first that are due.
func (t *turns) keyless(ctx context.Context) error {
	for limit := dueFirst; limit <= maxDeep; limit *= deeper {
		rows, err := t.s.sql.Query(ctx, t.conn, t.s.sql.Texts.DueFirst, dialect.Args{"queue": t.r.Queue, "limit": limit})
		if err != nil {
			return err
		}
		all := len(rows) < limit
		rows = slices.DeleteFunc(rows, func(row dialect.Row) bool { return row.TaskKey != nil })
		locked := len(rows)
		if err = t.add(ctx, rows); err != nil || all || locked == 0 || t.perKey[""] > 0 {
			return err
		}
	}
	return nil
}

// moreOfKeys finds more tasks of the keys of which walk has looked for one.
func (t *turns) moreOfKeys(ctx context.Context) error {
	if len(t.keys) == 0 {
		return nil
	}
	limit := min(t.n, (4*t.n+len(t.keys)-1)/len(t.keys)) // some keys have fewer
	if most := t.limits.perKey(); most > 0 {
		limit = min(limit, most)
	}
	if most := t.limits.KeyRate.Burst; most > 0 {
		limit = min(limit, most)
	}
	return t.deepOf(ctx, t.keys, limit, func(key string) bool { return t.room < t.n && t.perKey[key] < t.free(key) })
}

// deepOf finds up to limit due tasks of each key that is short of them, and then more of those that still are.
func (t *turns) deepOf(ctx context.Context, keys []string, limit int, short func(key string) bool) error {
	for ; limit <= maxDeep; limit *= deeper {
		if keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return !short(key) }); len(keys) == 0 {
			return nil
		}
		found, err := t.ofKeys(ctx, t.s.sql.Texts.DueOfKeys, keys, dialect.Args{"limit": limit}, short)
		if err != nil {
			return err
		}
		keys = slices.DeleteFunc(keys, func(key string) bool { return found[key] < limit })
	}
	return nil
}

// ofKeys finds tasks of keys that are short of them by a statement, and returns how many of each key.
func (t *turns) ofKeys(
	ctx context.Context, text dialect.Batch, keys []string, args dialect.Args, short func(key string) bool,
) (found map[string]int, err error) {
	slices.Sort(keys)
	keys = slices.Compact(keys)
	at, _ := slices.BinarySearch(keys, t.rec.After+"\x00")
	found = map[string]int{}
	for part := range slices.Chunk(slices.Concat(keys[at:], keys[:at]), ofKeysOnce) {
		if !slices.ContainsFunc(part, short) {
			continue
		}
		args["queue"], args["task_key"] = t.r.Queue, dialect.Col[string](part)
		rows, err := t.s.sql.QueryBatch(ctx, t.conn, text, args, len(part))
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			found[*row.TaskKey]++
		}
		if err := t.add(ctx, rows); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// add adds rows to those found; if locked tasks are to be passed over, only those that it can lock.
func (t *turns) add(ctx context.Context, rows []dialect.Row) error {
	rows = slices.DeleteFunc(rows, func(row dialect.Row) bool { return t.seen[row.ID] })
	for part := range slices.Chunk(rows, lockOnce) {
		free := map[uuid.UUID]bool{}
		if t.passLocked {
			locked, err := t.s.sql.QueryBatch(ctx, t.conn, t.s.sql.Texts.LockFree, dialect.Args{"id": dialect.IDs(part)},
				len(part))
			if err != nil {
				return err
			}
			for _, row := range locked {
				free[row.ID] = true
			}
		}
		for _, row := range part {
			t.seen[row.ID] = true
			if t.passLocked && !free[row.ID] {
				continue
			}
			t.found = append(t.found, row)
			if key := keyOf(row.TaskKey); t.perKey[key] < t.free(key) {
				t.perKey[key]++
				t.room++
			}
		}
	}
	return nil
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
