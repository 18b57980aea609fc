package mysql

import (
	"context"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// TestCheckoutProceedsWithoutItsTurn holds the lock of the turn, as could a session that a proxy keeps.
func TestCheckoutProceedsWithoutItsTurn(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn)
		fill(t, s, 150, "0, 5, 0, 0, 1, -1, ''")
		r := dialect.CheckoutRequest{
			Strategy: dialect.SkipLocked, Queue: "work", Limit: turnLeast, Lease: time.Minute, Holder: "first",
		}
		lock := (&checkout{s: &s.Session, r: r}).turn(true)
		lock.Early = false
		err := s.LockedTx(t.Context(), lock, func(ctx context.Context, _ dialect.Conn) error {
			leased, err := Dialect{}.Checkout(ctx, &s.Session, r)
			if err == nil && len(leased.Rows) != turnLeast {
				t.Errorf("%d tasks were taken, want %d", len(leased.Rows), turnLeast)
			}
			return err
		})
		must(t, err)
		r.Holder = "second"
		leased, err := Dialect{}.Checkout(t.Context(), &s.Session, r)
		must(t, err)
		if len(leased.Rows) != 50 {
			t.Errorf("%d tasks were taken after that, want the other 50", len(leased.Rows))
		}
	})
}

// TestBatchWithStaleFenceCompletesTheOthers completes 20 tasks, one of them under a wrong fence: only the others are
// completed, and only they are reported.
func TestBatchWithStaleFenceCompletesTheOthers(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		const n = 20
		s := migrated(t, dsn)
		fill(t, s, n, "1, 5, 1, n.i > 0, -1, 4000000000000000, 'busy'") // one under fence 0, the others under 1
		held, err := s.Read(t.Context(), text(s.Names, "SELECT id, fence FROM {task} ORDER BY fence"), nil)
		must(t, err)
		args := batchOf(t, s, n)
		for i, row := range held {
			args["id"].(dialect.Col[uuid.UUID])[i], args["fence"].(dialect.Col[int64])[i] = row.ID, 1
		}
		var done dialect.Changed
		must(t, s.Tx(t.Context(), func(ctx context.Context, c dialect.Conn) (err error) {
			done, err = s.RunBatch(ctx, c, dialect.Settle, args, n)
			return err
		}))
		if done.All || len(done.Rows) != n-1 {
			t.Errorf("completed were all: %v, or %d, want %d", done.All, len(done.Rows), n-1)
		}
		left, err := s.Read(t.Context(), text(s.Names, "SELECT id FROM {task} WHERE state = 1"), nil)
		must(t, err)
		if len(left) != 1 || left[0].ID != held[0].ID {
			t.Errorf("left are %v, want one, %v", left, held[0].ID)
		}
	})
}
