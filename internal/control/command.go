package control

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dbq-go/dbq/internal/errs"
)

// The commands; see dbq.Command.
const (
	CommandPause  = "pause"
	CommandResume = "resume"
	CommandStop   = "stop"
)

// commandTTL is how long a command waits for its worker.
const commandTTL = 10 * time.Minute

// commandTaken replaces a command that its worker has read.
const commandTaken = "taken"

// SendCommand sends a worker a command, which its next report returns, and wakes it for that. A dead worker is
// ErrNotFound. A command that is not taken within 10 minutes expires; a later one replaces it.
func (c *Control) SendCommand(ctx context.Context, id, command string) error {
	return c.wrap("command", "", c.sendCommand(ctx, id, command))
}

func (c *Control) sendCommand(ctx context.Context, id, command string) error {
	if command != CommandPause && command != CommandResume && command != CommandStop {
		return fmt.Errorf("%w: command %q; use %s, %s or %s",
			errs.ErrOption, command, CommandPause, CommandResume, CommandStop)
	}
	r, exists, err := c.store.GetKV(ctx, namespaceWorker, id)
	switch {
	case err != nil:
		return err
	case !exists || dead(r):
		return fmt.Errorf("%w: no worker %q is alive", errs.ErrNotFound, id)
	}
	var w Worker
	readable := json.Unmarshal([]byte(r.Value), &w) == nil
	if w.Remote {
		return fmt.Errorf("%w: worker %q works over HTTP and takes no commands; pause its queue", errs.ErrOption, id)
	}
	if err := c.store.PutKV(ctx, namespaceCommand, id, command, commandTTL); err != nil {
		return err
	}
	if readable { // otherwise the next regular report finds the command
		c.Waker.WakeControl(w.Queue)
	}
	return nil
}

// takeCommand returns the command that waits for a worker, once.
func (c *Control) takeCommand(ctx context.Context, id string) (string, error) {
	r, exists, err := c.store.GetKV(ctx, namespaceCommand, id)
	if err != nil || !exists || r.Expired() || r.Value == commandTaken {
		return "", err
	}
	// Deleting it could delete a later command that was sent in between.
	taken, err := c.store.SwapKV(ctx, r, true, namespaceCommand, id, commandTaken, commandTTL)
	if err != nil || !taken {
		return "", err
	}
	return r.Value, nil
}
