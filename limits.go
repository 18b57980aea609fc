package dbq

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Limits are the smallest engine's, the same on all of them, and checked before any SQL. Characters are Unicode code points.
const (
	MaxQueueName   = 100                        // characters in a queue's name
	MaxReference   = 200                        // characters in a reference
	MaxKind        = 100                        // characters in a kind
	MaxPriority    = 9                          // the last priority; 0 is the first
	MaxMaxAttempts = 32767                      // attempts of a task
	MaxHeaders     = 4000                       // bytes of the headers as JSON
	MaxResult      = 4000                       // bytes of a result or an error text; a longer one is cut and says so
	MaxDelay       = 100 * 365 * 24 * time.Hour // of an enqueue, a retry or a release
	MinLease       = time.Millisecond           // of a checkout or an extension
	MaxLease       = 24 * time.Hour             // of a checkout or an extension; extend for longer work
	MaxCheckout    = 10_000                     // tasks in one checkout
	MaxBulk        = 100_000                    // tasks in one EnqueueMany, Settle, or operator's bulk call
)

// MaxWorkerID bounds the characters of a worker's id; the token of a checkout, which is the holder of its leases, is longer by up to 25.
const MaxWorkerID = MaxReference - 25

// maxName bounds the name a client gives itself (WithName); a checkout's token is longer by 24 characters at most.
const maxName = 150

func checkText(s string, least, most int, sentinel error, what string) error {
	switch n := utf8.RuneCountInString(s); {
	case n < least:
		return fmt.Errorf("%w: the %s is empty", sentinel, what)
	case n > most:
		return fmt.Errorf("%w: the %s has %d characters, at most %d are allowed", sentinel, what, n, most)
	case !utf8.ValidString(s):
		return fmt.Errorf("%w: the %s is not valid UTF-8", sentinel, what)
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return fmt.Errorf("%w: the %s holds the control character %U", sentinel, what, r)
		}
	}
	return nil
}

func checkQueueName(name string) error {
	return checkText(name, 1, MaxQueueName, ErrQueueName, "queue name")
}

func checkLeaseTime(d time.Duration) error {
	if d < MinLease || d > MaxLease {
		return fmt.Errorf("%w: %v, it must be between %v and %v", ErrLeaseTime, d, MinLease, MaxLease)
	}
	return nil
}

func checkCount(n, most int) error {
	if n < 1 || n > most {
		return fmt.Errorf("%w: %d, it must be between 1 and %d", ErrCount, n, most)
	}
	return nil
}

func checkDelay(d time.Duration) error {
	if d < 0 || d > MaxDelay {
		return fmt.Errorf("%w: the delay is %v, it must be between 0 and %v", ErrDelay, d, MaxDelay)
	}
	return nil
}

// checkTime refuses times that no engine's view could show.
func checkTime(t time.Time) error {
	if y := t.UTC().Year(); y < 1970 || y > 9999 {
		return fmt.Errorf("%w: the year %d, it must be between 1970 and 9999", ErrDelay, y)
	}
	return nil
}

func checkID(id uuid.UUID) error {
	if id.Version() != 7 || id.Variant() != uuid.RFC4122 {
		return fmt.Errorf("%w: %s is not a UUID of version 7 (ids are ordered by time; make one with dbq.NewID)", ErrID, id)
	}
	return nil
}

// check refuses what a task may not be, and gives the headers as they are stored.
func (t *NewTask) check(maxPayload int) (headers *string, err error) {
	switch {
	case t.Priority < 0 || t.Priority > MaxPriority:
		return nil, fmt.Errorf("%w: %d, it must be between 0 (first) and %d", ErrPriority, t.Priority, MaxPriority)
	case t.MaxAttempts < 0 || t.MaxAttempts > MaxMaxAttempts:
		return nil, fmt.Errorf("%w: %d, it must be between 1 and %d, or 0 for the default", ErrMaxAttempts, t.MaxAttempts, MaxMaxAttempts)
	case len(t.Payload) > maxPayload:
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed: store it elsewhere and enqueue a pointer to it", ErrPayloadSize, len(t.Payload), maxPayload)
	case t.Delay != 0 && !t.RunAt.IsZero():
		return nil, fmt.Errorf("%w: set RunAt or Delay, not both", ErrDelay)
	}
	if t.ID != uuid.Nil {
		if err := checkID(t.ID); err != nil {
			return nil, err
		}
	}
	if !t.RunAt.IsZero() {
		if err := checkTime(t.RunAt); err != nil {
			return nil, err
		}
	}
	if err := checkDelay(t.Delay); err != nil {
		return nil, err
	}
	if err := checkText(t.Reference, 0, MaxReference, ErrReference, "reference"); err != nil {
		return nil, err
	}
	if err := checkText(t.Kind, 0, MaxKind, ErrKind, "kind"); err != nil {
		return nil, err
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

// cutResult brings a result or an error text to at most MaxResult bytes. What is cut ends on a UTF-8 boundary and says so.
func cutResult(b []byte) []byte {
	if len(b) <= MaxResult {
		return b
	}
	note := fmt.Sprintf(" … [cut from %d bytes]", len(b))
	end := MaxResult - len(note)
	for end > 0 && end > MaxResult-len(note)-utf8.UTFMax && !utf8.RuneStart(b[end]) {
		end--
	}
	return append(b[:end:end], note...)
}
