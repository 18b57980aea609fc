package schedule

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// FireDue fires what is due once, as Run does again and again.
func (s *Schedules) FireDue(ctx context.Context) error {
	_, err := s.fireDue(ctx)
	return err
}

// DelayAt is the jitter of the task for a time.
func (d *Schedule) DelayAt(at time.Time) time.Duration { return d.taskFor(at).Delay - d.Task.Delay }

// Runs are the tasks of RunNow that a schedule's record has.
func (s *Schedules) Runs(ctx context.Context, name string) ([]uuid.UUID, error) {
	_, v, err := s.read(ctx, name)
	return v.Runs, err
}
