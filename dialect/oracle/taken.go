package oracle

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/dbq-go/dbq/dialect/kit/search"
)

// takenOver is the was_due of a task whose lease expired: it has no due time to be sorted by.
const takenOver = -1

// errLarge undoes a transaction that took payloads larger than an equal share of what a checkout may bring.
var errLarge = errors.New("oracle: large payloads were taken")

// take leases due tasks by ready, which cannot stop at a large payload. When it meets one, nothing is leased, and then
// the tasks that fit are, by what sees them first.
func (c *checkout) take(ctx context.Context, due []int, ready part, by func(ready part) error) error {
	err := by(ready)
	if errors.Is(err, errLarge) {
		c.sized = true
		err = by(c.seenReady(due, make([]search.Candidates, len(due))))
	}
	return err
}

// taken are the tasks under the checkout's token, in the order in which they are handed out: those whose leases had
// expired by the requested order. Unless their sizes are known to fit it is errLarge when one is larger than an equal
// share, and no such payload is read.
func (c *checkout) taken(ctx context.Context, conn dialect.Conn) ([]dialect.Row, error) {
	whole := kit.NewBudget(c.r)
	share := whole.Share()
	if c.sized {
		share = math.MaxInt64
	}
	rows, err := c.s.Query(ctx, conn, c.s.Private("taken").SQL,
		dialect.Args{"queue": c.r.Queue, "holder": c.r.Holder, "share": share})
	for i := range rows {
		if size := rows[i].PayloadSize; size != nil && *size > share {
			return nil, errLarge
		}
		was := c.before[rows[i].ID]
		rows[i].WasHolder, rows[i].WasTaken = was.WasHolder, was.WasTaken
		rows[i].WasUntil, rows[i].WasAttempt = was.WasUntil, was.WasAttempt
	}
	place := func(r dialect.Row) int { // in the order asked for
		if (r.WasDue == takenOver) == c.expiredFirst() {
			return 0
		}
		return 1
	}
	kit.InOrder(rows)
	slices.SortStableFunc(rows, func(a, b dialect.Row) int { return cmp.Compare(place(a), place(b)) })
	return rows, err
}
