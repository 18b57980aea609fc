package batch

import (
	"context"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// TakeOver processes locked rows whose leases had expired when they were read. It omits rows that a renewal holds
// after all. Rows whose attempts are exhausted are returned in exhausted; poison moves them to POISON. The caller
// must lease the other rows again for lease. Both have the previous holder and the end of its lease.
//
// It runs two batches of the dialect's private statements. "claim" writes the next fence into the renewal of each :id,
// unless that is valid under :fence at :now; it is then valid for :lease. "claimed" returns the id and the progress of
// the renewals with the next fence.
func TakeOver(
	ctx context.Context, s *dialect.Session, c dialect.Conn, locked, seen []dialect.Row, lease time.Duration,
	poison func(exhausted []dialect.Row) error,
) (again, exhausted []dialect.Row, err error) {
	claimed, err := claim(ctx, s, c, locked, lease)
	if err != nil {
		return nil, nil, err
	}
	until := make(map[uuid.UUID]*int64, len(seen))
	for _, row := range seen {
		until[row.ID] = row.WasUntil
	}
	for _, row := range claimed {
		updated := row.Updated
		row.WasHolder, row.WasTaken, row.WasUntil = row.Holder, &updated, until[row.ID]
		if kit.TakeOver(&row) {
			exhausted = append(exhausted, row)
		} else {
			again = append(again, row)
		}
	}
	if err := poison(exhausted); err != nil {
		return nil, nil, err
	}
	for i := range exhausted {
		exhausted[i].State, exhausted[i].LeaseUntil = state.Poison, nil
		exhausted[i].Fence++
	}
	return again, exhausted, nil
}

// claim returns those of locked rows that no renewal holds, and keeps renewals off these.
func claim(
	ctx context.Context, s *dialect.Session, c dialect.Conn, locked []dialect.Row, lease time.Duration,
) ([]dialect.Row, error) {
	if len(locked) == 0 {
		return nil, nil
	}
	args, own := kit.Keys(locked), s.Private
	args["now"], args["lease"] = locked[0].Now, lease.Microseconds()
	claimed, err := Then(ctx, s, c, own("claim"), own("claimed"), args, len(locked))
	if err == nil {
		err = kit.KeepProgress(ctx, s, c, claimed.Rows)
	}
	rows, reported := Among(locked, claimed.Rows), map[uuid.UUID][]byte{}
	for _, r := range claimed.Rows {
		reported[r.ID] = r.Progress
	}
	for i := range rows {
		if p := reported[rows[i].ID]; p != nil {
			rows[i].Progress = p
		}
	}
	return rows, err
}
