package schedule

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// DelayAt is the jitter of the task for a time.
func (d *Schedule) DelayAt(at time.Time) time.Duration { return d.taskFor(at).Delay - d.Task.Delay }

// Runs are the tasks of RunNow that a schedule's record has.
func (s *Schedules) Runs(ctx context.Context, name string) ([]uuid.UUID, error) {
	_, v, err := s.read(ctx, name)
	return v.Runs, err
}
