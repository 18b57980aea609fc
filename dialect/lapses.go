package dialect

import "fmt"

// LapsesPerAttempt is how many lapses in a row count as an attempt, so that a task whose leases end again and again
// before its worker has begun it is not handed out for ever.
//
// When a lease expires, its attempt counts if the row says that it had started: its checkout asked for that
// (CheckoutRequest.StartsAtOnce), or Statements.Start was called. Otherwise nobody knows, and it is a lapse: the
// attempt does not count.
const LapsesPerAttempt = 100

// Counts is the SQL condition on a row whose lease expired that its attempt counts. The prefix of its columns is one
// such as "t.", or empty.
func Counts(prefix string) string {
	return fmt.Sprintf("(%[1]sknown_started = 1 OR %[1]slapses >= %[2]d)", prefix, LapsesPerAttempt-1)
}

// Spent is the SQL condition on a row whose lease expired that it has no attempt left.
func Spent(prefix string) string {
	return fmt.Sprintf("%[1]sattempt >= %[1]smax_attempts AND %[2]s", prefix, Counts(prefix))
}

// NextAttempt and NextLapses are SQL expressions for the new values of a row that is taken over, in terms of the old
// ones.
func NextAttempt(prefix string) string {
	return fmt.Sprintf("%[1]sattempt + CASE WHEN %[2]s THEN 1 ELSE 0 END", prefix, Counts(prefix))
}

// NextLapses is described at NextAttempt. Lapses start over when they have counted as an attempt.
func NextLapses(prefix string) string {
	const next = "CASE WHEN %[1]sknown_started = 1 THEN %[1]slapses " +
		"WHEN %[1]slapses >= %[2]d THEN 0 ELSE %[1]slapses + 1 END"
	return fmt.Sprintf(next, prefix, LapsesPerAttempt-1)
}

// TakeOver is Spent, NextAttempt and NextLapses for a dialect that decides row by row: it reports whether a row whose
// lease expired has no attempt left. Else it changes the row's attempt and lapses as the database does.
func (r *Row) TakeOver() (spent bool) {
	counts := r.KnownStarted == 1 || r.Lapses >= LapsesPerAttempt-1
	r.WasAttempt = r.Attempt
	if counts && r.Attempt >= r.MaxAttempts {
		return true
	}
	switch {
	case r.KnownStarted == 1:
	case counts:
		r.Lapses = 0
	default:
		r.Lapses++
	}
	if counts {
		r.Attempt++
	}
	return false
}

// KnownStarted is :known_started, what a checkout writes into that column: 1 when its caller starts each task at once.
func (r CheckoutRequest) KnownStarted() int64 {
	if r.StartsAtOnce {
		return 1
	}
	return 0
}
