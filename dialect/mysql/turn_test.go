package mysql

import (
	"context"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// TestWhoDoesNotGetHisTurnGoesOn holds the turn, as a session could that a proxy keeps.
func TestWhoDoesNotGetHisTurnGoesOn(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn)
		fill(t, s, 150, "0, 5, 0, 0, 1, -1, ''")
		r := dialect.CheckoutRequest{Strategy: dialect.SkipLocked, Queue: "work", Limit: turnLeast, Lease: time.Minute, Holder: "first"}
		lock := (&checkout{s: s, r: r}).turn(true)
		lock.Early = false
		err := s.LockedTx(t.Context(), lock, func(ctx context.Context, _ dialect.Conn) error {
			rows, err := Dialect{}.Checkout(ctx, s, r)
			if err == nil && len(rows) != turnLeast {
				t.Errorf("%d tasks were taken, want %d", len(rows), turnLeast)
			}
			return err
		})
		must(t, err)
		r.Holder = "second"
		rows, err := Dialect{}.Checkout(t.Context(), s, r)
		must(t, err)
		if len(rows) != 50 {
			t.Errorf("%d tasks were taken after that, want the other 50", len(rows))
		}
	})
}

// TestACountThatFallsShortIsUndone completes two tasks of which one is not held under the fence: the other one alone is done, and said to be.
func TestACountThatFallsShortIsUndone(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn)
		fill(t, s, 2, "1, 5, 1, n.i, -1, 4000000000000000, 'busy'") // under fences 0 and 1
		held, err := s.Ask(t.Context(), text(s.Names, "SELECT id, fence FROM {task} ORDER BY fence"), nil)
		must(t, err)
		args := dialect.Args{"id": dialect.Col[uuid.UUID]{held[0].ID, held[1].ID}, "fence": int64(1)}
		var done []dialect.Row
		must(t, s.Tx(t.Context(), func(ctx context.Context, c dialect.Conn) (err error) {
			done, err = s.QueryBatch(ctx, c, s.Statements.Complete, args, 2)
			return err
		}))
		if len(done) != 1 || done[0].ID != held[1].ID {
			t.Errorf("completed were %v, want one, %v", done, held[1].ID)
		}
		left, err := s.Ask(t.Context(), text(s.Names, "SELECT id FROM {task} WHERE state = 1"), nil)
		must(t, err)
		if len(left) != 1 || left[0].ID != held[0].ID {
			t.Errorf("left are %v, want one, %v", left, held[0].ID)
		}
	})
}
