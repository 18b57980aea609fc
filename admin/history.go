package admin

import (
	"context"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/google/uuid"
)

// Attempts returns the ended attempts of a task, also of a task in the archive, in order: at most the first 1000, and
// the last one. dbq.History selects the attempts that are recorded. If there are none, Attempts returns no error.
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
