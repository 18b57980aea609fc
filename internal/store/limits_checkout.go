package store

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// checkout is one try of a checkout, within the limits of the queue if there are any.
func (s *Store) checkout(ctx context.Context, r dialect.CheckoutRequest) (out limitedCheckout, err error) {
	if s.KnownLimited(r.Queue) {
		out, limited, err := s.checkoutLimited(ctx, r)
		if limited || err != nil {
			return out, err
		}
	}
	if out.leased, err = s.sql.Checkout(ctx, r); err != nil || len(out.leased.Rows) > 0 {
		return out, err
	}
	limited, err := s.maybeLimited(ctx, r.Queue)
	if err != nil || !limited {
		return out, err
	}
	out, _, err = s.checkoutLimited(ctx, r)
	return out, err
}

// limitedCheckout is the result of a checkout.
type limitedCheckout struct {
	leased dialect.CheckoutResult
	wait   time.Duration // until a rate allows the next start
	more   bool          // tasks may be due that it has not come to
}

// What rolls back the transaction of a checkout: it has leased nothing; or it has chosen tasks that others have locked.
var (
	errNothing = errors.New("nothing to lease")
	errLocked  = errors.New("chosen tasks are locked")
)

// checkoutLimited is a checkout of a queue with limits. Its transaction first locks the record of the limits, so that
// one checkout of the queue follows another; counts the leased tasks by statements that begin after that; and then
// leases by the dialect's own checkout. limited is false if the queue has no limits; it then does nothing.
func (s *Store) checkoutLimited(ctx context.Context, r dialect.CheckoutRequest) (
	out limitedCheckout, limited bool, err error) {
	st := s.limitState(r.Queue)
	if st.refused.Load() {
		if idle, wait, err := s.refusedAgain(ctx, r.Queue); err != nil || idle {
			return limitedCheckout{wait: wait}, true, err
		}
	}
	for _, passLocked := range []bool{false, true} {
		err = s.limitsTx(ctx, r.Queue, func(ctx context.Context, conn dialect.Conn) error {
			rec, exists, paused, err := s.lockLimits(ctx, conn, r.Queue)
			if limited = exists; err != nil || !exists {
				return err
			}
			if paused {
				return errNothing
			}
			within := checkoutWithin{s: s, conn: conn, r: r, passLocked: passLocked, now: rec.Now * int64(time.Microsecond)}
			out, err = within.run(ctx, rec)
			return err
		})
		if !errors.Is(err, errLocked) {
			break
		}
	}
	if errors.Is(err, errNothing) {
		err = nil
	}
	if err != nil { // what it leased is not sure
		return limitedCheckout{}, limited, err
	}
	st.limited.Store(limited)
	st.refused.Store(len(out.leased.Rows) == 0)
	return out, limited, nil
}

// refusedAgain reports whether a queue whose last checkout leased nothing still has no due task or no start left. It
// takes no lock, so that idle workers do not keep others waiting.
func (s *Store) refusedAgain(ctx context.Context, queue string) (idle bool, wait time.Duration, err error) {
	due, some, err := s.NextDue(ctx, queue)
	if err != nil || !some || due > 0 {
		return err == nil, 0, err
	}
	rec, exists, err := s.GetKV(ctx, NamespaceLimit, queue)
	if err != nil || !exists {
		return false, 0, err
	}
	stored, l, err := parseLimits(rec)
	if err != nil {
		return false, 0, err
	}
	n, wait := l.Rate.allowed(rec.Now*int64(time.Microsecond), stored.Full)
	return n == 0, wait, nil
}

// checkoutWithin is a checkout under locked limits.
type checkoutWithin struct {
	s    *Store
	conn dialect.Conn
	r    dialect.CheckoutRequest
	now  int64 // the database's clock in nanoseconds
	// passLocked reports that it is to lock what it finds before it chooses from it.
	passLocked bool

	limits Limits
	rec    limitRecord
	starts int // that the rate allows
	rates  keyRates
	leased dialect.CheckoutResult
	bytes  int64 // of the payloads of leased
	more   bool
	// returned reports that tasks were taken over and are due again.
	returned bool
}

func (c *checkoutWithin) run(ctx context.Context, old Record) (out limitedCheckout, err error) {
	if c.rec, c.limits, err = parseLimits(old); err != nil {
		return out, err
	}
	was := c.rec
	c.rates.keys = map[string]*keyRate{}
	if c.starts, out.wait = c.limits.Rate.allowed(c.now, c.rec.Full); c.starts == 0 {
		return out, errNothing
	}
	if err = c.lease(ctx); err != nil {
		return out, err
	}
	if err = c.writeKeyRates(ctx); err != nil {
		return out, err
	}
	started, at := 0, c.now // the last start
	for _, row := range c.leased.Rows {
		if row.State == state.Processing {
			started, at = started+1, max(at, row.Updated*int64(time.Microsecond))
		}
	}
	out.leased, out.more, out.wait = c.leased, c.more, c.rates.wait
	if c.rec.Full = c.limits.Rate.after(at, c.rec.Full, started); started == c.starts {
		_, out.wait = c.limits.Rate.allowed(at, c.rec.Full)
	}
	switch {
	case c.rec != was:
		err = c.s.putLimits(ctx, c.conn, old, true, c.r.Queue, c.rec)
	case len(c.leased.Rows) == 0 && !c.returned:
		err = errNothing
	}
	return out, err
}

