package dbq

import (
	"context"

	"github.com/dbq-go/dbq/dialect"
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
	args, n := extendArgs(ls)
	s := q.c.s
	write := q.c.write
	if n > s.Statements.Start.Max {
		write = q.c.writeTx
	}
	var rows []dialect.Row
	err = write(dialect.WithoutGrace(ctx), func(ctx context.Context, conn dialect.Conn, _ bool) (err error) {
		rows, err = s.QueryBatch(ctx, conn, s.Statements.Start, args, n)
		return err
	})
	if err != nil {
		return nil, nil, q.c.wrap("start", q.name, uuid.Nil, err)
	}
	still := heldBy(rows)
	for _, l := range ls {
		if still[held{l.Task, l.Fence}] {
			marked = append(marked, l)
		} else {
			lost = append(lost, l)
		}
	}
	return marked, lost, nil
}
