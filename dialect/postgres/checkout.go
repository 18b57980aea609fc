package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

const (
	// windows is how many checkouts' worth of candidates CAS reads, to find some that nobody else is taking.
	windows = 4
	// rounds bounds how often CAS reads again after others took all it tried.
	rounds = 8
)

// ready is a search for due tasks: one ordered descent of the index for each priority, in order, until there are enough. Ordering
// by priority and due time at once would walk every future row of the better priorities before PostgreSQL 18.
//
// It tells where each row is, and the update goes there: whatever PostgreSQL believes about the table, it need not look for the rows
// again. A row that somebody has changed in between is elsewhere, and is left out.
const ready = `SELECT {found} FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
    SELECT t.id, t.fence, t.due, t.ctid, ` + size + ` AS size FROM {task} t
     WHERE t.queue = :queue AND t.priority = p.priority AND t.due <= (SELECT now FROM clock)
       AND t.due >= (CAST(:since AS bigint[]))[p.priority + 1]
       AND ` + unpaused + `
     ORDER BY t.due, t.id LIMIT :limit {lock}) AS x LIMIT :limit`

// expired is a search for leases that ran out, among the few tasks in work that were taken since :oldest, but not for those that this very
// checkout took a moment ago for a very short time.
const expired = `SELECT {found}, ` + size + ` AS {size}, t.holder AS was_holder,
       t.updated AS was_taken, t.attempt AS was_attempt, ` + renewed + ` AS was_until
  FROM {task} t
   WHERE t.queue = :queue AND t.state = 1 AND t.updated >= CAST(:oldest AS bigint) AND t.holder <> :holder
     AND ` + over + `
     AND ` + unpaused + ` LIMIT :limit {lock}`

// The bytes of payload in a checkout are bounded; see dialect.Budget. octet_length finds the size of a payload in its row, also when
// the payload is stored beside the table or compressed.
//
// A running sum makes the statement cost a few percent more. While a queue's payloads are small, "ready" only checks that they still
// are: when it meets one that is larger than an equal share of the bytes, it takes nothing, and "ready within" follows.
const (
	size     = `coalesce(octet_length(t.payload), 0)`
	sums     = `sum(size) OVER (ROWS UNBOUNDED PRECEDING)`
	fits     = `total + CAST(:used AS bigint) <= greatest(CAST(:bytes AS bigint), size)`
	allSmall = ` WHERE NOT EXISTS (SELECT 1 FROM pick AS p WHERE p.size > CAST(:share AS bigint))`
	within   = `pick AS MATERIALIZED (
  SELECT * FROM (SELECT e.*, ` + sums + ` AS total FROM ended AS e) AS e WHERE ` + fits + `), `
)

// take changes rows that are still due. Without coalesce the planner would see that they are in the index of those that are due, and might
// walk it all to find them.
//
// It does not send back what this call sets itself; see took. It keeps when the task had become due, which RETURNING could not tell
// before PostgreSQL 18.
const take = `UPDATE {task} t SET state = 1, due = NULL, was_due = t.due, attempt = t.attempt + 1, fence = t.fence + 1,
  lease_until = clock.now + CAST(:lease AS bigint), holder = :holder, started = CAST(:begun AS smallint),
  updated = clock.now
  FROM {which} AND coalesce(t.due <= clock.now, false)
RETURNING t.id, t.reference, t.kind, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.created, t.headers, t.payload, t.result,
  t.was_due, clock.now`

// exhausted is the result of a task whose attempts are spent: who held it, and the checkout that found it.
const exhausted = `convert_to('the lease of the last attempt ran out, held by ' || t.holder ||
      ', found by ' || CAST(:holder AS text), 'UTF8')`

