package console

import (
	"context"

	"github.com/dbq-go/dbq/admin"
)

// The overview counts tasks of each state up to countAll in all queues, which it divides by the number of queues, but
// at most countTo and at least countLeast of each queue.
const (
	countAll   = 100_000
	countLeast = 100
)

// stats counts the tasks of each queue. Its cost does not grow with the number of queues as long as countLeast allows.
func (d *database) stats(ctx context.Context) ([]admin.QueueStats, error) {
	queues := len(d.overview.last().Queues)
	if queues == 0 { // it is the first reading
		found, err := d.admin.Stats(ctx, admin.CountUpTo(1))
		if err != nil {
			return nil, err
		}
		queues = len(found)
	}
	return d.admin.Stats(ctx, admin.CountUpTo(max(min(countAll/max(queues, 1), countTo), countLeast)))
}
