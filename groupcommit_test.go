package dbq_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/google/uuid"
)

// Callers of one process share commits on SQLite. These tests check that each caller still gets its own guarantees.

func fileQueue(t *testing.T) *dbq.Queue {
	t.Helper()
	t.Parallel()
	c, err := dbq.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "queue.db"), dbq.WithMigrate())
	check.OK(t, err)
	t.Cleanup(func() { c.Close() })
	return c.Queue("q")
}

// atOnce runs f for each of n callers.
func atOnce(n int, f func(caller int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

func TestTasksOfAProducerKeepTheirOrder(t *testing.T) {
	q := fileQueue(t)
	const producers, each = 8, 60
	atOnce(producers, func(p int) {
		for i := range each {
			if _, err := q.Enqueue(t.Context(), dbq.NewTask{Payload: []byte{byte(p), byte(i)}}); err != nil {
				t.Error(err)
			}
		}
	})
	tasks, err := q.Checkout(t.Context(), producers*each, time.Minute)
	if err != nil || len(tasks) != producers*each {
		t.Fatalf("%d tasks (%v)", len(tasks), err)
	}
	var next [producers]byte
	for _, task := range tasks {
		if p, i := task.Payload[0], task.Payload[1]; i != next[p] {
			t.Fatalf("of producer %d: task %d before task %d", p, i, next[p])
		}
		next[task.Payload[0]]++
	}
}

func TestConcurrentSettlementsOfATaskSucceedOnce(t *testing.T) {
	q := fileQueue(t)
	const callers, n = 4, 60
	if _, err := q.EnqueueMany(t.Context(), make([]dbq.NewTask, n)); err != nil {
		t.Fatal(err)
	}
	tasks, err := q.Checkout(t.Context(), n, time.Minute)
	if err != nil || len(tasks) != n {
		t.Fatalf("%d tasks (%v)", len(tasks), err)
	}
	var mu sync.Mutex
	done := map[uuid.UUID]int{}
	atOnce(callers, func(int) {
		for _, i := range rand.Perm(n) {
			l := tasks[i].Lease
			var err error
			if i%2 == 0 {
				err = q.Complete(t.Context(), l, nil)
			} else {
				err = q.Settle(t.Context(), l, dbq.Deleted())
			}
			mu.Lock()
			if err == nil {
				done[l.TaskID]++
			} else if !errors.Is(err, dbq.ErrLeaseLost) {
				t.Error(err)
			}
			mu.Unlock()
		}
	})
	for i, task := range tasks {
		if done[task.ID] != 1 {
			t.Errorf("task %d was settled %d times", i, done[task.ID])
		}
	}
	stats, err := admin.New(q.Client()).Stats(t.Context())
	if err != nil || len(stats) != 1 || stats[0].Count[dbq.StateCompleted] != n/2 ||
		stats[0].Count[dbq.StateProcessing] != 0 {
		t.Errorf("%+v (%v)", stats, err)
	}
}

// A cancelled enqueue reports that nothing happened, which must be true, or ErrMayHaveHappened.
func TestCancelledProducersDoNotAffectOthers(t *testing.T) {
	q := fileQueue(t)
	const producers, each = 8, 60
	var mu sync.Mutex
	acknowledged, unknown := map[uuid.UUID]bool{}, map[uuid.UUID]bool{}
	atOnce(producers, func(p int) {
		for range each {
			ctx, cancel := context.WithCancel(t.Context())
			if p%2 == 0 {
				time.AfterFunc(time.Duration(rand.IntN(300))*time.Microsecond, cancel)
			}
			id := dbq.NewID()
			_, err := q.Enqueue(ctx, dbq.NewTask{ID: id})
			cancel()
			mu.Lock()
			switch {
			case err == nil:
				acknowledged[id] = true
			case errors.Is(err, dbq.ErrMayHaveHappened) && p%2 == 0:
				unknown[id] = true
			case !errors.Is(err, context.Canceled) || p%2 == 1:
				t.Errorf("producer %d: %v", p, err)
			}
			mu.Unlock()
		}
	})
	tasks, err := q.Checkout(t.Context(), producers*each, time.Minute)
	check.OK(t, err)
	for _, task := range tasks {
		if !acknowledged[task.ID] && !unknown[task.ID] {
			t.Errorf("%v is there, and its producer was told that it is not", task.ID)
		}
		delete(acknowledged, task.ID)
	}
	if len(acknowledged) > 0 {
		t.Errorf("%d acknowledged tasks are not there", len(acknowledged))
	}
}