// takeOver gives a task whose lease ran out a new one, or moves it to POISON.
var takeOver = strings.NewReplacer("{spent}", dialect.Spent("t."), "{attempt}", dialect.NextAttempt("t."),
	"{lapses}", dialect.NextLapses("t.")).Replace(`UPDATE {task} t SET
  state = CASE WHEN {spent} THEN 4 ELSE 1 END,
  result = CASE WHEN {spent}
    THEN ` + exhausted + ` ELSE t.result END,
  lease_until = CASE WHEN {spent} THEN NULL ELSE clock.now + CAST(:lease AS bigint) END,
  holder = CASE WHEN {spent} THEN t.holder ELSE :holder END,
  attempt = CASE WHEN {spent} THEN t.attempt ELSE {attempt} END,
  lapses = {lapses}, started = CAST(:begun AS smallint),
  fence = t.fence + 1, updated = clock.now
  FROM {which} AND t.state + 0 = 1
RETURNING {columns}, t.payload, clock.now`)

// A statement finds the rows that it changes by where its search found them, joined to it when the search has more to tell, or, of
// rows that an earlier statement saw, by id and fence.
const (
	placed = "clock WHERE t.ctid = ANY (ARRAY(SELECT place FROM pick%s))"
	told   = "won, clock WHERE t.ctid = won.place"
	seen   = "pick, clock WHERE t.id = pick.id AND t.fence = pick.fence"
	taken  = "won, clock WHERE t.id = won.id AND t.fence = won.fence"
)

// addCheckout puts the statements of the three strategies together. A LIMIT in a joined sub-select is no limit, since it may run
// once for each outer row: pick is materialized.
func addCheckout(st *dialect.Statements, t func(string) string, batch func(string) dialect.Batch) {
	pick := func(search, found, update, lock string) string {
		return t("WITH " + clock + ", pick AS MATERIALIZED (\n  " + strings.NewReplacer("{lock}", lock, "{found}", found).Replace(search) + ")" + update)
	}
	look := func(search, found string) string {
		fill := strings.NewReplacer("{lock}", "", "{found}", found, "{size}", "payload_size")
		return t("WITH " + clock + "\n" + fill.Replace(search))
	}
	taking := func(which string) string {
		return "\n" + strings.Replace(take, "{which}", fmt.Sprintf(placed, which), 1)
	}
	takingOver := won + strings.Replace(takeOver, "{which}", told, 1) + ", won.was_holder, won.was_taken, won.was_attempt, won.was_until,\n" +
		"  (SELECT count(*) FROM ended) > (SELECT count(*) FROM pick) AS cut"
	given := `WITH {clock}, pick AS MATERIALIZED (
  SELECT t.id, t.fence
    FROM (SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence OFFSET 0) AS given,
         unnest(given.id, given.fence) AS d (id, fence), {task} t
   WHERE t.id = d.id AND t.fence = d.fence AND {still} FOR UPDATE OF t SKIP LOCKED)`
	st.Checkout = map[string]string{
		"ready": pick(ready, "x.ctid AS place, x.size", taking(allSmall), "FOR UPDATE SKIP LOCKED"),
		"ready within": pick(ready, "x.ctid AS place, x.size, "+sums+" AS total",
			taking(` WHERE `+fits)+`, (SELECT NOT bool_and(`+fits+`) FROM pick) AS cut`, "FOR UPDATE SKIP LOCKED"),
		"expired": t("WITH " + clock + ", ended AS MATERIALIZED (\n  " + strings.NewReplacer("{lock}", "FOR UPDATE SKIP LOCKED",
			"{size}", "size", "{found}", "t.id, t.fence, t.ctid AS place").Replace(expired) + "),\n" + within + takingOver),
		// The table is named by its number, which is the same whether a client names its schema or the search path does.
		"queue lock": t(`SELECT pg_advisory_xact_lock(hashtextextended(
  'dbq checkout ' || CAST(CAST('{task}' AS regclass) AS oid) || ' ' || CAST(:queue AS text), 0))`),
		"see ready":   look(ready, "x.id, x.fence, x.size AS payload_size"),
		"see expired": look(expired, "t.id, t.fence"),
		"dead":        t(`SELECT {now} AS now WHERE pg_stat_get_dead_tuples(CAST('{task}' AS regclass)) >= CAST(:dead AS bigint)`),
		"oldest": t(`WITH {clock} SELECT least(clock.now - CAST(:late AS bigint), (SELECT t.updated FROM {task} t
  WHERE t.queue = :queue AND t.state = 1 AND t.updated >= CAST(:oldest AS bigint) ORDER BY t.updated LIMIT 1)) AS updated FROM clock`),
	}
	st.CheckoutBatch = map[string]dialect.Batch{
		"take ready": batch(strings.Replace(given, "{still}", "coalesce(t.due <= (SELECT now FROM clock), false)", 1) + "\n" +
			strings.Replace(take, "{which}", seen, 1)),
		"take expired": batch(strings.Replace(given, "{still}", "t.state + 0 = 1", 1) + ", " + won +
			strings.Replace(takeOver, "{which}", taken, 1)),
	}
}

