package admin_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/check"
)

// TestKeyThatIsNotUTF8GetsItsTurnsOnly enqueues by SQL: SQLite checks no text, so programs in other languages can store
// such a key.
func TestKeyThatIsNotUTF8GetsItsTurnsOnly(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c, err := dbq.Open(ctx, "sqlite:"+filepath.Join(t.TempDir(), "w.db"), dbq.WithMigrate())
	check.OK(t, err)
	defer c.Close()
	q := c.Queue("q")
	check.OK(t, admin.New(c).ConfigureLimits(ctx, "q", func(l *admin.QueueLimits) { l.PerKey = true }))
	for range 20 {
		if _, err := c.DB().ExecContext(ctx,
			"INSERT INTO dbq_enqueue (queue, kind, task_key) VALUES ('q', 'k', CAST(x'ff' AS TEXT))"); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		for _, k := range []string{"a", "b"} {
			if _, err := q.Enqueue(ctx, dbq.NewTask{Key: k}); err != nil {
				t.Fatal(err)
			}
		}
	}
	seen := map[string]int{}
	for range 18 { // three keys: each gets six turns
		tasks, err := q.Checkout(ctx, 1, time.Minute)
		check.OK(t, err)
		for _, task := range tasks {
			seen[task.Key]++
			check.OK(t, q.Complete(ctx, task.Lease, nil))
		}
	}
	if seen["a"] != 6 || seen["b"] != 6 {
		t.Errorf("of 18 checkouts of a task each, the key a got %d, b %d, and the one that is not UTF-8 got %d",
			seen["a"], seen["b"], seen["\xff"])
	}
}

// TestLargePayloadsOfAKeyDelayNoOtherKey checks out with a limit of bytes that a second task often does not fit.
func TestLargePayloadsOfAKeyDelayNoOtherKey(t *testing.T) {
	t.Parallel()
	for _, backlog := range []bool{false, true} {
		ctx := t.Context()
		c, err := dbq.Open(ctx, "sqlite:"+filepath.Join(t.TempDir(), "w.db"), dbq.WithMigrate(),
			dbq.WithMaxCheckoutBytes(1000))
		check.OK(t, err)
		defer c.Close()
		q := c.Queue("q")
		check.OK(t, admin.New(c).ConfigureLimits(ctx, "q", func(l *admin.QueueLimits) { l.PerKey = true }))
		var tasks []dbq.NewTask
		large := 40
		if backlog {
			large = 600
		}
		for range large {
			tasks = append(tasks, dbq.NewTask{Key: "a", Payload: make([]byte, 900)})
		}
		tasks = append(tasks, dbq.NewTask{Key: "b", Payload: make([]byte, 200)})
		if _, err := q.EnqueueMany(ctx, tasks); err != nil {
			t.Fatal(err)
		}
		served := 0
		for i := range 20 {
			tasks, err := q.Checkout(ctx, 2, time.Minute)
			check.OK(t, err)
			for _, task := range tasks {
				if task.Key == "b" {
					served = i + 1
				}
				check.OK(t, q.Complete(ctx, task.Lease, nil))
			}
		}
		if served == 0 {
			t.Errorf("backlog %v: in 20 checkouts, the key b got no turn beside a key with large tasks", backlog)
		}
	}
}

// A turn goes on after the last key whose task fitted, however the ids of the tasks are ordered.
func TestTurnGoesOnAfterTheLastKeyThatFitted(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c, err := dbq.Open(ctx, "sqlite::memory:", dbq.WithMigrate(), dbq.WithMaxCheckoutBytes(1000))
	check.OK(t, err)
	defer c.Close()
	q := c.Queue("q")
	check.OK(t, admin.New(c).ConfigureLimits(ctx, "q", func(l *admin.QueueLimits) { l.PerKey = true }))
	if _, err := q.EnqueueMany(ctx, []dbq.NewTask{
		{Key: "c", Payload: make([]byte, 900)}, {Key: "b", Payload: make([]byte, 100)},
		{Key: "b", Payload: make([]byte, 100)}, {Key: "a", Payload: make([]byte, 100)},
	}); err != nil {
		t.Fatal(err)
	}
	keys := func(n int) (keys []string) {
		t.Helper()
		tasks, err := q.Checkout(ctx, n, time.Minute)
		check.OK(t, err)
		for _, task := range tasks {
			keys = append(keys, task.Key)
		}
		slices.Sort(keys)
		return keys
	}
	if got := keys(3); !slices.Equal(got, []string{"a", "b"}) {
		t.Fatalf("the first checkout leased tasks of %v, want a and b: that of c does not fit", got)
	}
	if got := keys(1); !slices.Equal(got, []string{"c"}) {
		t.Errorf("after a and b it was the turn of %v, want c", got)
	}
}
