package workflow_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/workflow"
)

// A workflow of 100,000 parts and one callback, which needs all of them: each is handed out once, and the callback
// after the last of them. No part may cost more than it would in a small workflow, so the time is bounded.
func TestFanOutOfManyWithOneCallback(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes ten seconds: 100,000 tasks are enqueued and completed")
	}
	const parts, batch, most = 100_000, 1000, 3 * time.Minute
	ctx := t.Context()
	c, err := dbq.Open(ctx, "sqlite:"+filepath.Join(t.TempDir(), "queue.db")+"?synchronous=normal", dbq.WithMigrate())
	check.OK(t, err)
	defer c.Close()
	q := c.Queue("q")
	ss := make([]workflow.Step, parts, parts+1)
	for i := range ss {
		ss[i] = workflow.Step{Name: fmt.Sprint(i), Queue: "q"}
	}
	ss = append(ss, workflow.Step{Name: "callback", Queue: "q", Needs: workflow.Names(ss)})
	begun := time.Now()
	w, err := workflow.Enqueue(ctx, c, ss)
	check.OK(t, err)
	enqueued := time.Since(begun)
	callback := w.TaskIDs[parts]
	seen := make(map[string]bool, parts)
	var first, last time.Duration // of a batch
	for len(seen) < parts {
		if time.Since(begun) > most {
			t.Fatalf("%d of %d parts are completed after %v", len(seen), parts, most)
		}
		start := time.Now()
		tasks, err := q.Checkout(ctx, batch, time.Minute)
		check.OK(t, err)
		if len(tasks) == 0 {
			t.Fatalf("nothing is due after %d of %d parts", len(seen), parts)
		}
		settlements := make([]dbq.Settlement, len(tasks))
		for i, task := range tasks {
			if task.ID == callback {
				t.Fatalf("the callback was handed out after %d of %d parts", len(seen), parts)
			}
			if seen[task.ID.String()] {
				t.Fatalf("part %s was handed out twice", task.ID)
			}
			seen[task.ID.String()] = true
			settlements[i] = dbq.Settlement{Lease: task.Lease, Outcome: dbq.Completed(nil)}
		}
		if len(seen) == parts { // it is due only after the last part
			if task, err := c.Get(ctx, callback); err != nil || !task.Blocked {
				t.Errorf("before the last parts, the callback is blocked: %v, %v", task.Blocked, err)
			}
		}
		done, err := q.SettleMany(ctx, settlements)
		check.OK(t, err)
		for _, d := range done {
			if d.Err != nil {
				t.Fatal(d.Err)
			}
		}
		if last = time.Since(start); first == 0 {
			first = last
		}
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		check.OK(t, workflow.Resume(ctx, c))
		tasks, err := q.Checkout(ctx, 2, time.Minute)
		check.OK(t, err)
		if len(tasks) == 1 && tasks[0].ID == callback {
			break
		}
		if len(tasks) > 0 || time.Now().After(end) {
			t.Fatalf("after the last part, %d tasks were handed out, want the callback", len(tasks))
		}
	}
	read := 0
	for n, err := range workflow.Needs(ctx, c, callback) {
		if err != nil || n.State != dbq.StateCompleted {
			t.Fatalf("part %q is %v: %v", n.Name, n.State, err)
		}
		read++
	}
	if read != parts {
		t.Errorf("the callback reads %d results, want %d", read, parts)
	}
	t.Logf("enqueued in %v, all in %v; the first batch of %d took %v, the last %v", enqueued, time.Since(begun), batch,
		first, last)
}
