package postgres

import (
	"context"
	"fmt"
	"maps"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/dbq-go/dbq/dialect/kit/search"
	"github.com/dbq-go/dbq/state"
)

// Checkout takes tasks by one of three strategies.
func (Dialect) Checkout(
	ctx context.Context, s *dialect.Session, r dialect.CheckoutRequest,
) (dialect.CheckoutResult, error) {
	c := checkout{s: s, r: r}
	expired := func(ctx context.Context) ([]dialect.Row, error) { return c.expired(ctx, c.reads(ctx), nil) }
	var err error
	switch {
	case r.Given != nil:
		err = c.parts(ctx, c.given, nil)
	case r.Strategy == dialect.SkipLocked:
		err = c.each(ctx, c.ready, expired)
	case r.Strategy == dialect.Advisory:
		if err = c.advisory(ctx); err != nil {
			return dialect.CheckoutResult{}, err // whether its transaction leased tasks is unknown
		}
	case r.Strategy == dialect.CAS:
		err = c.each(ctx, c.compareAndSet, expired)
	default:
		return dialect.CheckoutResult{}, fmt.Errorf("postgres: no strategy %q", r.Strategy)
	}
	return c.budget.Result(), err
}

// checkout is one call of Checkout.
type checkout struct {
	s      *dialect.Session
	r      dialect.CheckoutRequest
	budget kit.Budget
	// pastStart reports that the search began at the queue's cursor. Once the cursor has expired, a checkout searches
	// from the start, and for expired leases.
	pastStart bool
}

// A finder leases tasks within the budget: due ones, or those whose lease expired.
type finder func(ctx context.Context) ([]dialect.Row, error)

// parts runs the two searches in the requested order. Expired leases come first with ExpiredFirst, and otherwise only
// if no task was due.
func (c *checkout) parts(ctx context.Context, ready, expired finder) error {
	order := []finder{ready, expired}
	switch c.r.Search {
	case dialect.OnlyDue:
		order = []finder{ready}
	case dialect.OnlyExpired:
		order = []finder{expired}
	case dialect.ExpiredFirst:
		order = []finder{expired, ready}
	}
	c.budget = kit.NewBudget(c.r)
	for _, find := range order {
		some := len(c.budget.Result().Rows) > 0
		if c.budget.Full() || (some || c.pastStart) && c.r.Search != dialect.ExpiredFirst {
			break
		}
		rows, err := find(ctx)
		c.budget.Add(rows)
		if err != nil {
			return err
		}
	}
	return nil
}

// each is parts for searches that commit by themselves. If the second fails, the tasks of the first are already leased,
// so they are handed out. The next checkout gets the error again.
func (c *checkout) each(ctx context.Context, ready, expired finder) error {
	err := c.parts(ctx, ready, expired)
	if err != nil && len(c.budget.Result().Rows) > 0 && c.s.Class(err) != dialect.Ambiguous {
		return nil
	}
	return err
}

func (c *checkout) args(limit int) dialect.Args {
	return dialect.Args{"queue": c.r.Queue, "limit": limit, "lease": c.r.Lease.Microseconds(), "holder": c.r.Holder,
		"known_started": c.r.KnownStarted, "since": search.FromStart(), "oldest": int64(0),
		"bytes": c.budget.Bytes, "used": c.budget.Used, "share": c.budget.Share()}
}

// runFunc runs statements on a connection, as the session's Do and Tx do.
type runFunc func(context.Context, func(context.Context, dialect.Conn) error) error

// ready leases the due tasks that it finds, by one statement.
func (c *checkout) ready(ctx context.Context) ([]dialect.Row, error) {
	return c.fromCursor(c.reads(ctx), func(name string, args dialect.Args) (rows []dialect.Row, err error) {
		err = c.s.Do(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
			rows, err = c.took(c.s.Query(ctx, conn, c.s.Private(name).SQL, args))
			return err
		})
		if err != nil {
			return nil, err // if only the commit failed, it may have leased tasks
		}
		return rows, nil
	})
}