// Checkout takes tasks by one of three strategies.
func (Dialect) Checkout(ctx context.Context, s *dialect.Session, r dialect.CheckoutRequest) ([]dialect.Row, error) {
	c := checkout{s: s, r: r}
	var err error
	switch r.Strategy {
	case dialect.SkipLocked:
		err = c.each(ctx, c.statement)
	case dialect.Advisory:
		if err = c.advisory(ctx); err != nil {
			return nil, err // what its transaction leased is not sure
		}
	case dialect.CAS:
		err = c.each(ctx, c.compareAndSet)
	default:
		return nil, fmt.Errorf("postgres: no strategy %q", r.Strategy)
	}
	return c.rows, err
}

// checkout is one call of Checkout.
type checkout struct {
	s      *dialect.Session
	r      dialect.CheckoutRequest
	rows   []dialect.Row
	budget dialect.Budget
	// ahead says that it began at the queue's front: another checkout looks from the start, and for leases that ran out, when the front is old.
	ahead bool
}

// A search leases tasks within the budget by one of the searches "ready" and "expired".
type search func(ctx context.Context, name string) ([]dialect.Row, error)

// parts runs the two searches in the order asked for: leases that ran out come first when they are to be looked for, and otherwise
// only when nothing else was found.
func (c *checkout) parts(ctx context.Context, find search) error {
	order := []string{"ready", "expired"}
	if c.r.Expired {
		order = []string{"expired", "ready"}
	}
	c.rows, c.budget = nil, c.r.Budget()
	for _, name := range order {
		if c.budget.Spent() || (len(c.rows) > 0 || c.ahead) && !c.r.Expired {
			break
		}
		rows, err := find(ctx, name)
		c.budget.Spend(rows)
		slices.SortFunc(rows, dialect.HandOutOrder) // RETURNING has no order
		c.rows = c.budget.Mark(append(c.rows, rows...))
		if err != nil {
			return err
		}
	}
	return nil
}

// each is parts for searches that commit by themselves: when the second fails, the first one's tasks are leased already and are
// handed out; the next checkout meets the error again.
func (c *checkout) each(ctx context.Context, find search) error {
	err := c.parts(ctx, find)
	if err != nil && len(c.rows) > 0 && c.s.Class(err) != dialect.Ambiguous {
		return nil
	}
	return err
}

func (c *checkout) args(limit int) dialect.Args {
	return dialect.Args{"queue": c.r.Queue, "limit": limit, "lease": c.r.Lease.Microseconds(), "holder": c.r.Holder,
		"begun": c.r.Begun(), "since": dialect.FromStart, "oldest": int64(0),
		"bytes": c.budget.Bytes, "used": c.budget.Used, "share": c.budget.Share()}
}

// statement runs one search that takes what it finds.
func (c *checkout) statement(ctx context.Context, name string) ([]dialect.Row, error) {
	take := func(name string, args dialect.Args) (rows []dialect.Row, err error) {
		err = c.s.Do(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
			rows, err = c.took(c.s.Query(ctx, conn, c.s.Statements.Checkout[name], args))
			return err
		})
		if err != nil {
			return nil, err // what it took is not sure, also when only its commit failed
		}
		return rows, nil
	}
	ask := func(text string, args dialect.Args) ([]dialect.Row, error) { return c.s.Ask(ctx, text, args) }
	if name == "ready" {
		return c.fromFront(ask, take)
	}
	return c.amongWorking(ask, take)
}

