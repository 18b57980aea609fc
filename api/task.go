package api

import (
	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/wire"
)

// view returns a task as a caller that reads it may see it.
func (d *database) view(t dbq.Task, p auth.Principal) wire.Task {
	redacted := d.seenBy(p).Task(&t)
	if !p.Payloads {
		t.Payload, t.Result, t.Progress, t.Headers = nil, nil, nil, nil
	}
	out := wire.TaskOf(t)
	out.Hidden, out.Redacted = !p.Payloads, redacted
	return out
}
