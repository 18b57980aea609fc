package control

import (
	"context"
	"fmt"
	"time"

	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/store"
)

// TryLead acquires or renews leadership of a duty for member, and reports whether it leads. A duty has one leader at a
// time. Leadership ends ttl after the leader last acquired or renewed it, by the database's clock. If a leader is
// delayed for longer than ttl, it can briefly overlap with its successor, so the duty's work must tolerate that. All
// members of a duty must use the same ttl. A term that ends more than store.ClockSkew after the caller's own would is
// treated as expired.
func (c *Control) TryLead(ctx context.Context, duty, member string, ttl time.Duration) (bool, error) {
	leads, err := c.tryLead(ctx, duty, member, ttl)
	return leads, c.wrap("lead", "", err)
}

func (c *Control) tryLead(ctx context.Context, duty, member string, ttl time.Duration) (bool, error) {
	if err := bounds.Text(duty, 1, bounds.MaxReference, errs.ErrOption, "duty"); err != nil {
		return false, err
	}
	if err := bounds.Text(member, 1, bounds.MaxReference, errs.ErrOption, "member"); err != nil {
		return false, err
	}
	if ttl < time.Millisecond {
		return false, fmt.Errorf("%w: leadership for %v", errs.ErrOption, ttl)
	}
	r, exists, err := c.store.GetKV(ctx, namespaceLeader, duty)
	// A later end was set when the database's clock was ahead, so the term counts as expired.
	led := exists && !r.Expired() && r.Expires != nil && *r.Expires <= r.Now+(ttl+store.ClockSkew).Microseconds()
	if err != nil || led && r.Value != member {
		return false, err
	}
	leads, err := c.store.SwapKV(ctx, r, exists, namespaceLeader, duty, member, ttl)
	if leads {
		c.led.Store([2]string{member, duty}, nil)
	}
	return leads, err
}

// Resign ends the terms of a member that has led through this Control, so that successors need not wait for their ends.
func (c *Control) Resign(ctx context.Context, member string) (err error) {
	c.led.Range(func(key, _ any) bool {
		duty := key.([2]string)[1]
		if key.([2]string)[0] != member {
			return true
		}
		var r store.Record
		if r, _, err = c.store.GetKV(ctx, namespaceLeader, duty); err == nil && r.Value == member && !r.Expired() {
			// A record without an end is no member's term. This changes nothing if a successor leads in the meantime.
			_, err = c.store.SwapKV(ctx, r, true, namespaceLeader, duty, member, 0)
		}
		c.led.Delete(key)
		return err == nil
	})
	return c.wrap("resign", "", err)
}
