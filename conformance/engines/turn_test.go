package engines

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
)

// turn is a queue with limits by key on a database of its own. On PostgreSQL, a checkout reads the keys whose turn it
// is before it waits for the lock of the limits.
type turn struct {
	*testing.T
	dsn string
	c   *dbq.Client
}

const turnQueue, turnKeys = "q", 40

// onTurns runs a test on each PostgreSQL server that is configured.
func onTurns(t *testing.T, f func(t turn)) {
	t.Helper()
	onEachPostgres(t, func(t *testing.T, dsn string) {
		own := turn{T: t, dsn: dsn}
		own.c = own.open()
		limit := func(l *admin.QueueLimits) { l.PerKey = true }
		if err := admin.New(own.c).ConfigureLimits(t.Context(), turnQueue, limit); err != nil {
			t.Fatal(err)
		}
		f(own)
	})
}

func (t turn) open() *dbq.Client {
	t.Helper()
	c, err := dbq.Open(t.Context(), t.dsn, dbq.WithMigrate())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (t turn) enqueue(ts ...dbq.NewTask) {
	t.Helper()
	if _, err := t.open().Queue(turnQueue).EnqueueMany(t.Context(), ts); err != nil {
		t.Fatal(err)
	}
}

// fill enqueues tasks of each of keys.
func (t turn) fill(keys, each int) {
	t.Helper()
	ts := make([]dbq.NewTask, keys*each)
	for i := range ts {
		ts[i].Key = fmt.Sprintf("k%03d", i%keys)
	}
	t.enqueue(ts...)
}

// take checks out n tasks, and returns their keys.
func (t turn) take(c *dbq.Client, n int) (keys []string) {
	t.Helper()
	tasks, err := c.Queue(turnQueue).Checkout(t.Context(), n, time.Minute)
	if err != nil {
		t.Error(err)
	}
	for _, task := range tasks {
		keys = append(keys, task.Key)
	}
	slices.Sort(keys)
	return keys
}

// takeMeanwhile returns the keys that a checkout gets which waits for the limits while meanwhile runs.
func (t turn) takeMeanwhile(n int, meanwhile func()) []string {
	t.Helper()
	tx, err := t.c.DB().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), "SELECT 1 FROM dbq_kv WHERE namespace = 'limit' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	got := make(chan []string, 1)
	go func() { got <- t.take(t.c, n) }()
	t.waitForLock()
	meanwhile()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	return <-got
}

// waitForLock waits until a session waits for a lock. It polls, because the server tells nobody.
func (t turn) waitForLock() {
	t.Helper()
	const query = "SELECT count(*) > 0 FROM pg_stat_activity " +
		"WHERE datname = current_database() AND wait_event_type = 'Lock'"
	for end := time.Now().Add(10 * time.Second); text(t.T, t.c, query) != "true"; {
		if time.Now().After(end) {
			t.Fatal("no session waits for a lock")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestCheckoutFindsWhatBecomesDueWhileItWaits(t *testing.T) {
	for name, delay := range map[string]time.Duration{"enqueued": 0, "due": 300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			onTurns(t, func(t turn) {
				t.fill(600, 1) // so many that checkouts go by keys
				for left := 600; left > 0; {
					n := len(t.take(t.c, min(left, 400)))
					if n == 0 {
						t.Fatalf("%d tasks are left", left)
					}
					left -= n
				}
				if delay > 0 {
					t.enqueue(dbq.NewTask{Key: "z", Delay: delay})
				}
				got := t.takeMeanwhile(10, func() {
					if delay == 0 {
						t.enqueue(dbq.NewTask{Key: "z"})
					}
					time.Sleep(2 * delay)
				})
				if !slices.Equal(got, []string{"z"}) {
					t.Errorf("got tasks of the keys %v, want one of z", got)
				}
			})
		})
	}
}

func TestTaskThatWasPostponedIsNotTakenForLocked(t *testing.T) {
	onTurns(t, func(t turn) {
		const late = 150 * time.Millisecond
		postponed := func(delay time.Duration) dbq.NewTask {
			unique := &dbq.Unique{Key: "u"}
			if delay > 0 {
				unique.OnConflict = dbq.UniqueDebounce
			}
			return dbq.NewTask{Key: "k010a", Delay: delay, Unique: unique}
		}
		t.enqueue(postponed(0))
		t.fill(turnKeys, 60)
		t.take(t.c, 5)
		t.take(t.c, 5)
		other := t.open().Queue(turnQueue)
		t.takeMeanwhile(30, func() {
			if _, err := other.Enqueue(t.Context(), postponed(late)); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(2 * late)
		if keys := t.take(t.c, turnKeys+1); !slices.Contains(keys, "k010a") {
			t.Errorf("a checkout of one task of each key got those of %v", keys)
		}
	})
}
