package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
)

// A user's trigger or constraint may refuse a settlement, and fails the statement that it came in, with all others. No repetition would
// cure that, so the batch is halved until the refused ones are alone.

// refuses reports whether an error of a call is about what was asked for, not about the database's condition: it would come again.
func refuses(err error) bool {
	var e *dbq.Error
	if !errors.As(err, &e) || errors.Is(err, dbq.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return false
	}
	switch e.Class {
	case dialect.Conflict, dialect.Unavailable, dialect.Ambiguous, dialect.Missing, dialect.Denied:
		return false
	}
	return true
}

// isolate settles a batch that was refused, half by half, and one that was refused alone in another way. It returns what it could not
// settle, and why.
func (s *settler) isolate(batch []settlement, err error) ([]settlement, error) {
	if len(batch) == 1 {
		next, ok := batch[0].instead(err)
		if !ok {
			return batch, err
		}
		task := batch[0].job.task
		s.r.log.each(lineRefused, aboutTask(&task, "event", string(batch[0].s.Event()),
			"instead", string(next.s.Event()), "error", errorText(err))...)
		return s.flush([]settlement{next})
	}
	gone, err := s.flush(batch[:len(batch)/2])
	more, why := s.flush(batch[len(batch)/2:])
	if len(more) > 0 {
		err = why
	}
	return append(gone, more...), err
}

// instead is how an attempt ends whose settlement the database refused: POISON with the database's message, and parked with it if that is
// refused, too.
func (st settlement) instead(err error) (next settlement, ok bool) {
	var before *refusedError
	if !errors.As(st.err, &before) {
		err = &refusedError{event: string(st.s.Event()), err: err, handler: st.err}
		return settlement{st.job, dbq.Poisoned(st.s.Lease, err), err}, true
	}
	if before.parked {
		return st, false
	}
	parked := *before
	parked.parked = true
	return settlement{st.job, dbq.Failed(st.s.Lease, dbq.Park, &parked), &parked}, true
}

// refusedError is the error of an attempt whose settlement the database refused.
type refusedError struct {
	event   string
	err     error // the database's
	handler error // what the handler returned
	parked  bool  // POISON was refused, too
}

func (r *refusedError) Error() string {
	text := fmt.Sprintf("worker: the database refused to settle the task (%s): %v", r.event, r.err)
	if r.handler != nil {
		text += fmt.Sprintf("; the handler returned: %v", r.handler)
	}
	return text
}

func (r *refusedError) Unwrap() []error { return []error{r.err, r.handler} }
