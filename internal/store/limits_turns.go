package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

const (
	// dueFirst is how many due tasks a checkout reads to see whether these are all. If they are not, it goes by keys.
	dueFirst = 500
	// maxKeys is how many keys a checkout passes over, keysOnce how many it reads at once, and headsOnce of how many it
	// reads tasks by one statement.
	maxKeys   = 1000
	keysOnce  = 500
	headsOnce = 64
	// maxWalks is how many checkouts in a row begin at once where the one before has stopped in vain.
	maxWalks = 1000
)

// turns chooses due tasks of a queue whose keys are served in turn.
type turns struct {
	*checkoutWithin
	n    int            // tasks to choose
	busy map[string]int // leased tasks by key

	found []dialect.Row
	room  int // of found, those for which there is a slot
}

// choose returns up to n due tasks, one of each key in turn, beginning after the key that was served last.
func (t *turns) choose(ctx context.Context) ([]dialect.Row, error) {
	after := t.rec.After
	walked := false
	if !t.state.backlog.Load() {
		first, all, err := t.first(ctx)
		if err != nil {
			return nil, err
		}
		if all {
			t.found = first
		} else {
			t.state.backlog.Store(true)
		}
	}
	if t.state.backlog.Load() {
		var err error
		if walked, err = t.walk(ctx); err != nil {
			return nil, err
		}
	}
	chosen, last := inTurn(t.found, after, t.n, t.free)
	if len(chosen) > 0 {
		t.rec.After = last
		t.state.walked.Store(0)
	} else if walked { // all of these keys were in vain: the next checkout goes on behind them
		t.more = t.state.walked.Add(1) < maxWalks
	}
	return chosen, nil
}

// first returns the first due tasks, and whether these are all.
func (t *turns) first(ctx context.Context) (rows []dialect.Row, all bool, err error) {
	rows, err = t.s.sql.Query(ctx, t.conn, t.s.sql.Texts.DueFirst,
		dialect.Args{"queue": t.r.Queue, "limit": dueFirst})
	return rows, len(rows) < dueFirst, err
}

// walk reads the due tasks of keys, from the key that was served last on, until it has found enough, has come round, or
// has passed over maxKeys keys; only then stopped is true, and the next walk begins there. Tasks without a key come
// where it begins again from the first key, as far as they are among the first that are due.
func (t *turns) walk(ctx context.Context) (stopped bool, err error) {
	begin, at, round := t.rec.After, t.rec.After, false
	for seen := 0; t.room < t.n; {
		if seen >= maxKeys {
			t.rec.After = at
			return true, nil
		}
		limit := min(t.n-t.room+headsOnce/4, keysOnce, maxKeys-seen)
		keys, err := t.keys(ctx, at, limit)
		if err != nil {
			return false, err
		}
		seen += len(keys)
		end := len(keys) < limit
		if len(keys) > 0 {
			at = keys[len(keys)-1]
		}
		if round {
			keys = slices.DeleteFunc(keys, func(key string) bool { return key > begin })
		}
		if err := t.heads(ctx, keys); err != nil {
			return false, err
		}
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
			for _, row := range first {
				if row.TaskKey == nil {
					t.found = append(t.found, row)
					t.room++
				}
			}
			if begin == "" {
				return false, nil
			}
		}
	}
	return false, nil
}

// beforeAll is before every key: no key has a control character. Oracle would read the empty text as null.
const beforeAll = "\x01"

// keys returns keys with tasks that have a due time, in order.
func (t *turns) keys(ctx context.Context, after string, limit int) ([]string, error) {
	rows, err := sqlrun.QueryAs[sqlrun.KeyCount](ctx, t.s.sql, t.conn, t.s.sql.Texts.DueKeys,
		dialect.Args{"queue": t.r.Queue, "after": cmp.Or(after, beforeAll), "limit": limit})
	out := make([]string, len(rows))
	for i, row := range rows {
		out[i] = keyOf(row.Key)
	}
	return out, err
}

// heads reads the first due tasks of keys that have a free slot.
func (t *turns) heads(ctx context.Context, keys []string) error {
	keys = slices.DeleteFunc(keys, func(key string) bool { return t.free(key) == 0 })
	for part := range slices.Chunk(keys, headsOnce) {
		if t.room >= t.n {
			return nil
		}
		limit := max(1, (4*t.n+len(keys)-1)/len(keys))
		limit = min(limit, t.n)
		if t.limits.KeyMax > 0 {
			limit = min(limit, t.limits.KeyMax)
		}
		rows, err := t.s.sql.QueryBatch(ctx, t.conn, t.s.sql.Texts.DueOfKeys,
			dialect.Args{"queue": t.r.Queue, "task_key": dialect.Col[string](part), "limit": limit}, len(part))
		if err != nil {
			return err
		}
		t.found = append(t.found, rows...)
		counts := map[string]int{}
		for _, row := range rows {
			counts[keyOf(row.TaskKey)]++
		}
		for key, n := range counts {
			t.room += min(n, t.free(key))
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
