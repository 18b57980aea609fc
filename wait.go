package dbq

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// The pauses between the looks of Wait.
const (
	firstWait = 5 * time.Millisecond
	maxWait   = 500 * time.Millisecond
)

// Wait returns the task once it has ended: COMPLETED (with its result), POISON, or parked in ERROR. It looks again after pauses
// that grow to half a second, until ctx ends. A task that does not exist, or that is removed before Wait sees its end, as by
// CompleteAndDelete, is ErrNotFound.
func (c *Client) Wait(ctx context.Context, id uuid.UUID) (Task, error) {
	for pause := firstWait; ; pause = min(pause*3/2, maxWait) {
		t, err := c.Get(ctx, id)
		if err == nil && t.Ended() {
			return t, nil
		}
		if err == nil {
			err = sleep(ctx, pause)
		}
		if outer, ok := err.(*Error); ok { // of Get: say what the caller asked for instead
			outer.Op = "wait"
		}
		if err != nil {
			return t, c.wrap("wait", "", id, err)
		}
	}
}
