package conformance

import (
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
)

func leaseTwice(t *T) {
	c := t.Open()
	q := c.Queue("q")
	for name, ending := range endings() {
		if name == "completeAndDelete" {
			continue // see CompleteTx/CompleteAndDelete
		}
		task := t.takeNew(c.Queue(name), dbq.NewTask{}, long)
		out, err := c.Queue(name).Settle(t.ctx, []dbq.Settlement{ending(task.Lease)})
		t.Must(err)
		t.Must(out[0].Err)
		t.wantLost("after "+name, c.Queue(name), task.Lease)
	}
	task := t.takeNew(q, dbq.NewTask{}, long)
	twice := []dbq.Settlement{dbq.Completed(task.Lease, []byte("one")), dbq.Completed(task.Lease, []byte("two"))}
	out, err := q.Settle(t.ctx, twice)
	t.Must(err)
	t.Must(out[0].Err)
	t.WantErr("the same lease a second time in one call", out[1].Err, dbq.ErrLeaseLost)
	if row := t.wantState(c, task.ID, dbq.StateCompleted); string(row.Result) != "one" {
		t.Errorf("the result is %q, want that of the settlement that was told as done, %q", row.Result, "one")
	}
}

func leaseOldAndNew(t *T) {
	c := t.Open()
	q := c.Queue("q")
	for i, oldFirst := range []bool{true, false} {
		id := t.enqueue(q, dbq.NewTask{})
		old := t.abandon(q).Lease
		fresh := t.takeOver(q, id, long).Lease
		leases, oldAt := []dbq.Lease{old, fresh}, 0
		if !oldFirst {
			leases, oldAt = []dbq.Lease{fresh, old}, 1
		}
		renewed, lost, err := q.ExtendMany(t.ctx, leases, long)
		t.Must(err)
		if len(renewed) != 1 || renewed[0].Fence != fresh.Fence || len(lost) != 1 || lost[0].Fence != old.Fence {
			t.Errorf("ExtendMany of fences %d and %d: renewed %+v, lost %+v", old.Fence, fresh.Fence, renewed, lost)
		}
		result := fmt.Append(nil, "fresh", i)
		ss := []dbq.Settlement{dbq.Completed(fresh, result), dbq.Completed(fresh, result)}
		ss[oldAt] = dbq.Failed(old, dbq.RetryIn(0), errBoom)
		out, err := q.Settle(t.ctx, ss)
		t.Must(err)
		t.WantErr("settling the old lease", out[oldAt].Err, dbq.ErrLeaseLost)
		t.Must(out[1-oldAt].Err)
		if row := t.wantState(c, id, dbq.StateCompleted); string(row.Result) != string(result) {
			t.Errorf("the result is %q, want the fresh holder's, %q", row.Result, result)
		}
	}
}

