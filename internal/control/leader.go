package control

import (
	"context"
	"fmt"
	"time"

	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/limits"
)

// TryLead acquires or renews leadership of a role for member, and reports whether it leads. A role has one leader at
// a time. Leadership ends ttl after the leader last acquired or renewed it, by the database's clock. If a leader is
// delayed for longer than ttl, it can briefly overlap with its successor, so the role's work must tolerate that. All
// members of a role use the same ttl: one does not believe in an end that is later than its own would be.
func (c *Control) TryLead(ctx context.Context, role, member string, ttl time.Duration) (bool, error) {
	leads, err := c.tryLead(ctx, role, member, ttl)
	return leads, c.wrap("lead", "", err)
}

func (c *Control) tryLead(ctx context.Context, role, member string, ttl time.Duration) (bool, error) {
	if err := limits.Text(role, 1, limits.MaxReference, errs.ErrOption, "role"); err != nil {
		return false, err
	}
	if err := limits.Text(member, 1, limits.MaxReference, errs.ErrOption, "member"); err != nil {
		return false, err
	}
	if ttl < time.Millisecond {
		return false, fmt.Errorf("%w: leadership for %v", errs.ErrOption, ttl)
	}
	r, exists, err := c.store.GetKV(ctx, namespaceLeader, role)
	// An end more than ttl ahead was set when the database's clock was ahead: it is not believed.
	led := exists && !r.Expired() && r.Expires != nil && *r.Expires <= r.Now+ttl.Microseconds()
	if err != nil || led && r.Value != member {
		return false, err
	}
	return c.store.SwapKV(ctx, r, exists, namespaceLeader, role, member, ttl)
}
