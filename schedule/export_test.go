package schedule

import "context"

// FireDue fires what is due once, as Run does again and again.
func (s *Schedules) FireDue(ctx context.Context) error {
	_, err := s.fireDue(ctx)
	return err
}
