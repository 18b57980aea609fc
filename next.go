package dbq

import (
	"context"
	"math"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// Next tells how long it is until a task of the queue may be taken, by the database's clock: 0 when one is due or a lease has run out.
// Without any task that is due some time, ok is false. It is one cheap question without locks, for a worker that has nothing to do. A
// task that is due may still be out of reach for a moment, as when another worker is taking it.
func (q *Queue) Next(ctx context.Context) (wait time.Duration, ok bool, err error) {
	if err := checkQueueName(q.name); err != nil {
		return 0, false, q.c.wrap("next", q.name, uuid.Nil, err)
	}
	var rows []dialect.Row
	err = q.c.read(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		if d, ok := q.c.s.Dialect.(dialect.Nexter); ok {
			rows, err = d.Next(ctx, q.c.s, conn, q.name)
		} else {
			rows, err = q.c.s.Query(ctx, conn, q.c.s.Statements.Next, dialect.Args{"queue": q.name})
		}
		return err
	})
	if err != nil || len(rows) == 0 || rows[0].Due == nil {
		return 0, false, q.c.wrap("next", q.name, uuid.Nil, err)
	}
	// The bells of this process are rung then, so that one question will do for all of its workers.
	us := min(max(*rows[0].Due-rows[0].Now, 0), math.MaxInt64/int64(time.Microsecond)) // a Duration holds 292 years
	wait = time.Duration(us) * time.Microsecond
	if wait > 0 {
		q.c.place.expect(q.name, wait+q.c.s.Server.Precision)
	}
	return wait, true, nil
}
