// Package sqlite is dbq's dialect for SQLite 3.42 and later, through modernc.org/sqlite (pure Go). Import it for its
// side effect:
//
//	import _ "github.com/dbq-go/dbq/dialect/sqlite"
//
// SQLite has one writer at a time. Every change begins with BEGIN IMMEDIATE or is one statement, so that two processes
// take turns instead of failing; one writing connection and several readers are faster than several writers.
package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/dbq-go/dbq/dialect/kit/batch"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

func init() {
	dialect.Register(dialect.Driver{Schemes: []string{"sqlite"}, Dialect: Dialect{}, Open: Open, File: true})
}

// Dialect is the dialect of SQLite.
type Dialect struct{}

// Name is "sqlite".
func (Dialect) Name() string { return "sqlite" }

// maxPayload is well under SQLite's default limit of 1 GB for a row, and more than a queue should carry.
const maxPayload = 100 << 20

// Probe queries the library's version.
func (Dialect) Probe(ctx context.Context, db *sql.DB) (dialect.Server, error) {
	var reported string
	if err := db.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&reported); err != nil {
		return dialect.Server{}, err
	}
	// STRICT needs 3.37, unixepoch('subsec') 3.42.
	if !kit.AtLeast(reported, 3, 42) {
		return dialect.Server{}, fmt.Errorf("%w: SQLite %s is too old, dbq needs 3.42", dialect.ErrServer, reported)
	}
	return dialect.Server{
		Product: "SQLite", Version: reported, MaxPayload: maxPayload, Precision: time.Millisecond, NoSchemas: true,
		OneWriter:  true,
		Strategies: []dialect.Strategy{dialect.CAS},
	}, nil
}

// BindValue stores ids as 16 bytes; SQLite has no type of their own for them.
func (Dialect) BindValue(v any) any {
	if id, ok := v.(uuid.UUID); ok {
		return id[:]
	}
	return v
}

// Checkout leases expired and due tasks in one transaction. With a single writer, no other change can come in
// between; the update still checks its own conditions.
func (Dialect) Checkout(
	ctx context.Context, s *dialect.Session, r dialect.CheckoutRequest,
) (dialect.CheckoutResult, error) {
	if r.Strategy != dialect.CAS {
		return dialect.CheckoutResult{}, fmt.Errorf("sqlite: no strategy %q", r.Strategy)
	}
	if r.Search == dialect.DueFirst || r.Search == dialect.ExpiredFirst {
		idle, err := nothingDue(ctx, s, r)
		if idle || err != nil {
			return dialect.CheckoutResult{}, err
		}
	}
	var budget kit.Budget
	err := s.Tx(ctx, func(ctx context.Context, c dialect.Conn) (err error) {
		budget = kit.NewBudget(r)
		args := dialect.Args{"queue": r.Queue, "lease": r.Lease.Microseconds(), "holder": r.Holder,
			"known_started": r.KnownStarted}
		add := func(take taker) {
			if args["limit"], args["share"] = budget.Rows, budget.Share(); err == nil && !budget.Full() {
				err = take(ctx, s, c, args, &budget)
			}
		}
		switch {
		case r.Given != nil:
			args["given"] = r.Given
			add(takeGiven)
		case r.Search == dialect.OnlyDue:
			add(takeReady)
		case r.Search == dialect.OnlyExpired:
			add(takeExpired)
		case r.Search == dialect.ExpiredFirst:
			add(takeExpired)
			add(takeReady)
		default:
			add(takeReady)
			if len(budget.Result().Rows) == 0 {
				add(takeExpired)
			}
		}
		return err
	})
	if err != nil {
		return dialect.CheckoutResult{}, err // whether the transaction leased tasks is unknown
	}
	return budget.Result(), nil
}

// A taker leases tasks within a budget.
type taker func(
	ctx context.Context, s *dialect.Session, c dialect.Conn, args dialect.Args, b *kit.Budget,
) error

func takeExpired(
	ctx context.Context, s *dialect.Session, c dialect.Conn, args dialect.Args, b *kit.Budget,
) error {
	seen, err := s.Query(ctx, c, s.Private("expired").SQL, args)
	if seen = b.Fit(seen); err != nil || len(seen) == 0 {
		return err
	}
	maps.Copy(args, kit.Keys(seen))
	rows, err := s.QueryBatch(ctx, c, s.Private("take over"), args, len(seen))
	if err != nil {
		return err
	}
	return b.TakeOver(ctx, s, c, seen, rows)
}

// takeGiven leases the due tasks that the request names.
func takeGiven(
	ctx context.Context, s *dialect.Session, c dialect.Conn, args dialect.Args, b *kit.Budget,
) error {
	given := b.Fit(args["given"].([]dialect.Row))
	maps.Copy(args, kit.Keys(given))
	rows, err := s.QueryBatch(ctx, c, s.Private("given"), args, len(given))
	if err != nil {
		return err
	}
	return take(ctx, s, c, args, b, rows, func(rows []dialect.Row) (int64, error) {
		maps.Copy(args, kit.Keys(rows))
		return s.ExecBatch(ctx, c, s.Private("take given"), args, len(rows))
	})
}

// takeReady leases the first due tasks.
func takeReady(
	ctx context.Context, s *dialect.Session, c dialect.Conn, args dialect.Args, b *kit.Budget,
) error {
	rows, err := s.Query(ctx, c, s.Private("ready").SQL, args)
	if err != nil {
		return err
	}
	return take(ctx, s, c, args, b, rows, func(rows []dialect.Row) (taken int64, err error) {
		for i, r := range rows {
			if i+1 < len(rows) && rows[i+1].Priority == r.Priority {
				continue
			}
			args["priority"], args["was_due"], args["id"] = r.Priority, r.WasDue, r.ID
			n, err := s.Exec(ctx, c, s.Private("take").SQL, args)
			if err != nil {
				return taken, err
			}
			taken += n
		}
		return taken, nil
	})
}

// take leases rows that were read as update will leave them. Those that do not fit into the budget stay.
func take(
	ctx context.Context, s *dialect.Session, c dialect.Conn, args dialect.Args, b *kit.Budget, rows []dialect.Row,
	update func(rows []dialect.Row) (taken int64, err error),
) error {
	kit.InOrder(rows) // a join has no guaranteed order
	rows = b.Fit(rows)
	if len(rows) == 0 {
		return nil
	}
	if err := batch.FillPayloads(ctx, s, c, s.Private("payloads"), rows); err != nil {
		return err
	}
	now, holder := int64(0), args["holder"].(string)
	for _, r := range rows { // several statements may have read them
		now = max(now, r.Now)
	}
	until := now + args["lease"].(int64)
	for i := range rows {
		r := &rows[i]
		r.Queue, r.State, r.Holder, r.LeaseUntil, r.Updated = args["queue"].(string), state.Processing, &holder, &until, now
	}
	args["now"] = now
	taken, err := update(rows)
	if err != nil {
		return err
	}
	if taken != int64(len(rows)) {
		return fmt.Errorf("sqlite: took %d rows of the %d that were ready", taken, len(rows))
	}
	b.Add(rows)
	return nil
}

// nothingDue checks without the writer's lock, so that idle workers do not delay writers.
func nothingDue(ctx context.Context, s *dialect.Session, r dialect.CheckoutRequest) (bool, error) {
	rows, err := s.Read(ctx, s.Private("any").SQL, dialect.Args{"queue": r.Queue})
	return len(rows) == 0, err
}
