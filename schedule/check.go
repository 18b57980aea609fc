package schedule

import (
	"errors"
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
	if all := d.Invalid(); len(all) > 0 {
		return all[0]
	}
	return nil
}

// Invalid returns the errors of Check for all invalid fields, for forms that show each beside its field. Of Cron,
// Every and At it returns one.
func (d Schedule) Invalid() (all []*FieldError) {
	if d.err != nil {
		return []*FieldError{{"Task", d.err}}
	}
	add := func(field string, err error) {
		if err != nil {
			all = append(all, &FieldError{field, err})
		}
	}
	refuse := func(field string, is bool, text string, args ...any) {
		if is {
			add(field, fmt.Errorf("%w: "+text, append([]any{ErrDefinition}, args...)...))
		}
	}
	t := d.Task
	add("Name", bounds.Text(d.Name, 1, MaxName, ErrDefinition, "name"))
	add("Queue", bounds.QueueName(d.Queue))
	refuse("Task", t.ID != dbq.NewTask{}.ID || t.Reference != "" || !t.RunAt.IsZero(),
		"leave Task.ID, Reference and RunAt empty; each time sets them")
	refuse("Task", t.Unique != nil, "leave Task.Unique nil; NoOverlap is for tasks that take long")
	refuse("Task.Priority", t.Priority < 0 || t.Priority > bounds.MaxPriority,
		"%w: %d, use 0 to %d", dbq.ErrPriority, t.Priority, bounds.MaxPriority)
	refuse("Task.MaxAttempts", t.MaxAttempts < 0 || t.MaxAttempts > bounds.MaxMaxAttempts,
		"%w: %d, use 0 to %d", dbq.ErrMaxAttempts, t.MaxAttempts, bounds.MaxMaxAttempts)
	refuse("CatchUp", d.CatchUp < SkipMissed || d.CatchUp > MaxCatchUp,
		"CatchUp is %d, use SkipMissed or 0 to %d", d.CatchUp, MaxCatchUp)
	refuse("Jitter", d.Jitter < 0 || d.Jitter > MaxJitter, "Jitter is %s, use 0 to %s", d.Jitter, MaxJitter)
	add("Task.Kind", bounds.Text(t.Kind, 0, bounds.MaxKind, dbq.ErrKind, "kind"))
	add("Task.Key", bounds.Text(t.Key, 0, bounds.MaxKey, dbq.ErrKey, "key"))
	add("Task.Delay", bounds.Delay(t.Delay))
	for k, v := range t.Headers {
		if !utf8.ValidString(k + v) {
			add("Task.Headers", fmt.Errorf("%w: the header %q is not valid UTF-8", dbq.ErrHeaders, k))
			break
		}
	}
	for range 2 { // an invalid zone hides whether Cron is valid
		var when *FieldError
		if _, err := d.clock(time.Now()); errors.As(err, &when) {
			all = append(all, when)
		}
		if when == nil || when.Field != "Zone" {
			break
		}
		d.Zone = ""
	}
	return all
}