// took gives rows what take does not send back: all that this call has set. Rows that were taken over have come whole.
func (c *checkout) took(rows []dialect.Row, err error) ([]dialect.Row, error) {
	for i := range rows {
		r := &rows[i]
		if r.State != state.Created { // the zero value: no row that was taken is CREATED
			continue
		}
		until := r.Now + c.r.Lease.Microseconds()
		r.Queue, r.State, r.Holder, r.LeaseUntil, r.Updated = c.r.Queue, state.Processing, &c.r.Holder, &until, r.Now
	}
	return rows, err
}

// advisory takes the queue's lock first, in a statement of its own: the searches that follow then see what the holder before
// committed. They skip locked rows all the same: a caller's transaction may hold some, and the queue's lock must not wait for it.
func (c *checkout) advisory(ctx context.Context) error {
	return c.s.Tx(ctx, func(ctx context.Context, conn dialect.Conn) error {
		lock := dialect.Args{"queue": c.r.Queue}
		if _, err := c.s.Exec(ctx, conn, c.s.Statements.Checkout["queue lock"], lock); err != nil {
			return err
		}
		return c.parts(ctx, func(ctx context.Context, name string) ([]dialect.Row, error) {
			ask := func(text string, args dialect.Args) ([]dialect.Row, error) { return c.s.Query(ctx, conn, text, args) }
			take := func(name string, args dialect.Args) ([]dialect.Row, error) {
				return c.took(ask(c.s.Statements.Checkout[name], args))
			}
			if name == "ready" {
				return c.fromFront(ask, take)
			}
			return c.amongWorking(ask, take)
		})
	})
}

// compareAndSet reads candidates and takes those whose fence is still the same. It begins with the first, in order; when others took
// these, it goes on with a random window, so that workers do not race for the same rows again.
func (c *checkout) compareAndSet(ctx context.Context, name string) (rows []dialect.Row, err error) {
	limit := c.budget.Rows
	for round := range rounds {
		seen, err := c.s.Ask(ctx, c.s.Statements.Checkout["see "+name], c.args(limit*windows))
		if err != nil || len(seen) == 0 {
			return nil, err
		}
		if round > 0 && len(seen) > limit {
			seen = seen[rand.IntN(len(seen)-limit+1):]
		}
		seen = c.budget.Fit(seen[:min(limit, len(seen))])
		// By id, so that two of these never wait for each other in a circle.
		slices.SortFunc(seen, func(a, b dialect.Row) int { return slices.Compare(a.ID[:], b.ID[:]) })
		args := c.args(limit)
		ids, fences := make(dialect.Col[uuid.UUID], len(seen)), make(dialect.Col[int64], len(seen))
		for i, row := range seen {
			ids[i], fences[i] = row.ID, row.Fence
		}
		args["id"], args["fence"] = ids, fences
		take, by := c.s.Statements.CheckoutBatch["take "+name], c.s.Do
		if len(ids) > take.Max { // more than one statement
			by = c.s.Tx
		}
		err = by(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
			rows, err = c.took(c.s.QueryBatch(ctx, conn, take, args, len(ids)))
			return err
		})
		if err != nil {
			return nil, err // what it took is not sure, also when only its commit failed
		}
		if len(rows) > 0 {
			remember(rows, seen)
			return rows, nil
		}
	}
	return nil, nil
}

// remember tells rows that were taken over who held them when they were seen, under the fence that the update checked.
func remember(rows, seen []dialect.Row) {
	for i := range rows {
		for _, was := range seen {
			if rows[i].ID == was.ID {
				rows[i].WasHolder, rows[i].WasTaken = was.WasHolder, was.WasTaken
				rows[i].WasUntil, rows[i].WasAttempt = was.WasUntil, was.WasAttempt
			}
		}
	}
}
