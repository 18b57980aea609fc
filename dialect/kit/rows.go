package kit

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// Keys returns the columns :id and :fence of rows. It sorts the rows by id, to prevent deadlocks between transactions
// that lock by keys.
func Keys(rows []dialect.Row) dialect.Args {
	slices.SortFunc(rows, byID)
	ids, fences := make(dialect.Col[uuid.UUID], len(rows)), make(dialect.Col[int64], len(rows))
	for i, row := range rows {
		ids[i], fences[i] = row.ID, row.Fence
	}
	return dialect.Args{"id": ids, "fence": fences}
}

func byID(a, b dialect.Row) int { return bytes.Compare(a.ID[:], b.ID[:]) }

// InOrder sorts rows into the order in which tasks are handed out: by priority, then by when they became due, then by
// id.
func InOrder(rows []dialect.Row) {
	slices.SortFunc(rows, func(a, b dialect.Row) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.WasDue, b.WasDue), byID(a, b))
	})
}

// TakeOver does the same as {exhausted}, {next_attempt} and {next_lapses} of dialect.Names.Filler, for a dialect that
// decides row by row. It reports whether a row whose lease expired has no attempt left. Otherwise it changes the row's
// attempt and lapses.
func TakeOver(r *dialect.Row) (exhausted bool) {
	counts := r.KnownStarted == 1 || r.Lapses >= dialect.LapsesPerAttempt-1
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

// KeepProgress stores the Progress of rows with their tasks, on c, whose transaction has locked them. It skips rows
// without progress, and runs nothing if there are no others. A dialect that stores renewals in a separate table calls
// it when a lease ends, to move the progress of the renewal to the task.
func KeepProgress(ctx context.Context, s *dialect.Session, c dialect.Conn, rows []dialect.Row) error {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r dialect.Row) bool { return len(r.Progress) == 0 })
	if len(rows) == 0 {
		return nil
	}
	slices.SortFunc(rows, byID)
	id, progress := make(dialect.Col[uuid.UUID], len(rows)), make(dialect.Col[[]byte], len(rows))
	for i, r := range rows {
		id[i], progress[i] = r.ID, r.Progress
	}
	_, err := s.ExecBatch(ctx, c, s.Statements.SetProgress, dialect.Args{"id": id, "progress": progress}, len(rows))
	return err
}
