package dbq

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/google/uuid"
)

// Limits of input. They are the same on all engines and are checked before any SQL is sent. A character is a Unicode
// code point.
const (
	MaxQueueName   = bounds.MaxQueueName   // characters in a queue's name
	MaxReference   = bounds.MaxReference   // characters in a reference
	MaxUniqueKey   = bounds.MaxUniqueKey   // characters in a unique key
	MaxKind        = bounds.MaxKind        // characters in a kind
	MaxKey         = bounds.MaxKey         // characters in a key
	MaxPriority    = bounds.MaxPriority    // the last priority; 0 is the first
	MaxMaxAttempts = bounds.MaxMaxAttempts // attempts of a task
	MaxHeaders     = bounds.MaxHeaders     // bytes of the headers as JSON
	MaxResult      = bounds.MaxResult      // bytes of a result or an error text; longer ones are cut and marked
	MaxProgress    = bounds.MaxProgress    // bytes of the progress of a task; longer ones are refused
	MaxDelay       = bounds.MaxDelay       // of an enqueue, a retry or a release
	MinLease       = bounds.MinLease       // of a checkout or an extension
	MaxLease       = bounds.MaxLease       // of a checkout or an extension; extend for longer work
	MaxCheckout    = bounds.MaxCheckout    // tasks in one checkout
	MaxBulk        = bounds.MaxBulk        // tasks in one EnqueueMany, SettleMany, or operator's bulk call
)

// MaxWorkerID is the maximum number of characters in a worker's id. The checkout token, which is stored as the holder
// of a lease, has up to 25 more.
const MaxWorkerID = bounds.MaxWorkerID

// Limits of Unique.Period and Unique.Window.
const (
	MinUniquePeriod = bounds.MinUniquePeriod
	MaxUniquePeriod = bounds.MaxUniquePeriod
)

// check returns an error for the first field that is outside its limits. It returns the headers in their stored form.
func (t *NewTask) check(maxPayload int) (headers *string, err error) {
	switch {
	case len(t.Payload) > maxPayload:
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed: store it elsewhere and enqueue a pointer to it",
			ErrPayloadSize, len(t.Payload), maxPayload)
	case t.Delay != 0 && !t.RunAt.IsZero():
		return nil, fmt.Errorf("%w: set RunAt or Delay, not both", ErrDelay)
	}
	err = cmp.Or(
		bounds.Range("Priority", t.Priority, 0, MaxPriority, ErrPriority),
		bounds.Range("MaxAttempts", t.MaxAttempts, 0, MaxMaxAttempts, ErrMaxAttempts),
		bounds.Delay(t.Delay),
		bounds.Text(t.Reference, 0, MaxReference, ErrReference, "reference"),
		bounds.Text(t.Kind, 0, MaxKind, ErrKind, "kind"),
		bounds.Text(t.Key, 0, MaxKey, ErrKey, "key"),
	)
	if err != nil {
		return nil, err
	}
	if t.ID != uuid.Nil {
		if err := bounds.ID(t.ID); err != nil {
			return nil, err
		}
	}
	if !t.RunAt.IsZero() {
		if err := bounds.Time(t.RunAt); err != nil {
			return nil, err
		}
	}
	if t.Unique != nil {
		if err := t.Unique.check(t); err != nil {
			return nil, err
		}
	}
	return encodeHeaders(t.Headers)
}

func encodeHeaders(h map[string]string) (*string, error) {
	if len(h) == 0 {
		return nil, nil
	}
	for k, v := range h {
		if k == "" || !utf8.ValidString(k) || !utf8.ValidString(v) {
			return nil, fmt.Errorf("%w: the header %q is empty or not valid UTF-8", ErrHeaders, k)
		}
		if strings.ContainsFunc(k, unicode.IsControl) {
			return nil, fmt.Errorf("%w: the header %q has a control character in its name", ErrHeaders, k)
		}
	}
	b, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrHeaders, err)
	}
	if len(b) > MaxHeaders {
		return nil, fmt.Errorf("%w: %d bytes as JSON, at most %d are allowed", ErrHeaders, len(b), MaxHeaders)
	}
	s := string(b)
	return &s, nil
}
