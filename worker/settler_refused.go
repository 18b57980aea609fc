package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
)

// refuses reports whether an error is about the settlements of a call and not about the state of the database, so
// retrying would not help. A user's trigger or constraint can refuse a settlement, which fails the whole statement.
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

// isolate halves a refused batch until the refused settlements are alone, and settles those in another way. It
// returns the settlements that failed, and the reason.
func (s *settler) isolate(batch []settlement, err error) ([]settlement, error) {
	if len(batch) == 1 {
		next, ok := batch[0].instead(err)
		if !ok {
			return batch, err
		}
		s.log.each(lineRefused, aboutTask(&next.leased.task, "event", string(batch[0].how.Event()),
			"instead", string(next.how.Event()), "error", errorText(err))...)
		return s.flush([]settlement{next})
	}
	gone, err := s.flush(batch[:len(batch)/2])
	more, why := s.flush(batch[len(batch)/2:])
	if len(more) > 0 {
		err = why
	}
	return append(gone, more...), err
}

// instead returns the settlement that replaces a refused one: POISON with the database's message or, if that was
// refused too, parked with the message.
func (st settlement) instead(err error) (next settlement, ok bool) {
	var before *refusedError
	if !errors.As(st.err, &before) {
		err = &refusedError{event: string(st.how.Event()), err: err, handler: st.err}
		return settlement{leased: st.leased, how: dbq.Poisoned(err), err: err}, true
	}
	if before.parked {
		return st, false
	}
	parked := *before
	parked.parked = true
	return settlement{leased: st.leased, how: dbq.Parked(&parked), err: &parked}, true
}

// refusedError is the error of an attempt whose settlement was refused by the database.
type refusedError struct {
	event   string
	err     error // the database's
	handler error // what the handler returned
	parked  bool  // POISON was refused too
}

func (r *refusedError) Error() string {
	text := fmt.Sprintf("worker: the database refused to settle the task (%s): %v", r.event, r.err)
	if r.handler != nil {
		text += fmt.Sprintf("; the handler returned: %v", r.handler)
	}
	return text
}

func (r *refusedError) Unwrap() []error { return []error{r.err, r.handler} }
