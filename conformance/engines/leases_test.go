package engines

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/google/uuid"
)

// onLeases runs f with a way to open clients on each server that has a table of renewals, and one to make all that is
// in it two hours older, after which clients may remove it.
func onLeases(t *testing.T, f func(t *testing.T, open func() *dbq.Client, age func(c *dbq.Client))) {
	t.Helper()
	for _, target := range present() {
		dsn := os.Getenv(target.variable())
		if target.file != nil || target.name == "pgbouncer" || target.name == "oracle" {
			continue
		}
		t.Run(target.name, func(t *testing.T) {
			t.Parallel()
			dsn := ownDatabase(t, dsn)
			open := func() *dbq.Client {
				c, err := dbq.Open(t.Context(), dsn, dbq.WithMigrate())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				return c
			}
			f(t, open, func(c *dbq.Client) {
				if _, err := c.DB().ExecContext(t.Context(),
					"UPDATE dbq_lease SET lease_until = lease_until - 7200000000, keep_until = keep_until - 7200000000"); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// What takeovers leave in the table of renewals is removed even if no worker renews a lease.
func TestRenewalsOfTakenOverTasksAreRemoved(t *testing.T) {
	onLeases(t, func(t *testing.T, open func() *dbq.Client, age func(*dbq.Client)) {
		for round, c := range []*dbq.Client{open(), open()} { // a client removes at most every few seconds
			q := c.Queue("q")
			id, err := q.Enqueue(t.Context(), dbq.NewTask{})
			if err != nil {
				t.Fatal(err)
			}
			for _, lease := range []time.Duration{dbq.MinLease, time.Hour} {
				tasks, err := q.Checkout(t.Context(), 1, lease)
				if err != nil || len(tasks) != 1 || tasks[0].ID != id {
					t.Fatal(len(tasks), err)
				}
				if lease == dbq.MinLease {
					time.Sleep(dbq.MinLease + 10*time.Millisecond) // by the database's clock
				} else if err := q.Complete(t.Context(), tasks[0].Lease, nil); err != nil {
					t.Fatal(err)
				}
			}
			var left int
			if err := c.DB().QueryRowContext(t.Context(), "SELECT count(*) FROM dbq_lease").Scan(&left); err != nil ||
				left != 1 {
				t.Errorf("round %d: there are %d rows, %v; want that of the last takeover", round, left, err)
			}
			age(c)
		}
	})
}

// Progress of a task that is leased outlives its renewal, however late the task is taken over. That of a task that has
// ended goes with the renewal.
func TestProgressOutlivesItsRenewal(t *testing.T) {
	onLeases(t, func(t *testing.T, open func() *dbq.Client, age func(*dbq.Client)) {
		c := open()
		report := func(queue string) dbq.Lease {
			if _, err := c.Queue(queue).Enqueue(t.Context(), dbq.NewTask{}); err != nil {
				t.Fatal(err)
			}
			tasks, err := c.Queue(queue).Checkout(t.Context(), 1, time.Hour)
			if err != nil || len(tasks) != 1 {
				t.Fatal(len(tasks), err)
			}
			l := tasks[0].Lease
			l.Progress = []byte("half")
			if _, err := c.Queue(queue).Extend(t.Context(), l, dbq.MinLease); err != nil {
				t.Fatal(err)
			}
			return l
		}
		report("crashed")
		for queue, o := range map[string]dbq.Outcome{
			"completed": dbq.Completed(nil), "failed": dbq.Parked(errors.New("boom")), "deleted": dbq.Deleted(),
		} {
			l := report(queue) // which does not say that it is renewed
			if err := c.Queue(queue).Settle(t.Context(), l, o); err != nil {
				t.Fatal(err)
			}
		}
		left := func() (n int) {
			if err := c.DB().QueryRowContext(t.Context(), "SELECT count(*) FROM dbq_lease").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := left(); n != 4 {
			t.Errorf("%d renewals before the cleaning, want 4", n)
		}
		age(c)
		other := open()
		lapsed(t, other.Queue("other")) // it renews a lease, and removes what is old
		if n := left(); n != 2 {
			t.Errorf("%d renewals after the cleaning, want 2: with progress, and the one just made", n)
		}
		tasks, err := other.Queue("crashed").Checkout(t.Context(), 1, time.Hour)
		if err != nil || len(tasks) != 1 || string(tasks[0].Progress) != "half" {
			t.Errorf("taken over: %+v, %v; want the task with its progress", tasks, err)
		}
	})
}

// lapsed enqueues a task, and leases it in a queue until the lease has expired.
func lapsed(t *testing.T, q *dbq.Queue) (id uuid.UUID) {
	t.Helper()
	id, err := q.Enqueue(t.Context(), dbq.NewTask{})
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := q.Checkout(t.Context(), 1, dbq.MaxLease)
	if err == nil && len(tasks) == 1 {
		_, err = q.Extend(t.Context(), tasks[0].Lease, dbq.MinLease)
	}
	if err != nil || len(tasks) != 1 {
		t.Fatal(len(tasks), err)
	}
	time.Sleep(dbq.MinLease + 10*time.Millisecond) // by the database's clock
	return id
}

// takenOver reports whether a checkout takes the task over.
func takenOver(t *testing.T, q *dbq.Queue, id uuid.UUID) bool {
	t.Helper()
	tasks, err := q.Checkout(t.Context(), 1, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return len(tasks) == 1 && tasks[0].ID == id
}

// A lease that was shortened stays short also when its renewal ended long ago.
func TestShortenedLeaseStaysShort(t *testing.T) {
	onLeases(t, func(t *testing.T, open func() *dbq.Client, age func(*dbq.Client)) {
		c := open()
		id := lapsed(t, c.Queue("q"))
		age(c)
		other := open()
		lapsed(t, other.Queue("other")) // it renews a lease, and removes what is old
		if !takenOver(t, other.Queue("q"), id) {
			t.Error("the task is not taken over, although its lease has expired")
		}
	})
}
