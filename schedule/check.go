package schedule

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/bounds"
)

// FieldError is the error for one field of a Schedule. It matches the same errors as its cause: ErrDefinition, or an
// error of package dbq such as dbq.ErrKind.
type FieldError struct {
	Field string // the first field to change, such as "Cron" or "Task.Kind"
	Err   error
}

// Error returns the text of the cause.
func (e *FieldError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *FieldError) Unwrap() error { return e.Err }

// invalid returns an error as one for a field, or nil if there is none.
func invalid(field string, err error) error {
	if err == nil {
		return nil
	}
	return &FieldError{field, err}
}

// Check returns the error with which Put would refuse the Schedule: a FieldError for its first invalid field, or nil.
// It does not check the size, and not whether At has passed.
func (d Schedule) Check() error {
	if d.err != nil {
		return invalid("Task", d.err)
	}
	if err := bounds.Text(d.Name, 1, MaxName, ErrDefinition, "name"); err != nil {
		return invalid("Name", err)
	}
	if err := bounds.QueueName(d.Queue); err != nil {
		return invalid("Queue", err)
	}
	refuse := func(field, text string, args ...any) error {
		return invalid(field, fmt.Errorf("%w: "+text, append([]any{ErrDefinition}, args...)...))
	}
	switch t := d.Task; {
	case t.ID != dbq.NewTask{}.ID || t.Reference != "" || !t.RunAt.IsZero():
		return refuse("Task", "leave Task.ID, Reference and RunAt empty; each time sets them")
	case t.Unique != nil:
		return refuse("Task", "leave Task.Unique nil; NoOverlap is for tasks that take long")
	case t.Priority < 0 || t.Priority > bounds.MaxPriority:
		return refuse("Task.Priority", "%w: %d, use 0 to %d", dbq.ErrPriority, t.Priority, bounds.MaxPriority)
	case t.MaxAttempts < 0 || t.MaxAttempts > bounds.MaxMaxAttempts:
		return refuse("Task.MaxAttempts", "%w: %d, use 0 to %d", dbq.ErrMaxAttempts, t.MaxAttempts, bounds.MaxMaxAttempts)
	case d.CatchUp < SkipMissed || d.CatchUp > MaxCatchUp:
		return refuse("CatchUp", "CatchUp is %d, use SkipMissed or 0 to %d", d.CatchUp, MaxCatchUp)
	case d.Jitter < 0 || d.Jitter > MaxJitter:
		return refuse("Jitter", "Jitter is %s, use 0 to %s", d.Jitter, MaxJitter)
	}
	if err := bounds.Text(d.Task.Kind, 0, bounds.MaxKind, dbq.ErrKind, "kind"); err != nil {
		return invalid("Task.Kind", err)
	}
	if err := bounds.Text(d.Task.Key, 0, bounds.MaxKey, dbq.ErrKey, "key"); err != nil {
		return invalid("Task.Key", err)
	}
	if err := bounds.Delay(d.Task.Delay); err != nil {
		return invalid("Task.Delay", err)
	}
	for k, v := range d.Task.Headers {
		if !utf8.ValidString(k + v) {
			return invalid("Task.Headers", fmt.Errorf("%w: the header %q is not valid UTF-8", dbq.ErrHeaders, k))
		}
	}
	_, err := d.clock(time.Now())
	return err
}
