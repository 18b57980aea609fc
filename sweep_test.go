package dbq

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/google/uuid"
)

// oldTasks adds tasks with ids of a while ago, and moves all of the queue's tasks into a state for that long.
func oldTasks(t *testing.T, c *Client, queue string, n int, ago time.Duration, state State) []uuid.UUID {
	t.Helper()
	at := time.Now().Add(-ago)
	tasks := make([]NewTask, n)
	for i := range tasks {
		tasks[i].ID = firstID(at.Add(time.Duration(i) * time.Millisecond))
		tasks[i].ID[6], tasks[i].ID[8] = 0x70, 0x80
		tasks[i].ID[15] = queue[0]
	}
	if _, err := c.Queue(queue).EnqueueMany(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
	_, err := c.DB().ExecContext(t.Context(), fmt.Sprintf("UPDATE dbq_task SET state = %d, due = NULL, updated = %d WHERE queue = '%s'",
		state, at.UnixMicro(), queue))
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]uuid.UUID, n)
	for i := range tasks {
		ids[i] = tasks[i].ID
	}
	return ids
}

func TestCleanPassesNoTaskTwiceInARound(t *testing.T) {
	t.Parallel()
	c, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "q.db"), WithMigrate())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const keep = 24 * time.Hour
	q := c.Queue("mine")
	oldTasks(t, c, "other", sweepWindow+10, 3*keep, StateCompleted)
	oldTasks(t, c, "mine", sweepWindow+10, 2*keep, StateCompleted)
	clean := func(want int) {
		t.Helper()
		if done, err := q.Clean(t.Context(), Retention{Completed: keep}); err != nil || done.Tasks != want {
			t.Fatalf("cleaned %+v, error %v, want %d tasks", done, err, want)
		}
	}
	clean(sweepWindow + 10)
	at := c.sweeps.all[sweepKey{"mine", StateCompleted}]
	if edge := firstID(time.Now().Add(-keep - 2*sweepLag)); string(at.passed[:]) < string(edge[:]) {
		t.Fatalf("the cursor is at %v, behind the old tasks of another queue", at.passed)
	}
	if _, more, err := c.idBehind(t.Context(), at.passed, uuid.Max, 0); more || err != nil {
		t.Fatalf("the next sweep would pass old tasks again (error %v)", err)
	}

	late := oldTasks(t, c, "mine", 1, 2*keep, StateCompleted)[0] // as one that ended after it had been passed
	clean(0)
	c.sweeps.all[sweepKey{"mine", StateCompleted}] = sweep{passed: at.passed, began: time.Now().Add(-keep / sweepRounds)}
	clean(1)
	if _, err := c.Get(t.Context(), late); err == nil {
		t.Error("the next round left a task that had been passed before it ended")
	}
}

func TestCleanGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	c, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "q.db"), WithMigrate())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const n, keep = 3*sweepWindow + 1, 24 * time.Hour
	oldTasks(t, c, "q", n, 2*keep, StateCompleted)
	sum := 0
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), pause)
		done, err := c.Queue("q").Clean(ctx, Retention{Completed: keep})
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

func TestSweepsAreBounded(t *testing.T) {
	t.Parallel()
	var s sweeps
	for i := range 2 * sweepMost {
		s.begin(sweepKey{fmt.Sprint(i), StateCompleted}, time.Hour)
	}
	if len(s.all) != sweepMost {
		t.Errorf("%d cursors are remembered, want %d", len(s.all), sweepMost)
	}
}

func TestNextID(t *testing.T) {
	t.Parallel()
	for from, to := range map[uuid.UUID]uuid.UUID{{}: {15: 1}, {15: 255}: {14: 1}, {14: 1, 15: 255}: {14: 2}} {
		if got := nextID(from); got != to {
			t.Errorf("behind %v is %v, want %v", from, got, to)
		}
	}
}

func TestLooksAreBounded(t *testing.T) {
	t.Parallel()
	var l looks
	now := time.Now()
	for i := range 3 * looksMost {
		if !l.due(fmt.Sprint(i), now) {
			t.Fatalf("queue %d was looked at before", i)
		}
		if len(l.last) > looksMost {
			t.Fatalf("%d queues are remembered", len(l.last))
		}
	}
}