// lease takes over expired leases, which keep their slots, and leases due tasks for free slots, in the order asked for.
func (c *checkoutWithin) lease(ctx context.Context) error {
	expired := func() error {
		had := len(c.leased.Rows)
		err := c.add(ctx, dialect.CheckoutRequest{Search: dialect.OnlyExpired, Limit: min(c.r.Limit, c.starts)})
		if err == nil {
			err = c.returnTakenOver(ctx, had)
		}
		return err
	}
	expiredFirst := c.r.Search == dialect.ExpiredFirst
	if expiredFirst {
		if err := expired(); err != nil {
			return err
		}
	}
	if err := c.leaseDue(ctx); err != nil {
		return err
	}
	if len(c.leased.Rows) == 0 && !expiredFirst {
		return expired()
	}
	return nil
}

// leaseDue leases due tasks for the free slots.
func (c *checkoutWithin) leaseDue(ctx context.Context) error {
	n := min(c.r.Limit, c.starts) - len(c.leased.Rows)
	if n <= 0 || c.leased.More {
		return nil
	}
	leased, perKey := 0, map[string]int{}
	if c.limits.Concurrency > 0 || c.limits.perKey() > 0 {
		text := c.s.sql.Texts.Busy
		if c.limits.PerKey {
			text = c.s.sql.Texts.BusyKeys
		}
		busy, err := sqlrun.QueryAs[sqlrun.KeyCount](ctx, c.s.sql, c.conn, text, dialect.Args{"queue": c.r.Queue})
		if err != nil {
			return err
		}
		for _, b := range busy {
			leased += int(b.Tasks)
			perKey[keyOf(b.Key)] = int(b.Tasks)
		}
	}
	if c.limits.Concurrency > 0 {
		n = min(n, c.limits.Concurrency-leased)
	}
	if n <= 0 {
		return nil
	}
	if c.limits.PerKey {
		return c.leaseInTurn(ctx, n, perKey)
	}
	return c.add(ctx, dialect.CheckoutRequest{Search: dialect.OnlyDue, Limit: n})
}

// add leases tasks by a part of the dialect's checkout.
func (c *checkoutWithin) add(ctx context.Context, part dialect.CheckoutRequest) error {
	r := c.r
	r.Search, r.Limit, r.Given = part.Search, part.Limit, part.Given
	if r.Bytes > 0 {
		if r.Bytes -= c.bytes; r.Bytes <= 0 {
			c.leased.More = true
			return nil
		}
	}
	leased, err := c.s.sql.CheckoutWithin(ctx, c.conn, r)
	if err != nil {
		return err
	}
	known := setOf(c.leased.Rows)
	// A dialect that finds what it leased by the checkout's token returns the rows of both parts.
	rows := slices.DeleteFunc(leased.Rows, func(row dialect.Row) bool { return known[row.ID] })
	for i := range rows {
		c.bytes += rows[i].PayloadBytes()
	}
	c.leased.Rows, c.leased.More = append(c.leased.Rows, rows...), c.leased.More || leased.More
	return nil
}

func keyOf(key *string) string {
	if key == nil {
		return ""
	}
	return *key
}

// free returns how many more tasks of a key may be leased, if its rate was read. Tasks without a key have no limit per
// key.
func (t *turns) free(key string) int {
	free := math.MaxInt
	if most := t.limits.perKey(); most > 0 && key != "" {
		free = max(most-t.busy[key], 0)
	}
	if starts, bounded := t.startsOf(key); bounded {
		free = min(free, starts)
	}
	return free
}

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
	if err == nil && len(chosen) > 0 { // a dialect sorts what it is given
		err = c.add(ctx, dialect.CheckoutRequest{Search: dialect.OnlyDue, Limit: n, Given: slices.Clone(chosen)})
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
		rows, err := t.s.sql.Query(ctx, t.conn, t.s.sql.Texts.DueTasks, dialect.Args{"queue": t.r.Queue, "limit": limit})
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
		var free map[uuid.UUID]bool
		if t.passLocked {
			locked, err := t.s.sql.QueryBatch(ctx, t.conn, t.s.sql.Texts.LockFree, kit.Keys(slices.Clone(part)),
				len(part))
			if err != nil {
				return err
			}
			free = setOf(locked)
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
	kit.InOrder(rows)
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
