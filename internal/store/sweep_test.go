package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

func open(t *testing.T) (*dbq.Client, *store.Store) {
	t.Helper()
	c, err := dbq.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "q.db"), dbq.WithMigrate())
	check.OK(t, err)
	t.Cleanup(func() { c.Close() })
	return c, access.Of(c).Store
}

// oldCompleted adds completed tasks with ids of a while ago.
func oldCompleted(t *testing.T, c *dbq.Client, queue string, n int, ago time.Duration) []uuid.UUID {
	t.Helper()
	at := time.Now().Add(-ago)
	tasks, ids := make([]dbq.NewTask, n), make([]uuid.UUID, n)
	for i := range tasks {
		id := store.FirstID(at.Add(time.Duration(i) * time.Millisecond))
		id[6], id[8], id[15] = 0x70, 0x80, queue[0]
		tasks[i].ID, ids[i] = id, id
	}
	if _, err := c.Queue(queue).EnqueueMany(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
	_, err := c.DB().ExecContext(t.Context(), fmt.Sprintf(
		"UPDATE dbq_task SET state = %d, due = NULL, updated = %d WHERE queue = '%s'",
		dbq.StateCompleted, at.UnixMicro(), queue))
	check.OK(t, err)
	return ids
}

func TestCleanPassesNoTaskTwiceInARound(t *testing.T) {
	t.Parallel()
	c, s := open(t)
	const n, keep = store.SweepWindow + 10, 24 * time.Hour
	oldCompleted(t, c, "other", n, 3*keep)
	oldCompleted(t, c, "mine", n, 2*keep)
	clean := func(want int) {
		t.Helper()
		done, err := s.Clean(t.Context(), "mine", store.Retention{Completed: keep}, "")
		if err != nil || done.Tasks != want {
			t.Fatalf("cleaned %+v, error %v, want %d tasks", done, err, want)
		}
	}
	clean(n)
	passed, edge := s.Passed("mine", dbq.StateCompleted), store.FirstID(time.Now().Add(-keep-2*store.SweepLag))
	if string(passed[:]) < string(edge[:]) {
		t.Fatalf("the cursor is at %v, behind the old tasks of another queue", passed)
	}
	if more, err := s.AnyAbove(t.Context(), passed); more || err != nil {
		t.Fatalf("the next sweep would pass old tasks again (error %v)", err)
	}

	late := oldCompleted(t, c, "mine", 1, 2*keep)[0] // as one that ended after it had been passed
	clean(0)
	s.EndRound("mine", dbq.StateCompleted, keep)
	clean(1)
	if _, err := c.Get(t.Context(), late); err == nil {
		t.Error("the next round left a task that had been passed before it ended")
	}
}

func TestCleanContinuesWhereItEnded(t *testing.T) {
	t.Parallel()
	c, s := open(t)
	const n, keep = 3*store.SweepWindow + 1, 24 * time.Hour
	oldCompleted(t, c, "q", n, 2*keep)
	sum := 0
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), pause)
		done, err := s.Clean(ctx, "q", store.Retention{Completed: keep}, "")
		cancel()
		sum += done.Tasks
		if err == nil {
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) || pause > time.Minute {
			t.Fatalf("within %v %d tasks were cleaned, with the error %v", pause, done.Tasks, err)
		}
	}
	if sum != n {
		t.Errorf("%d tasks were cleaned in all, want %d", sum, n)
	}
}
