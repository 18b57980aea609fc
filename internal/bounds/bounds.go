// Package bounds has the bounds of input, and checks input against them. It returns the errors of package errs.
package bounds

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dbq-go/dbq/internal/errs"
	"github.com/google/uuid"
)

// The bounds are the smallest engine's. They are the same on all engines and are checked before any SQL. Characters
// are Unicode code points.
const (
	MaxQueueName   = 100                        // characters in a queue's name
	MaxReference   = 200                        // characters in a reference
	MaxUniqueKey   = 200                        // characters in a unique key
	MaxKind        = 100                        // characters in a kind
	MaxKey         = 200                        // characters in a key
	MaxPriority    = 9                          // the last priority; 0 is the first
	MaxMaxAttempts = 32767                      // attempts of a task
	MaxHeaders     = 4000                       // bytes of the headers as JSON
	MaxResult      = 4000                       // bytes of a result or an error text; longer ones are cut and marked
	MaxProgress    = 4000                       // bytes of the progress of a task; longer ones are refused
	MaxDelay       = 100 * 365 * 24 * time.Hour // of an enqueue, a retry or a release
	MinLease       = time.Millisecond           // of a checkout or an extension
	MaxLease       = 24 * time.Hour             // of a checkout or an extension; extend for longer work
	MaxCheckout    = 10_000                     // tasks in one checkout
	MaxBulk        = 100_000                    // tasks in one EnqueueMany, SettleMany, or operator's bulk call
	MaxSteps       = 200_000                    // tasks of a workflow
)

// MaxWorkerID is the maximum number of characters in a worker's id. The checkout token, which is the holder of its
// leases, has up to 25 more.
const MaxWorkerID = MaxReference - 25

// The bounds of the period and the window of unique tasks.
const (
	MinUniquePeriod = time.Second
	MaxUniquePeriod = 365 * 24 * time.Hour
)

// MaxName is the maximum number of characters in a client's name (WithName). A checkout token has up to 24 more.
const MaxName = 150

// Text returns sentinel for a text of fewer than least or more than most characters, or with control characters. The
// error calls the text what.
func Text(s string, least, most int, sentinel error, what string) error {
	switch n := utf8.RuneCountInString(s); {
	case n < least:
		return fmt.Errorf("%w: the %s is empty", sentinel, what)
	case n > most:
		return fmt.Errorf("%w: the %s has %d characters; the maximum is %d", sentinel, what, n, most)
	case !utf8.ValidString(s):
		return fmt.Errorf("%w: the %s is not valid UTF-8", sentinel, what)
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return fmt.Errorf("%w: the %s contains the control character %U", sentinel, what, r)
		}
	}
	return nil
}

// Range returns sentinel for a value below least or above most. The error calls the value what.
func Range[T cmp.Ordered](what string, value, least, most T, sentinel error) error {
	if value < least || value > most {
		return fmt.Errorf("%w: %s is %v, it must be %v to %v", sentinel, what, value, least, most)
	}
	return nil
}

// QueueName refuses an invalid queue name.
func QueueName(name string) error {
	return Text(name, 1, MaxQueueName, errs.ErrQueueName, "queue name")
}

// Lease refuses a lease that is too short or too long.
func Lease(d time.Duration) error {
	return Range("the lease", d, MinLease, MaxLease, errs.ErrLeaseTime)
}

// Bulk refuses more than MaxBulk tasks in one call.
func Bulk(n int) error {
	if n > MaxBulk {
		return Count(n, MaxBulk)
	}
	return nil
}

// Count refuses a number of tasks that is not between 1 and most.
func Count(n, most int) error {
	return Range("the number", n, 1, most, errs.ErrCount)
}

// Delay refuses a delay that is negative or longer than MaxDelay.
func Delay(d time.Duration) error {
	return Range("the delay", d, 0, MaxDelay, errs.ErrDelay)
}

// Time refuses times that the engines' views cannot show.
func Time(t time.Time) error {
	return Range("the year", t.UTC().Year(), 1970, 9999, errs.ErrDelay)
}

// Progress refuses progress that is too long.
func Progress(p []byte) error {
	if len(p) > MaxProgress {
		return fmt.Errorf("%w: %d bytes, at most %d are allowed: store it elsewhere and keep a pointer to it",
			errs.ErrProgress, len(p), MaxProgress)
	}
	return nil
}

// ID refuses ids that are not UUIDs of version 7.
func ID(id uuid.UUID) error {
	if id.Version() != 7 || id.Variant() != uuid.RFC4122 {
		return fmt.Errorf(
			"%w: %s is not a UUID of version 7 (ids are ordered by time; make one with dbq.NewID)",
			errs.ErrID,
			id,
		)
	}
	return nil
}

// DatabaseName reports whether a server can call a database so: its name is a part of paths.
func DatabaseName(name string) bool { return databaseName.MatchString(name) }

var databaseName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// CutResult cuts a result or an error text to at most MaxResult bytes, with a note about the cut.
func CutResult(b []byte) []byte { return CutNoted(b, len(b)) }

// CutNoted is CutResult for the beginning of a text of size bytes.
func CutNoted(b []byte, size int) []byte {
	if size <= MaxResult {
		return b
	}
	note := fmt.Sprintf(" … [cut from %d bytes]", size)
	return append(slices.Clip(Cut(b, MaxResult-len(note))), note...)
}

// Brief cuts a text for a line of a log to about 1000 bytes.
func Brief(text string) string {
	const most = 1000
	if len(text) <= most {
		return text
	}
	return Cut(text, most) + "..."
}

// Cut cuts a text to at most a number of bytes, on a UTF-8 boundary.
func Cut[T string | []byte](text T, most int) T {
	if len(text) <= most {
		return text
	}
	end := most
	for end > 0 && end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
