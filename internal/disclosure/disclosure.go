// Package disclosure decides which parts of a database a caller of the HTTP API and the console sees, so that neither
// shows a part that the other hides. What a caller may do is decided by auth.Principal.May.
package disclosure

import (
	"errors"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/redaction"
	"github.com/dbq-go/dbq/workflow"
)

// Caller is a caller as it reads a database.
type Caller struct {
	auth.Principal
	Database string
	Redact   redaction.Redactor
}

// Reads reports whether the caller may read a queue. An empty one stands for all queues.
func (c Caller) Reads(queue string) bool { return c.May(auth.Read, c.Database, queue) }

// Task hides the parts of a task that the caller may not see. The caller may read the queue. It reports whether a rule
// of the server has hidden a value.
func (c Caller) Task(t *dbq.Task) (redacted bool) {
	if !c.Payloads {
		t.Payload, t.Headers, t.Result, t.Progress = nil, nil, nil, nil
		return false
	}
	return c.Redact.Task(t)
}

// Attempts returns the attempts that the caller may see, and hides the parts of their errors that it may not see.
// Attempts outlast their task: its id may have been used in another queue before.
func (c Caller) Attempts(all []dbq.Attempt) (out []dbq.Attempt) {
	for _, a := range all {
		if !c.Reads(a.Queue) {
			continue
		}
		if a.Error = c.Redact.Error(a.Queue, a.Error); !c.Payloads {
			a.Error = ""
		}
		out = append(out, a)
	}
	return out
}

// Audit returns the entries that the caller may see. One of no queue is about all of them.
func (c Caller) Audit(all []admin.AuditEntry) (out []admin.AuditEntry) {
	for _, e := range all {
		if c.May(auth.Administer, c.Database, e.Queue) {
			out = append(out, e)
		}
	}
	return out
}

// ErrPart is returned for a workflow of which a caller of some queues cannot see all steps, because there are too many.
var ErrPart = errors.New("the workflow has more steps than were read")

// Workflow returns an error unless the caller may see a workflow that workflow.Get has returned for a limit: all of it
// or nothing. It returns dbq.ErrNotFound if a step is in a queue that the caller may not read, and ErrPart if one of
// those that were not read may be.
func (c Caller) Workflow(w workflow.Info, limit int) error {
	for _, s := range w.Steps {
		if !c.Reads(s.Queue) {
			return dbq.ErrNotFound
		}
	}
	if len(c.Queues) > 0 && w.Cut && len(w.Steps) >= limit {
		return ErrPart
	}
	return nil
}
