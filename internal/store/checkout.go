package store

import (
	"context"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

// CheckoutParams are the validated parameters of a checkout.
type CheckoutParams struct {
	Queue string
	Max   int           // tasks at most
	Lease time.Duration // from the database's now
	// Token returns the holder of the leases of one try. Each try has its own, so that its tasks can be found if the
	// answer is lost.
	Token func() string
	// StartsAtOnce reports that the caller starts each task at once. An attempt whose lease expires then counts.
	StartsAtOnce bool
}

// CheckoutResult is the outcome of a checkout.
type CheckoutResult struct {
	Rows  []dialect.Row // the leased tasks, and those moved to POISON
	Until time.Time     // this process's own estimate of the leases' end, never later than the database's
	More  bool          // due tasks may have been left because of the payloads' size, or were not looked for
	Wait  time.Duration // until a rate of the queue allows the next start; 0 if none keeps tasks waiting
	Added Notices       // of those that it moved to POISON
}

// Checkout leases due tasks of a queue, and moves those to POISON whose attempts are exhausted. If the answer is lost,
// it searches for its tasks for a few hundred milliseconds, and returns ErrMayHaveHappened if it finds none.
func (s *Store) Checkout(ctx context.Context, r CheckoutParams) (out CheckoutResult, err error) {
	var try dialect.CheckoutRequest // the last one
	var leased dialect.CheckoutResult
	limit := s.checkoutLimits.of(r.Queue, r.Max)
	err = s.once(ctx, func() (bool, error) {
		try = dialect.CheckoutRequest{
			Strategy: s.Strategy, Queue: r.Queue, Limit: limit, Bytes: int64(s.MaxCheckoutBytes), Lease: r.Lease,
			Holder: r.Token(),
		}
		if s.expiredSearches.due(r.Queue, time.Now()) {
			try.Search = dialect.ExpiredFirst
		}
		if r.StartsAtOnce {
			try.KnownStarted = 1
		}
		out.Until = time.Now().Add(r.Lease - s.sql.Server.Precision) // read before the call: never later than the database's
		one, err := s.checkout(ctx, try)
		leased, out.Rows, out.Wait, out.More = one.leased, one.leased.Rows, one.wait, one.more
		if try.Search == dialect.ExpiredFirst && allTakenOver(leased, limit) {
			s.expiredSearches.again(r.Queue)
		}
		return false, err
	}, func() bool { // another try would lease more tasks, while this one may still hold some
		out.Rows = s.findCheckout(ctx, r.Queue, try.Holder, out.Rows)
		return len(out.Rows) > 0
	})
	if err != nil {
		return CheckoutResult{}, err
	}
	if slices.ContainsFunc(out.Rows, wasTakenOver) {
		s.expireRenewalsAfterTakeover(ctx, r.Lease)
	}
	out.Added = s.noticesOf(ctx, r.Queue, out.Rows, r.Lease)
	out.More = s.checkoutLimits.learn(r.Queue, r.Max, limit, len(out.Rows), leased.More) || out.More
	return out, nil
}

// allTakenOver reports whether a checkout of n found n leases that had expired, or as many as fitted.
func allTakenOver(leased dialect.CheckoutResult, n int) bool {
	found := 0
	for _, row := range leased.Rows {
		if wasTakenOver(row) {
			found++
		}
	}
	return found >= n || found == len(leased.Rows) && found > 0 && leased.More
}

func wasTakenOver(r dialect.Row) bool { return r.WasHolder != nil }

// findCheckout returns the tasks that a checkout may have leased or moved to POISON. A checkout has one or more
// commits. The rows of earlier commits are known; only further rows prove that the lost commit happened. Without them
// it returns nil, and the outcome is unknown.
func (s *Store) findCheckout(ctx context.Context, queue, token string, known []dialect.Row) []dialect.Row {
	ctx, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	for _, pause := range searchPauses {
		if Sleep(ctx, pause) != nil {
			break
		}
		if more := s.searchCheckout(ctx, queue, token, known); len(more) > 0 {
			if all := s.searchCheckout(ctx, queue, token, known); len(all) > len(more) {
				more = all // it was committed between the two queries of the first search
			}
			return append(known, more...)
		}
	}
	if len(known) > 0 {
		s.Logger.Warn(
			"dbq: lost the answer to part of a checkout; more tasks may be leased until their leases expire",
			"queue", queue, "tasks", len(known))
	}
	return known
}

// searchCheckout searches once, and returns the rows that are not in known.
func (s *Store) searchCheckout(ctx context.Context, queue, token string, known []dialect.Row) (more []dialect.Row) {
	for _, text := range []string{s.sql.Texts.Held, s.sql.Texts.Exhausted} {
		if text == "" {
			continue
		}
		rows, err := s.sql.Read(ctx, text, dialect.Args{"queue": queue, "holder": token})
		if err != nil {
			s.Logger.Debug("dbq: cannot search for the tasks of a lost checkout", "queue", queue, "error", s.Scrub(err))
		}
		more = append(more, rows...)
	}
	seen := setOf(known)
	return slices.DeleteFunc(more, func(r dialect.Row) bool { return seen[r.ID] })
}
