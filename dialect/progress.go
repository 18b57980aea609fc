package dialect

import (
	"bytes"
	"context"
	"slices"

	"github.com/google/uuid"
)

// KeepProgress stores the Progress of rows with their tasks, on c, whose transaction has locked them. It skips rows
// without progress, and runs nothing if there are no others. A dialect that stores renewals in a separate table calls
// it when a lease ends, to move the progress of the renewal to the task.
func (s *Session) KeepProgress(ctx context.Context, c Conn, rows []Row) error {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return len(r.Progress) == 0 })
	if len(rows) == 0 {
		return nil
	}
	slices.SortFunc(rows, func(a, b Row) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	id, progress := make(Col[uuid.UUID], len(rows)), make(Col[[]byte], len(rows))
	for i, r := range rows {
		id[i], progress[i] = r.ID, r.Progress
	}
	_, err := s.ExecBatch(ctx, c, s.Statements.SetProgress, Args{"id": id, "progress": progress}, len(rows))
	return err
}
