package postgres

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

// A checkout locks rows as they are, and updates those that its snapshot has. These tests change a task between the
// two, by a lock for which the statement waits after it has taken its snapshot.

// TestTakeoverOfATaskThatWasJustTakenOverLeavesNoLease has another takeover commit, whose own lease has ended, too. A
// row of the table of leases under a fence that no lease has would end the next lease before it begins.
func TestTakeoverOfATaskThatWasJustTakenOverLeavesNoLease(t *testing.T) {
	const change = "fence = fence + 1, lease_until = 2, holder = 'other#1'"
	duringTakeover(t, change, func(t *testing.T, leased dialect.CheckoutResult) {
		if len(leased.Rows) > 0 {
			t.Errorf("took over %+v", leased.Rows)
		}
	})
}

// TestTakeoverOfATaskThatWasJustStartedCounts has the holder start its task late, which changes no fence.
func TestTakeoverOfATaskThatWasJustStartedCounts(t *testing.T) {
	duringTakeover(t, "known_started = 1", func(t *testing.T, leased dialect.CheckoutResult) {
		if len(leased.Rows) != 1 || leased.Rows[0].Fence != 2 || leased.Rows[0].Attempt != 2 {
			t.Errorf("took over %+v", leased.Rows)
		}
	})
}

// duringTakeover runs a checkout of each strategy that finds an expired lease, makes a change of its task while the
// statement that takes it over runs, and checks that each row of the table of leases belongs to a task's fence.
func duringTakeover(t *testing.T, change string, check func(*testing.T, dialect.CheckoutResult)) {
	onEachServer(t, func(t *testing.T, dsn string) {
		for _, strategy := range []dialect.Strategy{dialect.SkipLocked, dialect.Advisory, dialect.CAS} {
			t.Run(string(strategy), func(t *testing.T) {
				s := migrated(t, dsn)
				db, task, id := s.Pool.Write, s.Names.Table("task"), uuid.Must(uuid.NewV7())
				must := func(_ any, err error) {
					t.Helper()
					if err != nil {
						t.Fatal(err)
					}
				}
				must(db.ExecContext(t.Context(), "INSERT INTO "+task+` (id, queue, kind, state, attempt, fence, due,
  lease_until, taken, holder) VALUES ($1, 'work', '', 1, 1, 1, NULL, 1, 1, 'gone#1')`, id.String()))
				lock := int64(uuid.New().ID())
				own, halting := s.Statements.Private, maps.Clone(s.Statements.Private)
				take := own["take expired"]
				take.SQL = strings.Replace(take.SQL, "(SELECT CAST(:id AS uuid[]) AS id",
					fmt.Sprintf("(SELECT pg_advisory_xact_lock(%d), CAST(:id AS uuid[]) AS id", lock), 1)
				halting["take expired"], s.Statements.Private = take, halting

				tx, err := db.BeginTx(t.Context(), nil)
				must(nil, err)
				must(tx.ExecContext(t.Context(), "SELECT pg_advisory_xact_lock($1)", lock))
				var leased dialect.CheckoutResult
				done := make(chan error, 1)
				go func() {
					var err error
					leased, err = takeOver(s, strategy)
					done <- err
				}()
				waitForLock(t, s, lock)
				must(db.ExecContext(t.Context(), "UPDATE "+task+" SET "+change+" WHERE id = $1", id.String()))
				must(nil, tx.Commit())
				must(nil, <-done)
				s.Statements.Private = own

				var orphans int
				must(nil, db.QueryRowContext(t.Context(), fmt.Sprintf(`SELECT count(*) FROM %s l
 WHERE NOT EXISTS (SELECT 1 FROM %s t WHERE t.id = l.id AND t.fence = l.fence)`,
					s.Names.Table("lease"), task)).Scan(&orphans))
				if orphans > 0 {
					t.Error("it has left a lease under a fence that the task does not have")
				}
				check(t, leased)
			})
		}
	})
}

func takeOver(s *sqlrun.Session, by dialect.Strategy) (dialect.CheckoutResult, error) {
	return Dialect{}.Checkout(context.Background(), &s.Session, dialect.CheckoutRequest{Queue: "work", Limit: 10,
		Lease: time.Minute, Holder: "new#1", Strategy: by, Search: dialect.OnlyExpired})
}

// waitForLock waits until a session waits for an advisory lock.
func waitForLock(t *testing.T, s *sqlrun.Session, lock int64) {
	t.Helper()
	for range 1000 {
		var waits bool
		if err := s.Pool.Write.QueryRowContext(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_locks
 WHERE locktype = 'advisory' AND objid = $1 AND NOT granted)`, lock).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		if waits {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("no statement waits for the lock")
}
