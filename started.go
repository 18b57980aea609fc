package dbq

import (
	"context"

	"github.com/google/uuid"
)

// MarkStarted notes that up to MaxBulk attempts are about to begin, in one statement where the engine allows. It returns
// the leases that were marked and those that are lost, each in the order given. It is for tasks checked out from a queue
// ForWorker: without it, an attempt whose lease runs out does not count (Task.Lapses). Tasks checked out otherwise count
// without it. Like ExtendMany it is cut off when ctx ends: repeating it does no harm.
func (q *Queue) MarkStarted(ctx context.Context, ls []Lease) (marked, lost []Lease, err error) {
	if err := q.checkExtend(ls, MinLease); err != nil || len(ls) == 0 {
		return nil, nil, q.c.wrap("start", q.name, uuid.Nil, err)
	}
	marked, lost, err = q.byLeases(ctx, q.c.s.Statements.Start, nil, ls, func() {})
	return marked, lost, q.c.wrap("start", q.name, uuid.Nil, err)
}