func leaseMany(t *T) {
	c := t.Open()
	q := c.Queue("q")
	n := min(2*t.statements().Settle.Max+5, 3000)
	t.enqueueMany(q, n, nil)
	tasks := t.checkout(q, n, long)
	if len(tasks) != n {
		t.Fatalf("checkout returned %d tasks, want %d", len(tasks), n)
	}
	t.rand.Shuffle(n, func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	ss, want := make([]dbq.Settlement, n), make([]dbq.State, n)
	for i, task := range tasks {
		switch l := task.Lease; i % 6 {
		case 0:
			ss[i], want[i] = dbq.Completed(l, fmt.Append(nil, i)), dbq.StateCompleted
		case 1:
			ss[i], want[i] = dbq.CompletedAndDeleted(l), state.None
		case 2:
			ss[i], want[i] = dbq.Failed(l, dbq.RetryIn(long), fmt.Errorf("%d", i)), dbq.StateError
		case 3:
			ss[i], want[i] = dbq.Poisoned(l, fmt.Errorf("%d", i)), dbq.StatePoison
		case 4:
			ss[i], want[i] = dbq.Released(l, long), dbq.StateCreated
		case 5:
			l.Fence += 7
			ss[i], want[i] = dbq.Completed(l, nil), dbq.StateProcessing // lost
		}
	}
	out, err := q.Settle(t.ctx, ss)
	t.Must(err)
	rows := map[dbq.State]int{}
	for i, o := range out {
		if i%6 == 5 {
			t.WantErr("a settlement with a wrong fence", o.Err, dbq.ErrLeaseLost)
		} else if o.Err != nil || o.State != want[i] {
			t.Errorf("settlement %d: got %v and error %v, want %v", i, o.State, o.Err, want[i])
		}
		if i > 60 && i < n-60 { // the ends of the batch are looked at row by row, all of it by counting
			continue
		}
		if want[i] == state.None {
			t.wantGone(c, tasks[i].ID)
			continue
		}
		row := t.wantState(c, tasks[i].ID, want[i])
		if kept := i%6 == 0 || i%6 == 2 || i%6 == 3; kept && string(row.Result) != fmt.Sprint(i) {
			t.Errorf("settlement %d left the result %q", i, row.Result)
		}
	}
	for _, task := range t.list(c, dbq.Filter{Queue: "q"}) {
		rows[task.State]++
	}
	wantRows := map[dbq.State]int{}
	for _, s := range want {
		if s != state.None {
			wantRows[s]++
		}
	}
	if fmt.Sprint(rows) != fmt.Sprint(wantRows) {
		t.Errorf("the states are %v, want %v", rows, wantRows)
	}
}

func leaseOtherTask(t *T) {
	c := t.Open()
	q := c.Queue("q")
	t.enqueueMany(q, 2, nil)
	tasks := t.checkout(q, 2, long)
	if len(tasks) != 2 || tasks[0].Fence != tasks[1].Fence {
		t.Fatalf("got %d tasks, want two with equal fences", len(tasks))
	}
	t.Must(q.Complete(t.ctx, tasks[0].Lease, nil))
	t.wantState(c, tasks[0].ID, dbq.StateCompleted)
	t.wantState(c, tasks[1].ID, dbq.StateProcessing)
}

func leaseRetry(t *T) {
	c := t.Open()
	q := c.Queue("q")
	task := t.takeNew(q, dbq.NewTask{}, long)
	for _, retry := range []func() dbq.Retry{
		func() dbq.Retry { return dbq.RetryIn(50 * time.Millisecond) },
		func() dbq.Retry { return dbq.RetryAt(t.now(c).Add(50 * time.Millisecond)) },
	} {
		t.Must(q.Fail(t.ctx, task.Lease, retry(), errBoom))
		due := t.get(c, task.ID).Due
		if due.IsZero() {
			t.Fatalf("the failed task has no due time")
		}
		t.eventually("the failed task is tried again", func() bool {
			tasks := t.checkout(q, 1, long)
			if len(tasks) == 0 {
				return false
			}
			if now := t.now(c); now.Before(due) {
				t.Errorf("tried again at %v, before %v", now, due)
			}
			task = tasks[0]
			return true
		})
	}
	if string(task.Result) != "boom" {
		t.Errorf("the next attempt sees the result %q, want the error of the last one", task.Result)
	}
}

func leaseManyCompleted(t *T) {
	c := t.Open()
	t.manyCompleted(c, c.Queue("kept"), dbq.StateCompleted, func(l dbq.Lease) dbq.Settlement { return dbq.Completed(l, nil) })
	t.manyCompleted(c, c.Queue("removed"), state.None, dbq.CompletedAndDeleted)
}

// manyCompleted completes 60 leases by one call, some of which are lost, and wants the others' tasks where to says.
func (t *T) manyCompleted(c *dbq.Client, q *dbq.Queue, to dbq.State, ending func(dbq.Lease) dbq.Settlement) {
	const n = 60
	t.enqueueMany(q, n, nil)
	tasks := t.checkout(q, n, long)
	if len(tasks) != n {
		t.Fatalf("checkout returned %d tasks, want %d", len(tasks), n)
	}
	ends := make([]dbq.Settlement, n)
	lost := map[int]dbq.Task{} // as they must stay
	for i, task := range tasks {
		ends[i] = ending(task.Lease)
		switch {
		case i%10 == 3: // out again under the next fence
			t.Must(q.Release(t.ctx, task.Lease, 0))
			again := t.take(q, long)
			lost[i] = t.get(c, again.ID)
		case i%10 == 5: // settled another way
			t.Must(q.Fail(t.ctx, task.Lease, dbq.Park, errBoom))
			lost[i] = t.get(c, task.ID)
		case i%10 == 7: // completed with a result
			t.Must(q.Complete(t.ctx, task.Lease, []byte("kept")))
			lost[i] = t.get(c, task.ID)
		}
	}
	out, err := q.Settle(t.ctx, ends)
	t.Must(err)
	for i, end := range ends {
		before, was := lost[i]
		switch id := end.Lease.Task; {
		case was:
			t.WantErr("completing with a lost lease", out[i].Err, dbq.ErrLeaseLost)
			t.wantUnchanged("completing with a lost lease", c, before)
		case out[i].Err != nil || out[i].State != to:
			t.Errorf("completing: got %v, %v", out[i].State, out[i].Err)
		case to == state.None:
			t.wantGone(c, id)
		default:
			if task := t.wantState(c, id, to); task.Result != nil || !task.Due.IsZero() || !task.LeaseUntil.IsZero() || task.Attempt != 1 {
				t.Errorf("got %+v, want it completed without a result", task)
			}
		}
	}
}
