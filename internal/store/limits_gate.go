package store

import (
	"context"
	"sync"
)

// checkoutsAtOnce is how many checkouts within the limits of a queue one client begins at once: one that has the lock,
// and one that the database lets in as soon as the first one commits. More would only wait there, each with a
// connection. On PostgreSQL each would also keep index entries of ended tasks from being removed, which the one with
// the lock has to pass: with four loops, a drain by keys was slower than with two.
const checkoutsAtOnce = 2

// checkoutGate lets checkoutsAtOnce callers in.
type checkoutGate struct {
	once sync.Once
	in   chan struct{}
}

// enter returns when the caller is let in, until it calls leave, or when the context ends.
func (g *checkoutGate) enter(ctx context.Context) (leave func(), err error) {
	g.once.Do(func() { g.in = make(chan struct{}, checkoutsAtOnce) })
	select {
	case g.in <- struct{}{}:
		return func() { <-g.in }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