// reads runs queries outside of the transaction that leases tasks.
func (c *checkout) reads(ctx context.Context) search.Query {
	return func(text string, args dialect.Args) ([]dialect.Row, error) { return c.s.Read(ctx, text, args) }
}

// took sets the columns that the statement does not return, because this call has set them. Rows of a takeover are
// complete.
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

// advisory takes the queue's lock in a statement of its own, so that the searches see the commits of the previous
// holder. They still skip locked rows: a caller's transaction may hold some, and the holder of the queue's lock must
// not wait for it.
func (c *checkout) advisory(ctx context.Context) error {
	return c.s.Tx(ctx, func(ctx context.Context, conn dialect.Conn) error {
		lock := dialect.Args{"queue": c.r.Queue}
		if _, err := c.s.Exec(ctx, conn, c.s.Private("queue lock").SQL, lock); err != nil {
			return err
		}
		query := func(text string, args dialect.Args) ([]dialect.Row, error) { return c.s.Query(ctx, conn, text, args) }
		return c.parts(ctx, func(context.Context) ([]dialect.Row, error) {
			return c.fromCursor(query, func(name string, args dialect.Args) ([]dialect.Row, error) {
				return c.took(query(c.s.Private(name).SQL, args))
			})
		}, func(ctx context.Context) ([]dialect.Row, error) {
			return c.expired(ctx, query, func(ctx context.Context, take func(context.Context, dialect.Conn) error) error {
				return take(ctx, conn)
			})
		})
	})
}

// compareAndSet reads due candidates and leases those whose fence is unchanged.
func (c *checkout) compareAndSet(ctx context.Context) ([]dialect.Row, error) {
	return c.takeCandidates(ctx, "ready", c.args(0), c.reads(ctx), nil)
}

// takeCandidates reads candidates by query, and leases those whose fence is unchanged by run; see takeSeen.
func (c *checkout) takeCandidates(
	ctx context.Context, name string, args dialect.Args, query search.Query, run runFunc,
) ([]dialect.Row, error) {
	limit, candidates := c.budget.Rows, search.Candidates{}
	for range search.Rounds {
		args["limit"] = candidates.Read(limit)
		seen, err := query(c.s.Private("see "+name).SQL, args)
		if err != nil || len(seen) == 0 {
			return nil, err
		}
		seen = c.budget.Fit(candidates.Choose(seen, limit))
		rows, err := c.takeSeen(ctx, name, seen, run)
		if err != nil || len(rows) > 0 || !candidates.Leased(seen, rows) {
			return rows, err
		}
	}
	return nil, nil
}

// given takes the tasks that the request names.
func (c *checkout) given(ctx context.Context) ([]dialect.Row, error) {
	return c.takeSeen(ctx, "ready", c.budget.Fit(c.r.Given), nil)
}

// takeSeen takes those of seen whose fence is still the same, on the connection of run. If run is nil, it begins a
// transaction if it needs one.
func (c *checkout) takeSeen(
	ctx context.Context, name string, seen []dialect.Row, run runFunc,
) (rows []dialect.Row, err error) {
	args := c.args(c.budget.Rows)
	maps.Copy(args, kit.Keys(seen))
	take := c.s.Private("take " + name)
	switch {
	case run != nil:
	case name == "expired", len(seen) > take.Max: // a takeover may add notices; or more than one statement
		run = c.s.Tx
	default:
		run = c.s.Do
	}
	err = run(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		if rows, err = c.took(c.s.QueryBatch(ctx, conn, take, args, len(seen))); err == nil {
			err = c.s.EnqueueNotices(ctx, conn, rows)
		}
		return err
	})
	if err != nil {
		return nil, err // if only the commit failed, it may have leased tasks
	}
	return rows, nil
}
