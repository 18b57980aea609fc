package admin

import (
	"context"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/google/uuid"
)

// Attempts reads the attempts of a task that have ended, in order: at most the first 1000 that the history has, and the
// last one, which the task's row has, also in the archive. A task without any has none, which is not an error;
// dbq.History says what is recorded of the others.
func (a *Admin) Attempts(ctx context.Context, task uuid.UUID) ([]dbq.Attempt, error) {
	as, err := a.store.Attempts(ctx, task)
	if err != nil {
		return nil, a.core.Wrap("attempts", "", task, err)
	}
	out := make([]dbq.Attempt, len(as))
	for i, r := range as {
		out[i] = access.Attempt(r)
	}
	return out, nil
}
