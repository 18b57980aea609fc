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

// checkoutGate lets checkoutsAtOnce callers in, each one when the one before has chosen its tasks.
type checkoutGate struct {
	once         sync.Once
	in, choosing chan struct{}
}

// enter returns when the caller is let in, until it calls leave, or when the context ends. The next one may come in
// when the caller has called chosen, or leave.
func (g *checkoutGate) enter(ctx context.Context) (chosen, leave func(), err error) {
	g.once.Do(func() { g.in, g.choosing = make(chan struct{}, checkoutsAtOnce), make(chan struct{}, 1) })
	select {
	case g.in <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	select {
	case g.choosing <- struct{}{}:
	case <-ctx.Done():
		<-g.in
		return nil, nil, ctx.Err()
	}
	chosen = sync.OnceFunc(func() { <-g.choosing })
	return chosen, func() { chosen(); <-g.in }, nil
}
